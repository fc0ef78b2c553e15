/*
 * segment.h
 *		The piece of shared memory that shared rings are kept in.
 */
#ifndef CHASH_SEGMENT_H
#define CHASH_SEGMENT_H

#include "../compat.h"

/* Fills a new segment, before anybody else sees it. */
typedef void (*ChashSegmentFormat)(void *segment, Size size);

/* Is called by each process that has the segment from now on. */
typedef void (*ChashSegmentAttach)(void *segment);

/* chash.cache_size: bytes of the segment in kilobytes; 0: there is none. */
extern int chash_cache_size;

/* The smallest segment, in kilobytes. */
#define CHASH_SMALLEST_SEGMENT 128

/* To be called from _PG_init. */
extern void chash_segment_init(ChashSegmentFormat format, ChashSegmentAttach attach);

/*
 * Gives the segment, or NULL if there is none and why: PostgreSQL before 17
 * without chash in shared_preload_libraries, chash.cache_size is 0, or the
 * operating system has no memory to give, which is logged.  Needs a transaction.
 */
extern void *chash_segment(void);

/* Would preloading chash help? */
extern bool chash_segment_needs_preload(void);

#endif
