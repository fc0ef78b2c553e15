/*
 * ring.c
 *		Building the block of a ring.
 *
 * Points are hashes, thus spread evenly: one counting sort into the buckets
 * that lookups use anyway, and a few steps within each, sort them in linear
 * time.  Where they are not (tokens can stand anywhere) a crowded bucket is
 * heap-sorted, and lookups halve it.
 */
#include "ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Buckets up to this size are sorted by insertion. */
#define INSERTION_LIMIT 24

/* How many points are made or sorted between two looks for interrupts. */
#define INTERRUPT_INTERVAL 65536

/* Points as they are made, before they are sorted. */
typedef struct Scratch
{
	const ChashRing *ring;
	uint64_t *offsets;
	uint32_t *owners;
	uint32_t count;
} Scratch;

/* Where points are sorted into. */
typedef struct Points
{
	ChashPoint *points;
	uint32_t *lows;
} Points;

static size_t
align(size_t size)
{
	return (size + 7) & ~(size_t) 7;
}

/* Buckets for that many points: seven for eight. */
static uint32_t
bucket_count(uint32_t point_count)
{
	return point_count - point_count / 8;
}

/*
 * No sum here overflows: there are at most 2^24 points, and nodes and names
 * are in memory already.
 */
size_t
chash_ring_size(const ChashSpec *spec, uint32_t point_count)
{
	size_t slots = (size_t) point_count + CHASH_WINDOW;
	size_t size = sizeof(ChashRing);

	size += slots * sizeof(ChashPoint);
	size += align((slots + bucket_count(point_count) + 1) * sizeof(uint32_t));
	size += spec->node_count * sizeof(ChashRingNode);
	size += (size_t) spec->node_count * sizeof(ChashRingZone);
	for (uint32_t i = 0; i < spec->node_count; i++)
		size += spec->nodes[i].name_length;
	return align(size);
}

size_t
chash_ring_scratch_size(const ChashSpec *spec, uint32_t point_count)
{
	return align((size_t) point_count * (sizeof(uint64_t) + sizeof(uint32_t))) +
		   spec->node_count * sizeof(ChashSpecNode *);
}

static void
check_interrupts(uint32_t turn)
{
	if (turn % INTERRUPT_INTERVAL == 0 && chash_interrupt_hook != NULL)
		chash_interrupt_hook();
}

static int
compare_zones(const void *a, const void *b)
{
	const ChashSpecNode *left = *(const ChashSpecNode *const *) a;
	const ChashSpecNode *right = *(const ChashSpecNode *const *) b;

	if (left->zone == NULL || right->zone == NULL)
		return (left->zone != NULL) - (right->zone != NULL);
	return chash_compare_names(left->zone, left->zone_length, right->zone, right->zone_length);
}

/* Numbers the zones and counts the nodes in each. */
static void
number_zones(const ChashSpec *spec, ChashRing *ring, ChashRingNode *nodes, ChashRingZone *zones,
			 const ChashSpecNode **by_zone)
{
	for (uint32_t i = 0; i < spec->node_count; i++)
		by_zone[i] = &spec->nodes[i];
	qsort(by_zone, spec->node_count, sizeof(*by_zone), compare_zones);

	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		ChashRingNode *node = &nodes[by_zone[i] - spec->nodes];

		if (i == 0 || compare_zones(&by_zone[i - 1], &by_zone[i]) != 0)
			memset(&zones[ring->zone_count++], 0, sizeof(ChashRingZone));
		node->zone = ring->zone_count - 1;
		if (node->point_count > 0)
		{
			zones[node->zone].holders++;
			zones[node->zone].live += !node->down;
		}
	}
}

static void
fill_nodes(const ChashSpec *spec, ChashRing *ring, ChashRingNode *nodes, char *names)
{
	uint32_t offset = 0;

	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		const ChashSpecNode *node = &spec->nodes[i];

		nodes[i].point_count = (uint32_t) chash_node_point_count(spec, node);
		nodes[i].down = node->down;
		nodes[i].name_offset = offset;
		nodes[i].name_length = (uint32_t) node->name_length;
		memcpy(names + offset, node->name, node->name_length);
		offset += (uint32_t) node->name_length;
		if (nodes[i].point_count > 0)
		{
			ring->holder_count++;
			ring->live_count += !node->down;
		}
	}
}

static inline void
add_point(Scratch *scratch, int64_t position, uint32_t owner)
{
	check_interrupts(scratch->count + 1);
	scratch->offsets[scratch->count] = chash_ring_offset(scratch->ring, position);
	scratch->owners[scratch->count] = owner;
	scratch->count++;
}

/* Adds the points at hash(name#0), hash(name#1), ... */
static void
add_vnodes(const ChashSpec *spec, uint32_t owner, uint32_t count, Scratch *scratch)
{
	const ChashSpecNode *node = &spec->nodes[owner];
	char name[CHASH_MAX_NAME + 16];
	char *digits = name + node->name_length + 1;
	size_t digit_count = 1;

	assert(node->name_length <= CHASH_MAX_NAME);
	memcpy(name, node->name, node->name_length);
	digits[-1] = '#';
	digits[0] = '0';
	for (uint32_t i = 0; i < count; i++)
	{
		size_t at = digit_count;

		add_point(scratch, spec->hash->position(name, node->name_length + 1 + digit_count), owner);

		/* Add one in decimal, in place. */
		while (at > 0 && digits[at - 1] == '9')
			digits[--at] = '0';
		if (at > 0)
			digits[at - 1]++;
		else
		{
			digits[0] = '1';
			digits[digit_count++] = '0';
		}
	}
}

static void
add_points(const ChashSpec *spec, Scratch *scratch)
{
	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		const ChashSpecNode *node = &spec->nodes[i];
		uint32_t count = (uint32_t) chash_node_point_count(spec, node);

		switch (spec->placement)
		{
			case CHASH_VNODES:
				add_vnodes(spec, i, count, scratch);
				break;
			case CHASH_TOKENS:
				for (uint32_t k = 0; k < count; k++)
					add_point(scratch, node->tokens[k], i);
				break;
			case CHASH_PARTITIONS:
				for (uint32_t k = 0; k < count; k++)
					add_point(scratch, chash_partition_end(spec, node->partitions[k]), i);
				break;
		}
	}
}

static inline uint64_t
offset_of(const Points *points, uint32_t at)
{
	return (uint64_t) points->points[at].high << 32 | points->lows[at];
}

/* Puts a point into a place. */
static inline void
put(Points *points, uint32_t at, uint64_t offset, uint32_t owner)
{
	points->points[at].high = (uint32_t) (offset >> 32);
	points->points[at].owner = owner;
	points->lows[at] = (uint32_t) offset;
}

static inline void
move(Points *points, uint32_t to, uint32_t from)
{
	points->points[to] = points->points[from];
	points->lows[to] = points->lows[from];
}

/* Does a point stand before the one at a place? */
static inline bool
before(uint64_t offset, uint32_t owner, const Points *points, uint32_t at)
{
	uint64_t other = offset_of(points, at);

	return offset != other ? offset < other : owner < points->points[at].owner;
}

static void
insertion_sort(Points *points, uint32_t first, uint32_t end)
{
	for (uint32_t i = first + 1; i < end; i++)
	{
		uint64_t offset = offset_of(points, i);
		uint32_t owner = points->points[i].owner;
		uint32_t at = i;

		while (at > first && before(offset, owner, points, at - 1))
		{
			move(points, at, at - 1);
			at--;
		}
		if (at != i)
			put(points, at, offset, owner);
	}
}

static void
sift_down(Points *points, uint32_t first, uint32_t count, uint32_t at)
{
	uint64_t offset = offset_of(points, first + at);
	uint32_t owner = points->points[first + at].owner;

	for (;;)
	{
		uint32_t child = 2 * at + 1;

		if (child >= count)
			break;
		if (child + 1 < count &&
			before(offset_of(points, first + child), points->points[first + child].owner, points,
				   first + child + 1))
			child++;
		if (!before(offset, owner, points, first + child))
			break;
		move(points, first + at, first + child);
		at = child;
	}
	put(points, first + at, offset, owner);
}

static void
heap_sort(Points *points, uint32_t first, uint32_t count)
{
	for (uint32_t i = count / 2; i-- > 0;)
	{
		check_interrupts(i);
		sift_down(points, first, count, i);
	}
	for (uint32_t last = count - 1; last > 0; last--)
	{
		uint64_t offset = offset_of(points, first);
		uint32_t owner = points->points[first].owner;

		check_interrupts(last);
		move(points, first, first + last);
		put(points, first + last, offset, owner);
		sift_down(points, first, last, 0);
	}
}

static inline uint32_t
bucket_of(const ChashRing *ring, uint64_t offset)
{
	return chash_ring_bucket(ring, (uint32_t) (offset >> 32));
}

/* Sorts the scratch points into the ring, and fills its buckets. */
static void
sort_points(ChashRing *ring, const Scratch *scratch, Points *points, uint32_t *buckets)
{
	uint32_t count = ring->point_count;
	uint32_t bucket_total = ring->bucket_count;
	uint32_t start = 0;

	memset(buckets, 0, ((size_t) bucket_total + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i < count; i++)
		buckets[bucket_of(ring, scratch->offsets[i])]++;
	for (uint32_t b = 0; b <= bucket_total; b++)
	{
		uint32_t size = buckets[b];

		buckets[b] = start;
		start += size;
	}
	for (uint32_t i = 0; i < count; i++)
		put(points, buckets[bucket_of(ring, scratch->offsets[i])]++, scratch->offsets[i],
			scratch->owners[i]);

	/* Each bucket's start has become its end: the start of the next one. */
	memmove(buckets + 1, buckets, (size_t) bucket_total * sizeof(uint32_t));
	buckets[0] = 0;

	for (uint32_t b = 0; b < bucket_total; b++)
	{
		uint32_t size = buckets[b + 1] - buckets[b];

		check_interrupts(b + 1);
		if (size > CHASH_CROWD)
			ring->crowded = true;
		if (size <= INSERTION_LIMIT)
			insertion_sort(points, buckets[b], buckets[b + 1]);
		else
			heap_sort(points, buckets[b], size);
	}
	for (uint32_t i = 0; i < CHASH_WINDOW; i++)
		put(points, count + i, UINT64_MAX, count > 0 ? points->points[0].owner : CHASH_NO_NODE);
}

#ifndef NDEBUG
static bool
is_sorted(const ChashRing *ring, const Points *points, const uint32_t *buckets)
{
	for (uint32_t i = 1; i < ring->point_count; i++)
	{
		if (before(offset_of(points, i), points->points[i].owner, points, i - 1))
			return false;
	}
	for (uint32_t b = 1; b <= ring->bucket_count; b++)
	{
		if (buckets[b] < buckets[b - 1])
			return false;
	}
	return true;
}
#endif

ChashSpecError
chash_ring_build(const ChashSpec *spec, uint32_t point_count, ChashRing *ring, void *scratch_memory)
{
	size_t slots = (size_t) point_count + CHASH_WINDOW;
	ChashPoint *points = (ChashPoint *) (ring + 1);
	uint32_t *lows = (uint32_t *) (points + slots);
	uint32_t *buckets = lows + slots;
	ChashRingNode *nodes =
		(ChashRingNode *) ((char *) lows +
						   align((slots + bucket_count(point_count) + 1) * sizeof(uint32_t)));
	ChashRingZone *zones = (ChashRingZone *) (nodes + spec->node_count);
	char *names = (char *) (zones + spec->node_count);
	const ChashSpecNode **by_zone = scratch_memory;
	Points target = {points, lows};
	Scratch scratch = {.ring = ring};

	memset(ring, 0, sizeof(ChashRing));
	ring->size = chash_ring_size(spec, point_count);
	ring->lowest = spec->hash->lowest;
	ring->highest = chash_hash_highest(spec->hash);
	ring->shift = (uint32_t) (64 - spec->hash->bits);
	ring->point_count = point_count;
	ring->bucket_count = bucket_count(point_count);
	ring->node_count = spec->node_count;
	ring->nodes_offset = (uint64_t) ((char *) nodes - (char *) ring);
	ring->lows_offset = (uint64_t) ((char *) lows - (char *) ring);
	ring->buckets_offset = (uint64_t) ((char *) buckets - (char *) ring);
	ring->zones_offset = (uint64_t) ((char *) zones - (char *) ring);
	ring->names_offset = (uint64_t) ((char *) names - (char *) ring);

	fill_nodes(spec, ring, nodes, names);
	number_zones(spec, ring, nodes, zones, by_zone);

	scratch.offsets = (uint64_t *) (by_zone + spec->node_count);
	scratch.owners = (uint32_t *) (scratch.offsets + point_count);
	add_points(spec, &scratch);
	assert(scratch.count == point_count);
	sort_points(ring, &scratch, &target, buckets);

	assert(is_sorted(ring, &target, buckets));
	if (spec->placement == CHASH_PARTITIONS)
	{
		for (uint32_t i = 1; i < point_count; i++)
		{
			if (offset_of(&target, i) == offset_of(&target, i - 1))
				return CHASH_SPEC_BAD_OWNERS;
		}
	}
	return CHASH_SPEC_OK;
}

uint32_t
chash_ring_next_live(const ChashRing *ring, uint32_t point)
{
	const ChashRingNode *nodes = chash_ring_nodes(ring);

	if (ring->live_count == 0)
		return CHASH_NO_NODE;
	if (point == ring->point_count)
		point = 0;
	while (nodes[chash_point_owner(ring, point)].down)
	{
		if (++point == ring->point_count)
			point = 0;
	}
	return chash_point_owner(ring, point);
}
