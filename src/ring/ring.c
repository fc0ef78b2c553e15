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

typedef struct Scratch
{
	int64_t    *positions;
	uint32_t   *owners;
	uint32_t	count;
} Scratch;

static size_t
align(size_t size)
{
	return (size + 7) & ~(size_t) 7;
}

/*
 * No sum here overflows: there are at most 2^24 points, and nodes and names
 * are in memory already.
 */
size_t
chash_ring_size(const ChashSpec *spec, uint32_t point_count)
{
	size_t		slots = (size_t) point_count + 1;
	size_t		size = sizeof(ChashRing);

	size += slots * sizeof(int64_t);
	size += spec->node_count * sizeof(ChashRingNode);
	size += align(2 * slots * sizeof(uint32_t));
	size += (size_t) spec->node_count * sizeof(ChashRingZone);
	for (uint32_t i = 0; i < spec->node_count; i++)
		size += spec->nodes[i].name_length;
	return align(size);
}

size_t
chash_ring_scratch_size(const ChashSpec *spec, uint32_t point_count)
{
	return align((size_t) point_count * (sizeof(int64_t) + sizeof(uint32_t))) +
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
	uint32_t	offset = 0;

	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		const ChashSpecNode *node = &spec->nodes[i];

		nodes[i].weight = node->weight;
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
	scratch->positions[scratch->count] = position;
	scratch->owners[scratch->count] = owner;
	scratch->count++;
}

/* Adds the points at hash(name#0), hash(name#1), ... */
static void
add_vnodes(const ChashSpec *spec, uint32_t owner, uint32_t count, Scratch *scratch)
{
	const ChashSpecNode *node = &spec->nodes[owner];
	char		name[CHASH_MAX_NAME + 16];
	char	   *digits = name + node->name_length + 1;
	size_t		digit_count = 1;

	assert(node->name_length <= CHASH_MAX_NAME);
	memcpy(name, node->name, node->name_length);
	digits[-1] = '#';
	digits[0] = '0';
	for (uint32_t i = 0; i < count; i++)
	{
		size_t		at = digit_count;

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
		uint32_t	count = (uint32_t) chash_node_point_count(spec, node);

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

static inline bool
point_before(int64_t a_position, uint32_t a_owner, int64_t b_position, uint32_t b_owner)
{
	return a_position != b_position ? a_position < b_position : a_owner < b_owner;
}

static void
insertion_sort(int64_t *positions, uint32_t *owners, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
	{
		int64_t		position = positions[i];
		uint32_t	owner = owners[i];
		uint32_t	at = i;

		while (at > 0 && point_before(position, owner, positions[at - 1], owners[at - 1]))
		{
			positions[at] = positions[at - 1];
			owners[at] = owners[at - 1];
			at--;
		}
		positions[at] = position;
		owners[at] = owner;
	}
}

static void
sift_down(int64_t *positions, uint32_t *owners, uint32_t count, uint32_t at)
{
	int64_t		position = positions[at];
	uint32_t	owner = owners[at];

	for (;;)
	{
		uint32_t	child = 2 * at + 1;

		if (child >= count)
			break;
		if (child + 1 < count && point_before(positions[child], owners[child],
											  positions[child + 1], owners[child + 1]))
			child++;
		if (!point_before(position, owner, positions[child], owners[child]))
			break;
		positions[at] = positions[child];
		owners[at] = owners[child];
		at = child;
	}
	positions[at] = position;
	owners[at] = owner;
}

static void
heap_sort(int64_t *positions, uint32_t *owners, uint32_t count)
{
	for (uint32_t i = count / 2; i-- > 0;)
	{
		check_interrupts(i);
		sift_down(positions, owners, count, i);
	}
	for (uint32_t last = count - 1; last > 0; last--)
	{
		int64_t		position = positions[0];
		uint32_t	owner = owners[0];

		check_interrupts(last);
		positions[0] = positions[last];
		owners[0] = owners[last];
		positions[last] = position;
		owners[last] = owner;
		sift_down(positions, owners, last, 0);
	}
}

/* Sorts the scratch points into the ring, and fills its buckets. */
static void
sort_points(ChashRing *ring, const Scratch *scratch, int64_t *positions, uint32_t *owners,
			uint32_t *buckets)
{
	uint32_t	count = ring->point_count;
	uint32_t	start = 0;

	memset(buckets, 0, ((size_t) count + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i < count; i++)
		buckets[chash_ring_bucket(ring, scratch->positions[i])]++;
	for (uint32_t b = 0; b <= count; b++)
	{
		uint32_t	size = buckets[b];

		buckets[b] = start;
		start += size;
	}
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	at = buckets[chash_ring_bucket(ring, scratch->positions[i])]++;

		positions[at] = scratch->positions[i];
		owners[at] = scratch->owners[i];
	}

	/* Each bucket's start has become its end: the start of the next one. */
	memmove(buckets + 1, buckets, (size_t) count * sizeof(uint32_t));
	buckets[0] = 0;

	for (uint32_t b = 0; b < count; b++)
	{
		uint32_t	size = buckets[b + 1] - buckets[b];

		check_interrupts(b + 1);
		if (size > CHASH_CROWD)
			ring->crowded = true;
		if (size <= INSERTION_LIMIT)
			insertion_sort(positions + buckets[b], owners + buckets[b], size);
		else
			heap_sort(positions + buckets[b], owners + buckets[b], size);
	}
}

ChashSpecError
chash_ring_build(const ChashSpec *spec, uint32_t point_count, ChashRing *ring, void *scratch_memory)
{
	size_t		slots = (size_t) point_count + 1;
	int64_t    *positions = (int64_t *) (ring + 1);
	ChashRingNode *nodes = (ChashRingNode *) (positions + slots);
	uint32_t   *owners = (uint32_t *) (nodes + spec->node_count);
	uint32_t   *buckets = owners + slots;
	ChashRingZone *zones = (ChashRingZone *) ((char *) owners + align(2 * slots * sizeof(uint32_t)));
	char	   *names = (char *) (zones + spec->node_count);
	const ChashSpecNode **by_zone = scratch_memory;
	Scratch		scratch;

	memset(ring, 0, sizeof(ChashRing));
	ring->size = chash_ring_size(spec, point_count);
	ring->lowest = spec->hash->lowest;
	ring->highest = chash_hash_highest(spec->hash);
	ring->shift = (uint32_t) (64 - spec->hash->bits);
	ring->point_count = point_count;
	ring->node_count = spec->node_count;
	ring->nodes_offset = (uint64_t) ((char *) nodes - (char *) ring);
	ring->owners_offset = (uint64_t) ((char *) owners - (char *) ring);
	ring->buckets_offset = (uint64_t) ((char *) buckets - (char *) ring);
	ring->zones_offset = (uint64_t) ((char *) zones - (char *) ring);
	ring->names_offset = (uint64_t) ((char *) names - (char *) ring);

	fill_nodes(spec, ring, nodes, names);
	number_zones(spec, ring, nodes, zones, by_zone);

	scratch.positions = (int64_t *) (by_zone + spec->node_count);
	scratch.owners = (uint32_t *) (scratch.positions + point_count);
	scratch.count = 0;
	add_points(spec, &scratch);
	assert(scratch.count == point_count);

	sort_points(ring, &scratch, positions, owners, buckets);
	positions[point_count] = INT64_MAX;
	owners[point_count] = point_count > 0 ? owners[0] : CHASH_NO_NODE;

	if (spec->placement == CHASH_PARTITIONS)
	{
		for (uint32_t i = 1; i < point_count; i++)
		{
			if (positions[i] == positions[i - 1])
				return CHASH_SPEC_BAD_OWNERS;
		}
	}
#ifndef NDEBUG
	for (uint32_t i = 1; i < point_count; i++)
	{
		assert(!point_before(positions[i], owners[i], positions[i - 1], owners[i - 1]));
		assert(buckets[i] >= buckets[i - 1]);
	}
#endif
	return CHASH_SPEC_OK;
}

uint32_t
chash_ring_next_live(const ChashRing *ring, uint32_t point)
{
	const uint32_t *owners = chash_ring_owners(ring);
	const ChashRingNode *nodes = chash_ring_nodes(ring);

	if (ring->live_count == 0)
		return CHASH_NO_NODE;
	if (point == ring->point_count)
		point = 0;
	while (nodes[owners[point]].down)
	{
		if (++point == ring->point_count)
			point = 0;
	}
	return owners[point];
}
