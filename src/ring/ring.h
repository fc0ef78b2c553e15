/*
 * ring.h
 *		A built ring: one immutable, position-independent block of memory.
 *
 *	+-----------+--------------+--------------+---------+---------+-------+-------+
 *	| ChashRing | points       | lows         | buckets | nodes   | zones | names |
 *	| header    | 8 bytes each | uint32       | uint32  | [N]     | [Z]   | bytes |
 *	|           | [P + window] | [P + window] | [B + 1] |         |       |       |
 *	+-----------+--------------+--------------+---------+---------+-------+-------+
 *
 * A position is kept as its offset from the lowest position, shifted up to 64
 * bits whatever the size of the circle.  The P points are sorted by offset,
 * points at one offset by their node's name.  A point has the upper half of its
 * offset beside its owner; the lower halves, which a lookup needs only when two
 * upper halves are equal, stand apart.
 *
 * The circle is cut into B buckets of one size, seven for eight points, so that
 * what nodes need finds room in 16 bytes a point as well.  buckets[b] is the
 * first point in bucket b or behind it.  A lookup starts at the bucket of its
 * position and counts the points before it in a window of a few, without
 * branching: on average there is one.  Behind the last point stand as many
 * points as a window has, at the highest offset there is, with the owner of the
 * first point: the circle wraps, and nobody need test for it.
 *
 * Invariants, asserted when the block is built: offsets ascend; for equal
 * offsets owners ascend; buckets ascend.  Nodes are numbered in the order of
 * their names, 0 to N - 1.  Names are UTF-8.
 *
 * The block holds no pointers, only offsets: it can be copied, and shared.
 */
#ifndef CHASH_RING_H
#define CHASH_RING_H

#include "spec.h"

#define CHASH_NO_NODE UINT32_MAX

/* How many points a lookup compares at once. */
#define CHASH_WINDOW 4

/* A bucket with more points than this is searched by halving. */
#define CHASH_CROWD 16

typedef struct ChashPoint
{
	uint32_t high;	/* upper half of the offset */
	uint32_t owner; /* number of the node */
} ChashPoint;

typedef struct ChashRingNode
{
	uint32_t point_count;
	uint32_t zone;		  /* 0 to zone_count - 1 */
	uint32_t name_offset; /* from the start of the names */
	uint32_t name_length; /* in bytes, without terminator */
	bool down;
} ChashRingNode;

typedef struct ChashRingZone
{
	uint32_t holders; /* nodes with points */
	uint32_t live;	  /* of these, the ones not down */
} ChashRingZone;

typedef struct ChashRing
{
	uint64_t size;	 /* of the whole block, in bytes */
	int64_t lowest;	 /* the circle's lowest position */
	int64_t highest; /* the circle's highest position */
	uint32_t shift;	 /* from an offset on the circle to 64 bits */
	uint32_t point_count;
	uint32_t bucket_count;
	uint32_t node_count;
	uint32_t zone_count;   /* nodes without zone count as one zone */
	uint32_t holder_count; /* nodes with points */
	uint32_t live_count;   /* of these, the ones not down */
	bool crowded;		   /* some bucket is larger than CHASH_CROWD */
	uint64_t lows_offset;  /* where the parts of the block begin */
	uint64_t buckets_offset;
	uint64_t nodes_offset;
	uint64_t zones_offset;
	uint64_t names_offset;
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
extern ChashSpecError chash_ring_build(const ChashSpec *spec, uint32_t point_count, ChashRing *ring,
									   void *scratch);

/* The first live node from a point on; CHASH_NO_NODE if there is none. */
extern uint32_t chash_ring_next_live(const ChashRing *ring, uint32_t point);

static inline const ChashPoint *
chash_ring_points(const ChashRing *ring)
{
	return (const ChashPoint *) (ring + 1);
}

static inline const uint32_t *
chash_ring_lows(const ChashRing *ring)
{
	return (const uint32_t *) ((const char *) ring + ring->lows_offset);
}

static inline const uint32_t *
chash_ring_buckets(const ChashRing *ring)
{
	return (const uint32_t *) ((const char *) ring + ring->buckets_offset);
}

static inline const ChashRingNode *
chash_ring_nodes(const ChashRing *ring)
{
	return (const ChashRingNode *) ((const char *) ring + ring->nodes_offset);
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

/* A position as offset on a circle that has been stretched to 64 bits, and back. */
static inline uint64_t
chash_ring_offset(const ChashRing *ring, int64_t position)
{
	return ((uint64_t) position - (uint64_t) ring->lowest) << ring->shift;
}

static inline int64_t
chash_ring_position(const ChashRing *ring, uint64_t offset)
{
	return (int64_t) ((uint64_t) ring->lowest + (offset >> ring->shift));
}

/* The position of a point; the highest of the circle for point_count. */
static inline int64_t
chash_point_position(const ChashRing *ring, uint32_t point)
{
	return chash_ring_position(ring, (uint64_t) chash_ring_points(ring)[point].high << 32 |
										 chash_ring_lows(ring)[point]);
}

/*
 * The node of a point; of the first one for point_count, which is
 * CHASH_NO_NODE on a ring without points.
 */
static inline uint32_t
chash_point_owner(const ChashRing *ring, uint32_t point)
{
	return chash_ring_points(ring)[point].owner;
}

/* The bucket of the upper half of an offset, 0 to bucket_count - 1. */
static inline uint32_t
chash_ring_bucket(const ChashRing *ring, uint32_t high)
{
	return (uint32_t) (((uint64_t) high * ring->bucket_count) >> 32);
}

/* Goes on to the first point whose offset is not less, among those of one upper half. */
static inline uint32_t
chash_ring_settle_tie(const ChashRing *ring, uint32_t point, uint32_t high, uint32_t low)
{
	const uint32_t *lows = chash_ring_lows(ring);

	while (chash_ring_points(ring)[point].high == high && lows[point] < low)
		point++;
	return point;
}

/*
 * The first point at or after a position, or point_count if that is past the
 * last one: chash_point_owner of the result owns it either way.  The ring must
 * have points, and the position must lie on its circle.
 */
static inline uint32_t
chash_ring_find(const ChashRing *ring, int64_t position)
{
	const ChashPoint *points = chash_ring_points(ring);
	uint64_t offset = chash_ring_offset(ring, position);
	uint32_t high = (uint32_t) (offset >> 32);
	const uint32_t *bucket = chash_ring_buckets(ring) + chash_ring_bucket(ring, high);
	uint32_t point = bucket[0];
	uint32_t before;

	if (ring->crowded)
	{
		uint32_t end = bucket[1];

		while (end - point > CHASH_CROWD)
		{
			uint32_t middle = point + (end - point) / 2;

			if (points[middle].high < high ||
				(points[middle].high == high && chash_ring_lows(ring)[middle] < (uint32_t) offset))
				point = middle + 1;
			else
				end = middle;
		}
	}
	do
	{
		before = 0;
		for (int i = 0; i < CHASH_WINDOW; i++)
			before += points[point + i].high < high;
		point += before;
	} while (before == CHASH_WINDOW);
	if (points[point].high == high)
		return chash_ring_settle_tie(ring, point, high, (uint32_t) offset);
	return point;
}

/* The node that owns a position, CHASH_NO_NODE on a ring without points. */
static inline uint32_t
chash_ring_owner(const ChashRing *ring, int64_t position)
{
	if (ring->point_count == 0)
		return CHASH_NO_NODE;
	return chash_point_owner(ring, chash_ring_find(ring, position));
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
