/*
 * ranges.h
 *		The ranges of positions that nodes own, in the order of the circle.
 */
#ifndef CHASH_RANGES_H
#define CHASH_RANGES_H

#include "ring.h"

/* Positions lo to hi, both included. */
typedef struct ChashRange
{
	int64_t lo;
	int64_t hi;
	uint32_t node;
} ChashRange;

/* Where the walk over the ranges stands; start with {0}. */
typedef struct ChashRangeCursor
{
	uint32_t point; /* the next point to look at */
	uint32_t work;
	bool done;
} ChashRangeCursor;

/*
 * Gives the next range; false after the last.  Neighbours with one owner are
 * one range.  The range that wraps comes as two, at both ends of the circle,
 * unless one node owns everything.
 */
extern bool chash_ranges_next(const ChashRing *ring, ChashRangeCursor *cursor, ChashRange *range);

#endif
