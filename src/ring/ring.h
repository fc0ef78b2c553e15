/*
 * ring.h
 *		A built ring: one immutable, position-independent block of memory.
 *
 *	+-----------+-----------------+------------+-----------+---------+-------+--------+
 *	| ChashRing | positions       | nodes      | owners    | buckets | zones | names  |
 *	| header    | int64 [P + 1]   | [N]        | uint32    | uint32  | [Z]   | bytes  |
 *	|           |                 |            | [P + 1]   | [P + 1] |       |        |
 *	+-----------+-----------------+------------+-----------+---------+-------+--------+
 *
 * The P points are sorted by position, points at one position by their node's
 * name.  owners[i] is the node of point i.  The circle is cut into P buckets
 * of one size; buckets[b] is the first point in bucket b or behind it, so that
 * a lookup starts at the bucket of its position and passes one point on
 * average.  positions[P] is the highest position there can be, owners[P] is
 * owners[0], and buckets[P] is P: behind the last point the circle wraps, and
 * nobody need test for it.  That makes 16 bytes a point.
 *
 * Invariants, asserted when the block is built: positions ascend; for equal
 * positions owners ascend; buckets ascend.  Nodes are numbered in the order of
 * their names, 0 to N - 1.  Names are UTF-8.
 *
 * The block holds no pointers, only offsets: it can be copied, and shared.
 */
#ifndef CHASH_RING_H
#define CHASH_RING_H

#include "spec.h"

#define CHASH_NO_NODE UINT32_MAX

/* A bucket with more points than this is searched by halving. */
#define CHASH_CROWD 8

typedef struct ChashRingNode
{
	int64_t		weight;			/* in thousandths */
	uint32_t	point_count;
	uint32_t	zone;			/* 0 to zone_count - 1 */
	uint32_t	name_offset;	/* from the start of the names */
	uint32_t	name_length;	/* in bytes, without terminator */
	bool		down;
} ChashRingNode;

typedef struct ChashRingZone
{
	uint32_t	holders;		/* nodes with points */
	uint32_t	live;			/* of these, the ones not down */
} ChashRingZone;

typedef struct ChashRing
{
	uint64_t	size;			/* of the whole block, in bytes */
	int64_t		lowest;			/* the circle's lowest position */
	int64_t		highest;		/* the circle's highest position */
	uint32_t	shift;			/* from an offset on the circle to 64 bits */
	uint32_t	point_count;
	uint32_t	node_count;
	uint32_t	zone_count;		/* nodes without zone count as one zone */
	uint32_t	holder_count;	/* nodes with points */
	uint32_t	live_count;		/* of these, the ones not down */
	bool		crowded;		/* some bucket is larger than CHASH_CROWD */
	uint64_t	nodes_offset;
	uint64_t	owners_offset;
	uint64_t	buckets_offset;
	uint64_t	zones_offset;
	uint64_t	names_offset;
} ChashRing;

/* Bytes of a ring with that many points, and of the scratch memory for building it. */
extern size_t chash_ring_size(const ChashSpec *spec, uint32_t point_count);
extern size_t chash_ring_scratch_size(const ChashSpec *spec, uint32_t point_count);

/*
 * Builds the ring of a spec that chash_spec_check has passed, with the number
 * of points that it gave, in memory of chash_ring_size bytes; both pieces of
 * memory are aligned for uint64_t.  Fails with CHASH_SPEC_BAD_OWNERS if a
 * partition has two owners.
 */
extern ChashSpecError chash_ring_build(const ChashSpec *spec, uint32_t point_count,
									   ChashRing *ring, void *scratch);

/* The first live node from a point on; CHASH_NO_NODE if there is none. */
extern uint32_t chash_ring_next_live(const ChashRing *ring, uint32_t point);

static inline const int64_t *
chash_ring_positions(const ChashRing *ring)
{
	return (const int64_t *) (ring + 1);
}

static inline const ChashRingNode *
chash_ring_nodes(const ChashRing *ring)
{
	return (const ChashRingNode *) ((const char *) ring + ring->nodes_offset);
}

static inline const uint32_t *
chash_ring_owners(const ChashRing *ring)
{
	return (const uint32_t *) ((const char *) ring + ring->owners_offset);
}

static inline const uint32_t *
chash_ring_buckets(const ChashRing *ring)
{
	return (const uint32_t *) ((const char *) ring + ring->buckets_offset);
}

static inline const ChashRingZone *
chash_ring_zones(const ChashRing *ring)
{
	return (const ChashRingZone *) ((const char *) ring + ring->zones_offset);
}

/* The name of a node: nodes[node].name_length bytes of UTF-8, no terminator. */
static inline const char *
chash_ring_name(const ChashRing *ring, uint32_t node)
{
	return (const char *) ring + ring->names_offset + chash_ring_nodes(ring)[node].name_offset;
}

/* The bucket of a position, 0 to point_count - 1; the ring must have points. */
static inline uint32_t
chash_ring_bucket(const ChashRing *ring, int64_t position)
{
	uint64_t	offset = ((uint64_t) position - (uint64_t) ring->lowest) << ring->shift;

	return (uint32_t) (((offset >> 32) * ring->point_count) >> 32);
}

/*
 * The first point at or after a position, or point_count if that is past the
 * last one: the owner is owners[] of the result either way.  The ring must
 * have points, and the position must lie on its circle.
 */
static inline uint32_t
chash_ring_find(const ChashRing *ring, int64_t position)
{
	const int64_t *positions = chash_ring_positions(ring);
	const uint32_t *bucket = chash_ring_buckets(ring) + chash_ring_bucket(ring, position);
	uint32_t	point = bucket[0];

	if (ring->crowded)
	{
		uint32_t	end = bucket[1];

		while (end - point > CHASH_CROWD)
		{
			uint32_t	middle = point + (end - point) / 2;

			if (positions[middle] < position)
				point = middle + 1;
			else
				end = middle;
		}
	}
	while (positions[point] < position)
		point++;
	return point;
}

/* The node that owns a position, CHASH_NO_NODE on a ring without points. */
static inline uint32_t
chash_ring_owner(const ChashRing *ring, int64_t position)
{
	if (ring->point_count == 0)
		return CHASH_NO_NODE;
	return chash_ring_owners(ring)[chash_ring_find(ring, position)];
}

/* The first live node at or after a position; CHASH_NO_NODE if there is none. */
static inline uint32_t
chash_ring_live_owner(const ChashRing *ring, int64_t position)
{
	if (ring->live_count != ring->holder_count)
		return chash_ring_next_live(ring, chash_ring_find(ring, position));
	return chash_ring_owner(ring, position);
}

/* Part of the circle, 0 to 1, that the positions lo to hi are. */
static inline double
chash_ring_share(const ChashRing *ring, int64_t lo, int64_t hi)
{
	return ((double) ((uint64_t) hi - (uint64_t) lo) + 1.0) /
		((double) ((uint64_t) ring->highest - (uint64_t) ring->lowest) + 1.0);
}

#endif
