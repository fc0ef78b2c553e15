/*
 * diff.h
 *		What differs between two rings: the plan.
 */
#ifndef CHASH_DIFF_H
#define CHASH_DIFF_H

#include "ring.h"

/*
 * Positions lo to hi, both included, go from a node of the one ring to a node
 * of the other; CHASH_NO_NODE where there is none.
 */
typedef struct ChashDiffRow
{
	int64_t lo;
	int64_t hi;
	uint32_t from; /* node of the ring before */
	uint32_t to;   /* node of the ring after */
} ChashDiffRow;

/* Where rows go.  `grow` makes room for at least one more, or does not return. */
typedef struct ChashDiffRows
{
	ChashDiffRow *rows;
	size_t count;
	size_t capacity;
	void (*grow)(struct ChashDiffRows *rows);
} ChashDiffRows;

/* Bytes of scratch memory, aligned for uint64_t, for a diff. */
extern size_t chash_diff_scratch_size(const ChashRing *before, const ChashRing *after,
									  uint32_t replicas);

/*
 * Appends a row for each range that differs between two rings of one circle,
 * ascending by lo.  Neighbouring ranges with the same pair of nodes are one
 * row; the wrap is two.
 *
 * With one replica the owners are compared.  With more, the sets of nodes that
 * the walk gives: each node that joins a set gets a row from a node that leaves
 * it, in the order of the walk; when no more are leaving, from the owner; each
 * node that leaves with none to take its place gets a row to CHASH_NO_NODE.
 * Nodes that are down count like all others.
 */
extern void chash_diff(const ChashRing *before, const ChashRing *after, uint32_t replicas,
					   void *scratch, ChashDiffRows *rows);

#endif
