/*
 * model.c
 *		What rings should do, computed the slow and obvious way.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

ChashRing *
build(const ChashSpec *spec)
{
	uint32_t points;
	ChashRing *ring;
	void *scratch;
	ChashSpecError error;

	if (chash_spec_check(spec, &points) != CHASH_SPEC_OK)
		return NULL;
	ring = malloc(chash_ring_size(spec, points));
	scratch = malloc(chash_ring_scratch_size(spec, points) + 1);
	error = chash_ring_build(spec, points, ring, scratch);
	free(scratch);
	if (error != CHASH_SPEC_OK)
	{
		free(ring);
		return NULL;
	}
	return ring;
}

/* Does point a stand before point b?  By position, then by number of node. */
static bool
earlier(const ChashRing *ring, uint32_t a, uint32_t b)
{
	int64_t left = chash_point_position(ring, a);
	int64_t right = chash_point_position(ring, b);

	return left != right ? left < right : chash_point_owner(ring, a) < chash_point_owner(ring, b);
}

/* The first point at or after a position, or else the first of all. */
static uint32_t
first_point(const ChashRing *ring, int64_t position)
{
	uint32_t best = UINT32_MAX;
	uint32_t lowest = 0;

	for (uint32_t i = 0; i < ring->point_count; i++)
	{
		if (earlier(ring, i, lowest))
			lowest = i;
		if (chash_point_position(ring, i) >= position &&
			(best == UINT32_MAX || earlier(ring, i, best)))
			best = i;
	}
	return best == UINT32_MAX ? lowest : best;
}

uint32_t
model_owner(const ChashRing *ring, int64_t position)
{
	if (ring->point_count == 0)
		return CHASH_NO_NODE;
	return chash_point_owner(ring, first_point(ring, position));
}

uint32_t
model_replicas(const ChashRing *ring, int64_t position, uint32_t n, bool live, uint32_t *nodes)
{
	const ChashRingNode *entries = chash_ring_nodes(ring);
	uint32_t *met = calloc(ring->node_count + 1, sizeof(uint32_t));
	bool *taken = calloc(ring->node_count + 1, sizeof(bool));
	bool *zone_used = calloc(ring->zone_count + 1, sizeof(bool));
	uint32_t met_count = 0;
	uint32_t count = 0;
	uint32_t before = UINT32_MAX;
	uint32_t start = ring->point_count > 0 ? first_point(ring, position) : 0;

	/* All distinct nodes in the order in which they are met. */
	for (uint32_t i = 0; i < ring->point_count; i++)
	{
		uint32_t node = chash_point_owner(ring, (start + i) % ring->point_count);
		bool known = live && entries[node].down;

		for (uint32_t k = 0; k < met_count; k++)
			known |= met[k] == node;
		if (!known)
			met[met_count++] = node;
	}

	/* Rounds: in each, nobody of a zone that this round has used. */
	while (count < n && count != before)
	{
		before = count;
		memset(zone_used, 0, ring->zone_count * sizeof(bool));
		for (uint32_t k = 0; k < met_count && count < n; k++)
		{
			if (taken[met[k]] || zone_used[entries[met[k]].zone])
				continue;
			taken[met[k]] = true;
			zone_used[entries[met[k]].zone] = true;
			nodes[count++] = met[k];
		}
	}
	free(met);
	free(taken);
	free(zone_used);
	return count;
}

static void
grow(ChashDiffRows *rows)
{
	rows->capacity = rows->capacity * 2 + 1;
	rows->rows = realloc(rows->rows, rows->capacity * sizeof(ChashDiffRow));
}

ChashDiffRows
diff(const ChashRing *before, const ChashRing *after, uint32_t replicas)
{
	ChashDiffRows rows = {.grow = grow};
	void *scratch = malloc(chash_diff_scratch_size(before, after, replicas));

	chash_diff(before, after, replicas, scratch, &rows);
	free(scratch);
	return rows;
}

/* Calls back at every point of a ring, one to either side, and both ends. */
static const char *
at_every_boundary(const ChashRing *ring, const char *(*check)(int64_t position, void *argument),
				  void *argument)
{
	const char *wrong = check(ring->lowest, argument);

	if (wrong == NULL)
		wrong = check(ring->highest, argument);
	for (uint32_t i = 0; i < ring->point_count && wrong == NULL; i++)
	{
		int64_t position = chash_point_position(ring, i);

		wrong = check(position, argument);
		if (wrong == NULL && position > ring->lowest)
			wrong = check(position - 1, argument);
		if (wrong == NULL && position < ring->highest)
			wrong = check(position + 1, argument);
	}
	return wrong;
}

static const char *
check_position(int64_t position, void *argument)
{
	const ChashRing *ring = argument;
	uint32_t limit = ring->node_count + 1;
	uint32_t *expected = calloc(limit, sizeof(uint32_t));
	uint32_t *actual = calloc(limit, sizeof(uint32_t));
	const char *wrong = NULL;

	if (chash_ring_owner(ring, position) != model_owner(ring, position))
		wrong = "owner of a position";
	for (int live = 0; live <= 1 && wrong == NULL; live++)
	{
		ChashWalk *walk = malloc(chash_walk_size(ring, limit));

		chash_walk_init(walk, ring, limit, live);
		/* One to four replicas, and more than there are. */
		for (uint32_t n = 1; n <= limit && wrong == NULL; n = n < 4		  ? n + 1
															  : n < limit ? limit
																		  : n + 1)
		{
			uint32_t count = model_replicas(ring, position, n, live, expected);

			if (chash_walk_from(walk, position, n, actual) != count ||
				memcmp(actual, expected, count * sizeof(uint32_t)) != 0)
				wrong = "replicas of a position";
			if (live && n == 1 &&
				chash_ring_live_owner(ring, position) != (count > 0 ? expected[0] : CHASH_NO_NODE))
				wrong = "live owner of a position";
		}
		free(walk);
	}
	free(expected);
	free(actual);
	return wrong;
}

const char *
check_ring(const ChashRing *ring)
{
	ChashRangeCursor cursor = {0};
	ChashRange range;
	ChashRange previous = {.node = CHASH_NO_NODE};
	bool first = true;
	const char *wrong;

	for (uint32_t i = 1; i < ring->point_count; i++)
	{
		if (earlier(ring, i, i - 1))
			return "order of points";
	}
	wrong = at_every_boundary(ring, check_position, (void *) ring);

	/* Ranges cover the circle without gap, each is one owner's, none can be merged. */
	while (wrong == NULL && chash_ranges_next(ring, &cursor, &range))
	{
		if (first ? range.lo != ring->lowest
				  : range.lo != previous.hi + 1 || range.node == previous.node)
			wrong = "start of a range";
		else if (range.hi < range.lo || model_owner(ring, range.lo) != range.node ||
				 model_owner(ring, range.hi) != range.node)
			wrong = "owner of a range";
		for (uint32_t i = 0; i < ring->point_count && wrong == NULL; i++)
		{
			int64_t position = chash_point_position(ring, i);

			if (position >= range.lo && position <= range.hi &&
				model_owner(ring, position) != range.node)
				wrong = "owner within a range";
		}
		previous = range;
		first = false;
	}
	if (wrong == NULL && ring->point_count > 0 && (first || previous.hi != ring->highest))
		wrong = "end of the ranges";
	return wrong;
}

typedef struct DiffCase
{
	const ChashRing *before;
	const ChashRing *after;
	uint32_t replicas;
	const ChashDiffRows *rows;
} DiffCase;

/* A node of one ring in terms of another. */
static uint32_t
translate(const ChashRing *from, uint32_t node, const ChashRing *to)
{
	for (uint32_t i = 0; i < to->node_count; i++)
	{
		if (chash_compare_names(chash_ring_name(from, node),
								chash_ring_nodes(from)[node].name_length, chash_ring_name(to, i),
								chash_ring_nodes(to)[i].name_length) == 0)
			return i;
	}
	return CHASH_NO_NODE;
}

static bool
contains(const uint32_t *nodes, uint32_t count, uint32_t node)
{
	for (uint32_t i = 0; i < count; i++)
	{
		if (nodes[i] == node)
			return true;
	}
	return false;
}

/* The rows at a position are exactly those that follow from the two sets. */
static const char *
check_diff_position(int64_t position, void *argument)
{
	const DiffCase *c = argument;
	uint32_t *old_set = calloc(c->before->node_count + 1, sizeof(uint32_t));
	uint32_t *new_set = calloc(c->after->node_count + 1, sizeof(uint32_t));
	uint32_t old_size = model_replicas(c->before, position, c->replicas, false, old_set);
	uint32_t new_size = model_replicas(c->after, position, c->replicas, false, new_set);
	uint32_t i = 0;
	uint32_t j = 0;
	size_t expected = 0;
	size_t found = 0;
	const char *wrong = NULL;

	for (;;)
	{
		uint32_t from;
		uint32_t to;

		while (i < old_size &&
			   contains(new_set, new_size, translate(c->before, old_set[i], c->after)))
			i++;
		while (j < new_size &&
			   contains(old_set, old_size, translate(c->after, new_set[j], c->before)))
			j++;
		if (i >= old_size && j >= new_size)
			break;
		from = i < old_size ? old_set[i++] : old_size > 0 ? old_set[0] : CHASH_NO_NODE;
		to = j < new_size ? new_set[j++] : CHASH_NO_NODE;
		expected++;
		for (size_t r = 0; r < c->rows->count; r++)
		{
			const ChashDiffRow *row = &c->rows->rows[r];

			found +=
				row->lo <= position && position <= row->hi && row->from == from && row->to == to;
		}
	}
	if (found != expected)
		wrong = "a row of the plan is missing";
	for (size_t r = 0; r < c->rows->count; r++)
		expected -= c->rows->rows[r].lo <= position && position <= c->rows->rows[r].hi;
	if (wrong == NULL && expected != 0)
		wrong = "a row of the plan too many";
	free(old_set);
	free(new_set);
	return wrong;
}

const char *
check_diff(const ChashRing *before, const ChashRing *after, uint32_t replicas)
{
	ChashDiffRows rows = diff(before, after, replicas);
	DiffCase c = {before, after, replicas, &rows};
	const char *wrong = NULL;

	for (size_t r = 0; r < rows.count && wrong == NULL; r++)
	{
		const ChashDiffRow *row = &rows.rows[r];

		if (row->lo > row->hi || row->lo < before->lowest || row->hi > before->highest)
			wrong = "a row of the plan is off the circle";
		if (r > 0 && row->lo < rows.rows[r - 1].lo)
			wrong = "order of the plan";
		if (r > 0 && replicas == 1 && row->lo <= rows.rows[r - 1].hi)
			wrong = "rows of the plan overlap";
		for (size_t q = 0; q < r && wrong == NULL; q++)
		{
			const ChashDiffRow *other = &rows.rows[q];

			if (other->from == row->from && other->to == row->to && other->hi == row->lo - 1)
				wrong = "rows of the plan could be merged";
		}
	}
	if (wrong == NULL)
		wrong = at_every_boundary(before, check_diff_position, &c);
	if (wrong == NULL)
		wrong = at_every_boundary(after, check_diff_position, &c);
	free(rows.rows);
	return wrong;
}
