/*
 * ring.h
 *		A built ring: one immutable, position-independent block of memory.
 *
 *	+-----------+----------+---------+---------------+---------+-------+-------+
 *	| ChashRing | lines    | offsets | owners        | nodes   | zones | names |
 *	| header    | 64 bytes | uint64  | uint16 or -32 | [N]     | [Z]   | bytes |
 *	| 128 bytes | [L]      | [P + 1] | [P + 1]       |         |       |       |
 *	+-----------+----------+---------+---------------+---------+-------+-------+
 *
 * A position is kept as its offset from the lowest position, shifted up to 64
 * bits whatever the size of the circle.  The P points are sorted by offset,
 * points at one offset by their node's name.  Behind the last one stands another,
 * at the highest offset there is, with the owner of the first: the circle wraps.
 *
 * What a lookup costs is waiting for memory.  So the circle is cut into L equal
 * parts, and all that most lookups need of a part is in one line of the
 * processor's cache: for each of its points, in order, eight bits that say where
 * in the part it is, and its owner; then the owner of the first point behind it.
 * As many points as are before a position, by those bits, so many owners are
 * skipped.  Only where a point has the same bits as the position, or the part has
 * more points than its line (both together are five in a hundred lookups), are the
 * exact offsets searched.
 *
 * With more nodes than 16 bits can number, or no points, the ring is `plain`: its
 * owners have 32 bits and are not in the lines.
 *
 * Invariants, asserted when the block is built: offsets ascend; for equal
 * offsets owners ascend; lines begin with ascending points.  Nodes are numbered
 * in the order of their names, 0 to N - 1.  Names are UTF-8.
 *
 * The block holds no pointers, only offsets: it can be copied, and shared.  Where
 * it is aligned for 64 bytes, lookups are fastest.
 */
#ifndef CHASH_RING_H
#define CHASH_RING_H

#include "spec.h"
#include "vector.h"

#define CHASH_NO_NODE UINT32_MAX

/* Points that find room in a line. */
#define CHASH_LINE_SLOTS 20

/* A part of the circle; it has 23 points for two lines on average. */
typedef struct ChashLine
{
	uint8_t places[CHASH_LINE_SLOTS];  /* of its points in the part; 255 where there is none */
	uint16_t owners[CHASH_LINE_SLOTS]; /* of its points, then of the first behind them */
	uint32_t first;					   /* number of its first point */
} ChashLine;

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
	uint32_t line_count;
	uint32_t node_count;
	uint32_t zone_count;   /* nodes without zone count as one zone */
	uint32_t holder_count; /* nodes with points */
	uint32_t live_count;   /* of these, the ones not down */
	bool plain;			   /* owners have 32 bits, and are not in the lines */
	uint64_t offsets_at;   /* where the parts of the block begin */
	uint64_t owners_at;
	uint64_t nodes_at;
	uint64_t zones_at;
	uint64_t names_at;
} ChashRing;

#define CHASH_LINES_AT 128

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

/* The number of the node of that name, in UTF-8; CHASH_NO_NODE if there is none. */
extern uint32_t chash_ring_find_node(const ChashRing *ring, const char *name, size_t length);

/* The first live node from a point on; CHASH_NO_NODE if there is none. */
extern uint32_t chash_ring_next_live(const ChashRing *ring, uint32_t point);

/* The first point at or after an offset, by the exact offsets of a line's points. */
extern uint32_t chash_ring_search(const ChashRing *ring, uint32_t line, uint64_t offset);

static inline const ChashLine *
chash_ring_lines(const ChashRing *ring)
{
	return (const ChashLine *) ((const char *) ring + CHASH_LINES_AT);
}

static inline const uint64_t *
chash_ring_offsets(const ChashRing *ring)
{
	return (const uint64_t *) ((const char *) ring + ring->offsets_at);
}

static inline const ChashRingNode *
chash_ring_nodes(const ChashRing *ring)
{
	return (const ChashRingNode *) ((const char *) ring + ring->nodes_at);
}

static inline const ChashRingZone *
chash_ring_zones(const ChashRing *ring)
{
	return (const ChashRingZone *) ((const char *) ring + ring->zones_at);
}

/* The name of a node: nodes[node].name_length bytes of UTF-8, no terminator. */
static inline const char *
chash_ring_name(const ChashRing *ring, uint32_t node)
{
	return (const char *) ring + ring->names_at + chash_ring_nodes(ring)[node].name_offset;
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
	return chash_ring_position(ring, chash_ring_offsets(ring)[point]);
}

/*
 * The node of a point; of the first one for point_count, which is
 * CHASH_NO_NODE on a ring without points.
 */
static inline uint32_t
chash_point_owner(const ChashRing *ring, uint32_t point)
{
	const char *owners = (const char *) ring + ring->owners_at;

	return ring->plain ? ((const uint32_t *) owners)[point] : ((const uint16_t *) owners)[point];
}

/* An offset in units of a line: 32 bits for its number, 32 for the place in it. */
static inline uint64_t
chash_ring_place(const ChashRing *ring, uint64_t offset)
{
	return (offset >> 32) * ring->line_count;
}

/*
 * How many points of a line are before a place, the upper eight bits of which
 * count; CHASH_LINE_SLOTS if only the exact offsets can tell.
 */
static inline uint32_t
chash_line_rank(const ChashLine *line, uint64_t place)
{
	uint8_t wanted = (uint8_t) (place >> 24);
	uint32_t rank = 0;

#ifdef CHASH_SSE2
	/* All at once; the two vectors overlap. */
	__m128i all = _mm_set1_epi8((char) wanted);
	__m128i low = _mm_loadu_si128((const __m128i *) line->places);
	__m128i high = _mm_loadu_si128((const __m128i *) (line->places + CHASH_LINE_SLOTS - 16));
	uint32_t after = (uint32_t) _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(low, all), low)) |
					 (uint32_t) _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(high, all), high))
						 << (CHASH_LINE_SLOTS - 16);

	rank = (uint32_t) __builtin_ctz(after | 1u << CHASH_LINE_SLOTS);
#else
	for (int i = 0; i < CHASH_LINE_SLOTS; i++)
		rank += line->places[i] < wanted;
#endif
	return rank < CHASH_LINE_SLOTS && line->places[rank] != wanted ? rank : CHASH_LINE_SLOTS;
}

/*
 * The first point at or after a position, or point_count if that is past the
 * last one: chash_point_owner of the result owns it either way.  The ring must
 * have points, and the position must lie on its circle.
 */
static inline uint32_t
chash_ring_find(const ChashRing *ring, int64_t position)
{
	uint64_t offset = chash_ring_offset(ring, position);
	uint64_t place = chash_ring_place(ring, offset);
	const ChashLine *line = chash_ring_lines(ring) + (place >> 32);
	uint32_t rank = chash_line_rank(line, place);

	if (rank == CHASH_LINE_SLOTS)
		return chash_ring_search(ring, (uint32_t) (place >> 32), offset);
	return line->first + rank;
}

/* The node that owns a position, CHASH_NO_NODE on a ring without points. */
static inline uint32_t
chash_ring_owner(const ChashRing *ring, int64_t position)
{
	uint64_t offset;
	uint64_t place;
	const ChashLine *line;
	uint32_t rank;

	if (ring->plain)
		return ring->point_count == 0 ? CHASH_NO_NODE
									  : chash_point_owner(ring, chash_ring_find(ring, position));
	offset = chash_ring_offset(ring, position);
	place = chash_ring_place(ring, offset);
	line = chash_ring_lines(ring) + (place >> 32);
	rank = chash_line_rank(line, place);
	if (rank == CHASH_LINE_SLOTS)
		return chash_point_owner(ring, chash_ring_search(ring, (uint32_t) (place >> 32), offset));
	return line->owners[rank];
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
