/*
 * ring.c
 *		Building the block of a ring.
 *
 * Points are hashes, thus spread evenly: a counting sort into nearly as many
 * buckets as there are points, and a few steps within each, sort them in linear
 * time.  Where they are not (tokens can stand anywhere) a crowded bucket is
 * sorted by Shell's method.
 */
#include "ring.h"

#include <assert.h>
#include <string.h>

/* Buckets up to this size are sorted by insertion. */
#define INSERTION_LIMIT 24

/* Points as they are made, before they are sorted. */
typedef struct Scratch
{
	const ChashRing *ring;
	uint64_t *offsets;
	uint32_t *owners;
	uint32_t count;
	uint32_t work;
} Scratch;

/* Where points are sorted into. */
typedef struct Points
{
	uint64_t *offsets;
	uint32_t *owners;
	uint32_t work;
} Points;

static_assert(sizeof(ChashLine) == 64, "a line of the cache has 64 bytes");
static_assert(sizeof(ChashRing) <= CHASH_LINES_AT, "no room for the header");

/* Buckets for sorting that many points: seven for eight. */
static uint32_t
bucket_count(uint32_t point_count)
{
	return point_count - point_count / 8;
}

/* Two for 23 points; at least one. */
static uint32_t
line_count(uint32_t point_count)
{
	return point_count > 0 ? (2 * point_count + 22) / 23 : 1;
}

/* Do owners need more than 16 bits?  (CHASH_NO_NODE does.) */
static bool
is_plain(const ChashSpec *spec, uint32_t point_count)
{
	return point_count == 0 || spec->node_count > UINT16_MAX + 1;
}

/* Where the parts of the block begin, and its size. */
static void
lay_out(const ChashSpec *spec, uint32_t point_count, ChashRing *ring)
{
	size_t slots = (size_t) point_count + 1;
	uint64_t at = CHASH_LINES_AT;
	uint32_t work = 0;

	ring->plain = is_plain(spec, point_count);
	ring->point_count = point_count;
	ring->line_count = line_count(point_count);
	ring->node_count = spec->node_count;
	at += ring->line_count * sizeof(ChashLine);
	ring->offsets_at = at;
	at += slots * sizeof(uint64_t);
	ring->owners_at = at;
	at += chash_align(slots * (ring->plain ? sizeof(uint32_t) : sizeof(uint16_t)));
	ring->nodes_at = at;
	at += spec->node_count * sizeof(ChashRingNode);
	ring->zones_at = at;
	at += (size_t) spec->node_count * sizeof(ChashRingZone);
	ring->names_at = at;
	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		chash_work(&work, 1);
		at += spec->nodes[i].name_length;
	}
	ring->size = chash_align(at);
}

/*
 * No sum here overflows: there are at most 2^24 points, and nodes and names
 * are in memory already.
 */
size_t
chash_ring_size(const ChashSpec *spec, uint32_t point_count)
{
	ChashRing ring;

	lay_out(spec, point_count, &ring);
	return ring.size;
}

size_t
chash_ring_scratch_size(const ChashSpec *spec, uint32_t point_count)
{
	size_t points = (size_t) point_count * (sizeof(uint64_t) + 2 * sizeof(uint32_t)) +
					chash_align(((size_t) bucket_count(point_count) + 1) * sizeof(uint32_t));
	size_t zones = chash_sort_scratch_size(spec->node_count, sizeof(ChashSpecNode *));

	/* Zones are numbered before there are points. */
	return spec->node_count * sizeof(ChashSpecNode *) + (points > zones ? points : zones);
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
	uint32_t work = 0;

	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		chash_work(&work, 1);
		by_zone[i] = &spec->nodes[i];
	}
	chash_sort(by_zone, spec->node_count, sizeof(*by_zone), compare_zones,
			   by_zone + spec->node_count);

	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		ChashRingNode *node = &nodes[by_zone[i] - spec->nodes];

		chash_work(&work, 1);
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
	uint32_t work = 0;

	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		const ChashSpecNode *node = &spec->nodes[i];

		chash_work(&work, 1);
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
	chash_work(&scratch->work, 1);
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

		chash_work(&scratch->work, 1);
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

/* Puts a point into a place. */
static inline void
put(Points *points, uint32_t at, uint64_t offset, uint32_t owner)
{
	points->offsets[at] = offset;
	points->owners[at] = owner;
}

static inline void
move(Points *points, uint32_t to, uint32_t from)
{
	put(points, to, points->offsets[from], points->owners[from]);
}

/* Does a point stand before the one at a place? */
static inline bool
before(uint64_t offset, uint32_t owner, const Points *points, uint32_t at)
{
	return offset != points->offsets[at] ? offset < points->offsets[at]
										 : owner < points->owners[at];
}

/*
 * Brings those that stand `gap` apart into order, for each such row of points.
 * The caller counts the steps if they are few.
 */
static inline void
insertion_sort(Points *points, uint32_t first, uint32_t end, uint32_t gap, bool few)
{
	for (uint32_t i = first + gap; i < end; i++)
	{
		uint64_t offset = points->offsets[i];
		uint32_t owner = points->owners[i];
		uint32_t at = i;

		while (at >= first + gap && before(offset, owner, points, at - gap))
		{
			move(points, at, at - gap);
			at -= gap;
		}
		if (at != i)
			put(points, at, offset, owner);
		if (!few)
			chash_work(&points->work, 1 + (i - at) / gap);
	}
}

/* The gaps are those of Gonnet and Baeza-Yates. */
static void
shell_sort(Points *points, uint32_t first, uint32_t end)
{
	for (uint32_t gap = (end - first) / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
		insertion_sort(points, first, end, gap, false);
}

static inline uint32_t
bucket_of(uint64_t offset, uint32_t buckets)
{
	return (uint32_t) (((offset >> 32) * buckets) >> 32);
}

/* Sorts the scratch points into others; `starts` has room for a bucket more. */
static void
sort_points(const Scratch *scratch, Points *points, uint32_t *starts)
{
	uint32_t count = scratch->count;
	uint32_t buckets = bucket_count(count);
	uint32_t start = 0;
	uint32_t work = 0;

	memset(starts, 0, ((size_t) buckets + 1) * sizeof(uint32_t));
	for (uint32_t i = 0, end; i < count;)
	{
		end = chash_work_end(i, count);
		chash_work(&work, end - i);
		for (; i < end; i++)
			starts[bucket_of(scratch->offsets[i], buckets)]++;
	}
	for (uint32_t b = 0; b <= buckets; b++)
	{
		uint32_t size = starts[b];

		chash_work(&work, 1);
		starts[b] = start;
		start += size;
	}
	for (uint32_t i = 0, end; i < count;)
	{
		end = chash_work_end(i, count);
		chash_work(&work, end - i);
		for (; i < end; i++)
			put(points, starts[bucket_of(scratch->offsets[i], buckets)]++, scratch->offsets[i],
				scratch->owners[i]);
	}

	/* Each bucket's start has become its end. */
	for (uint32_t b = 0; b < buckets; b++)
	{
		uint32_t first = b > 0 ? starts[b - 1] : 0;
		uint32_t size = starts[b] - first;

		chash_work(&work, 1);
		if (size <= INSERTION_LIMIT)
			insertion_sort(points, first, starts[b], 1, true);
		else
			shell_sort(points, first, starts[b]);
	}
}

/* Writes the owners of sorted points, and of the first one once more. */
static void
fill_owners(ChashRing *ring, const uint32_t *owners)
{
	char *target = (char *) ring + ring->owners_at;
	uint32_t work = 0;

	for (uint32_t i = 0; i <= ring->point_count; i++)
	{
		uint32_t owner =
			ring->point_count == 0 ? CHASH_NO_NODE : owners[i < ring->point_count ? i : 0];

		chash_work(&work, 1);
		if (ring->plain)
			((uint32_t *) target)[i] = owner;
		else
			((uint16_t *) target)[i] = (uint16_t) owner;
	}
}

static void
fill_lines(ChashRing *ring)
{
	ChashLine *lines = (ChashLine *) ((char *) ring + CHASH_LINES_AT);
	const uint64_t *offsets = chash_ring_offsets(ring);
	uint32_t point = 0;
	uint32_t work = 0;

	for (uint32_t l = 0; l < ring->line_count; l++)
	{
		ChashLine *line = &lines[l];
		uint32_t slot = 0;

		memset(line->places, 255, sizeof(line->places));
		line->first = point;
		for (; point < ring->point_count; point++, slot++)
		{
			uint64_t place = chash_ring_place(ring, offsets[point]);

			if (place >> 32 != l)
				break;
			chash_work(&work, 1);
			if (slot < CHASH_LINE_SLOTS)
				line->places[slot] = (uint8_t) (place >> 24);
		}
		for (uint32_t i = 0; i < CHASH_LINE_SLOTS && !ring->plain; i++)
			line->owners[i] =
				(uint16_t) chash_point_owner(ring, line->first + (i < slot ? i : slot));
		chash_work(&work, 1);
	}
}

#ifndef NDEBUG
static bool
is_sorted(const ChashRing *ring)
{
	const uint64_t *offsets = chash_ring_offsets(ring);
	const ChashLine *lines = chash_ring_lines(ring);

	for (uint32_t i = 1; i < ring->point_count; i++)
	{
		if (offsets[i] < offsets[i - 1] ||
			(offsets[i] == offsets[i - 1] &&
			 chash_point_owner(ring, i) < chash_point_owner(ring, i - 1)))
			return false;
	}
	for (uint32_t l = 1; l < ring->line_count; l++)
	{
		if (lines[l].first < lines[l - 1].first)
			return false;
	}
	return true;
}
#endif

ChashSpecError
chash_ring_build(const ChashSpec *spec, uint32_t point_count, ChashRing *ring, void *scratch_memory)
{
	const ChashSpecNode **by_zone = scratch_memory;
	uint64_t *offsets;
	Points sorted = {0};
	Scratch scratch = {.ring = ring};

	memset(ring, 0, sizeof(ChashRing));
	lay_out(spec, point_count, ring);
	ring->lowest = spec->hash->lowest;
	ring->highest = chash_hash_highest(spec->hash);
	ring->shift = (uint32_t) (64 - spec->hash->bits);
	offsets = (uint64_t *) ((char *) ring + ring->offsets_at);

	fill_nodes(spec, ring, (ChashRingNode *) ((char *) ring + ring->nodes_at),
			   (char *) ring + ring->names_at);
	number_zones(spec, ring, (ChashRingNode *) ((char *) ring + ring->nodes_at),
				 (ChashRingZone *) ((char *) ring + ring->zones_at), by_zone);

	scratch.offsets = (uint64_t *) (by_zone + spec->node_count);
	scratch.owners = (uint32_t *) (scratch.offsets + point_count);
	sorted.offsets = offsets;
	sorted.owners = scratch.owners + point_count;
	add_points(spec, &scratch);
	assert(scratch.count == point_count);
	sort_points(&scratch, &sorted, sorted.owners + point_count);
	offsets[point_count] = UINT64_MAX;
	fill_owners(ring, sorted.owners);
	fill_lines(ring);

	assert(is_sorted(ring));
	if (spec->placement == CHASH_PARTITIONS)
	{
		/* They are at most 2^20. */
		for (uint32_t i = 1; i < point_count; i++)
		{
			if (offsets[i] == offsets[i - 1])
				return CHASH_SPEC_BAD_OWNERS;
		}
	}
	return CHASH_SPEC_OK;
}

uint32_t
chash_ring_search(const ChashRing *ring, uint32_t line, uint64_t offset)
{
	const uint64_t *offsets = chash_ring_offsets(ring);
	const ChashLine *lines = chash_ring_lines(ring);
	uint32_t point = lines[line].first;
	uint32_t end = line + 1 < ring->line_count ? lines[line + 1].first : ring->point_count;

	while (point < end)
	{
		uint32_t middle = point + (end - point) / 2;

		if (offsets[middle] < offset)
			point = middle + 1;
		else
			end = middle;
	}
	return point;
}

uint32_t
chash_ring_find_node(const ChashRing *ring, const char *name, size_t length)
{
	const ChashRingNode *nodes = chash_ring_nodes(ring);
	uint32_t low = 0;
	uint32_t high = ring->node_count;

	while (low < high)
	{
		uint32_t middle = low + (high - low) / 2;
		int order = chash_compare_names(chash_ring_name(ring, middle), nodes[middle].name_length,
										name, length);

		if (order == 0)
			return middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return CHASH_NO_NODE;
}

uint32_t
chash_ring_next_live(const ChashRing *ring, uint32_t point)
{
	const ChashRingNode *nodes = chash_ring_nodes(ring);
	uint32_t work = 0;

	if (ring->live_count == 0)
		return CHASH_NO_NODE;
	if (point == ring->point_count)
		point = 0;
	while (nodes[chash_point_owner(ring, point)].down)
	{
		chash_work(&work, 1);
		if (++point == ring->point_count)
			point = 0;
	}
	return chash_point_owner(ring, point);
}
