/*
 * result.h
 *		What functions that read rings have in common.
 */
#ifndef CHASH_RESULT_H
#define CHASH_RESULT_H

#include "../compat.h"

#include "../cache/cache.h"

#include "fmgr.h"

/* The ring that a text argument names, as the active snapshot sees it. */
extern ChashCachedRing *chash_get_ring(FunctionCallInfo fcinfo, int argument, int64 as_of);

/* The names of a ring's nodes as texts, each made when first wanted. */
typedef struct ChashNames
{
	const ChashRing *ring;
	Datum *texts;
} ChashNames;

extern void chash_names_init(ChashNames *names, const ChashRing *ring);

/* The name of a node; null for CHASH_NO_NODE. */
extern Datum chash_name(ChashNames *names, uint32 node, bool *isnull);

/*
 * The part of the circle, 0 to 1, for which each node is among the first
 * `replicas` nodes; with 1, the part that it owns.
 */
extern double *chash_shares(const ChashRing *ring, uint32 replicas);

#endif
