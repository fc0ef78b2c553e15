/*
 * replicas.h
 *		The replica walk: the first n distinct nodes clockwise from a position.
 */
#ifndef CHASH_REPLICAS_H
#define CHASH_REPLICAS_H

#include "ring.h"

/*
 * Working memory of walks on one ring, used again and again.  Marks are stamps
 * of the latest walk, so that nothing need be cleared between walks.
 */
typedef struct ChashWalk
{
	const ChashRing *ring;
	bool live;		  /* pass over the nodes that are down */
	uint32_t limit;	  /* the most replicas a walk may ask for */
	uint32_t wanted;  /* by the latest walk */
	uint32_t rounds;  /* that so many replicas take */
	uint32_t stamp;	  /* of the latest walk */
	uint32_t work;	  /* of all walks */
	uint32_t marks[]; /* nodes: the latest walk that met them; zones: likewise; zones:
					   * nodes met; rounds: next place in the result; rounds: first place */
} ChashWalk;

/* Bytes that a walk takes; `limit` is lowered to the number of nodes. */
extern size_t chash_walk_size(const ChashRing *ring, uint32_t limit);
extern void chash_walk_init(ChashWalk *walk, const ChashRing *ring, uint32_t limit, bool live);

/*
 * Puts the first n distinct nodes from a position clockwise into `nodes`, the
 * owner first, and returns how many there are: n, or all that hold points if
 * they are fewer.  n is at most the walk's limit.
 *
 * Zones take turns: the first node met of each zone, then the second of each,
 * and so on, each round in the order in which the nodes were met.
 */
extern uint32_t chash_walk_from(ChashWalk *walk, int64_t position, uint32_t n, uint32_t *nodes);

/* The same, from the first point at or after the position (chash_ring_find). */
extern uint32_t chash_walk_from_point(ChashWalk *walk, uint32_t point, uint32_t n, uint32_t *nodes);

#endif
