/*
 * diff.c
 *		What differs between two rings, by one sweep over both.
 *
 * The boundaries of both rings together cut the circle into segments within
 * which neither changes.  Rows that end at one segment and continue in the
 * next are held open.
 */
#include "diff.h"

#include "replicas.h"

#include <string.h>

/* One ring's side of the sweep. */
typedef struct Side
{
	const ChashRing *ring;
	uint32_t point;	 /* first point at or after the segment */
	ChashWalk *walk; /* NULL with one replica */
	uint32_t *set;	 /* replicas of the segment */
	uint32_t set_size;
	uint32_t *partner; /* each node's number in the other ring */
	uint32_t *member;  /* other ring's nodes: latest segment in whose
								 * set of *this* ring they were */
} Side;

typedef struct Sweep
{
	Side before;
	Side after;
	uint32_t replicas;
	uint32_t work;	  /* but for that of the walks */
	uint32_t segment; /* counts from 1 */
	size_t *open;	  /* rows that ended at the previous segment */
	uint32_t open_count;
	size_t *next_open;
	uint32_t next_open_count;
	ChashDiffRows *rows;
} Sweep;

/* With more replicas than nodes, the sets hold all nodes. */
static uint32_t
set_limit(const ChashRing *ring, uint32_t replicas)
{
	return replicas < ring->holder_count ? replicas : ring->holder_count;
}

static size_t
side_size(const ChashRing *ring, const ChashRing *other, uint32_t replicas)
{
	return chash_align(chash_walk_size(ring, replicas)) +
		   chash_align((size_t) (set_limit(ring, replicas) + 1) * sizeof(uint32_t)) +
		   chash_align((size_t) ring->node_count * sizeof(uint32_t)) +
		   chash_align((size_t) other->node_count * sizeof(uint32_t));
}

/* Rows per segment: everybody leaves, everybody joins. */
static size_t
open_limit(const ChashRing *before, const ChashRing *after, uint32_t replicas)
{
	return (size_t) set_limit(before, replicas) + set_limit(after, replicas) + 1;
}

size_t
chash_diff_scratch_size(const ChashRing *before, const ChashRing *after, uint32_t replicas)
{
	return side_size(before, after, replicas) + side_size(after, before, replicas) +
		   2 * open_limit(before, after, replicas) * sizeof(size_t);
}

static char *
init_side(Side *side, const ChashRing *ring, const ChashRing *other, uint32_t replicas,
		  char *memory)
{
	side->ring = ring;
	side->point = 0;
	side->walk = NULL;
	if (replicas > 1)
	{
		side->walk = (ChashWalk *) memory;
		chash_walk_init(side->walk, ring, replicas, false);
	}
	memory += chash_align(chash_walk_size(ring, replicas));
	side->set = (uint32_t *) memory;
	memory += chash_align((size_t) (set_limit(ring, replicas) + 1) * sizeof(uint32_t));
	side->partner = (uint32_t *) memory;
	memset(side->partner, 0xff, ring->node_count * sizeof(uint32_t));
	memory += chash_align((size_t) ring->node_count * sizeof(uint32_t));
	side->member = (uint32_t *) memory;
	memset(side->member, 0, other->node_count * sizeof(uint32_t));
	memory += chash_align((size_t) other->node_count * sizeof(uint32_t));
	return memory;
}

/* Finds out which nodes are in both rings; both number theirs by name. */
static void
pair_nodes(Side *before, Side *after)
{
	const ChashRingNode *left = chash_ring_nodes(before->ring);
	const ChashRingNode *right = chash_ring_nodes(after->ring);
	uint32_t i = 0;
	uint32_t j = 0;
	uint32_t work = 0;

	while (i < before->ring->node_count && j < after->ring->node_count)
	{
		int order = chash_compare_names(chash_ring_name(before->ring, i), left[i].name_length,
										chash_ring_name(after->ring, j), right[j].name_length);

		chash_work(&work, 1);
		if (order == 0)
		{
			before->partner[i] = j;
			after->partner[j] = i;
		}
		i += order <= 0;
		j += order >= 0;
	}
}

/* Continues a row that ended just before the segment, or starts one. */
static void
add_row(Sweep *sweep, int64_t lo, int64_t hi, uint32_t from, uint32_t to)
{
	ChashDiffRows *rows = sweep->rows;
	size_t row;

	chash_work(&sweep->work, 1 + sweep->open_count);
	for (uint32_t i = 0; i < sweep->open_count; i++)
	{
		row = sweep->open[i];
		if (rows->rows[row].from == from && rows->rows[row].to == to)
		{
			rows->rows[row].hi = hi;
			sweep->next_open[sweep->next_open_count++] = row;
			return;
		}
	}
	if (rows->count == rows->capacity)
		rows->grow(rows);
	row = rows->count++;
	rows->rows[row] = (ChashDiffRow){lo, hi, from, to};
	sweep->next_open[sweep->next_open_count++] = row;
}

/* Fetches the replica set at the segment, and marks its nodes for the other side. */
static void
fetch_set(Sweep *sweep, Side *side)
{
	uint32_t point = side->point < side->ring->point_count ? side->point : 0;

	side->set_size = chash_walk_from_point(side->walk, point, sweep->replicas, side->set);
	for (uint32_t i = 0; i < side->set_size; i++)
	{
		uint32_t partner = side->partner[side->set[i]];

		if (partner != CHASH_NO_NODE)
			side->member[partner] = sweep->segment;
	}
}

/* The next node, from *at on, of a set that is not in the other ring's set. */
static uint32_t
next_difference(const Sweep *sweep, const Side *side, const Side *other, uint32_t *at)
{
	while (*at < side->set_size)
	{
		uint32_t node = side->set[(*at)++];

		if (other->member[node] != sweep->segment)
			return node;
	}
	return CHASH_NO_NODE;
}

static void
compare_sets(Sweep *sweep, int64_t lo, int64_t hi)
{
	uint32_t leaving_at = 0;
	uint32_t joining_at = 0;

	fetch_set(sweep, &sweep->before);
	fetch_set(sweep, &sweep->after);
	for (;;)
	{
		uint32_t from = next_difference(sweep, &sweep->before, &sweep->after, &leaving_at);
		uint32_t to = next_difference(sweep, &sweep->after, &sweep->before, &joining_at);

		if (from == CHASH_NO_NODE && to == CHASH_NO_NODE)
			return;
		if (from == CHASH_NO_NODE && sweep->before.set_size > 0)
			from = sweep->before.set[0];
		add_row(sweep, lo, hi, from, to);
	}
}

static void
compare_owners(Sweep *sweep, int64_t lo, int64_t hi)
{
	uint32_t from = chash_point_owner(sweep->before.ring, sweep->before.point);
	uint32_t to = chash_point_owner(sweep->after.ring, sweep->after.point);

	if (from == CHASH_NO_NODE && to == CHASH_NO_NODE)
		return;
	if (from == CHASH_NO_NODE || sweep->before.partner[from] == CHASH_NO_NODE ||
		sweep->before.partner[from] != to)
		add_row(sweep, lo, hi, from, to);
}

/* Passes all points at a position, those that lost a tie included. */
static void
pass(Sweep *sweep, Side *side, int64_t position)
{
	while (side->point < side->ring->point_count &&
		   chash_point_position(side->ring, side->point) == position)
	{
		chash_work(&sweep->work, 1);
		side->point++;
	}
}

void
chash_diff(const ChashRing *before, const ChashRing *after, uint32_t replicas, void *scratch,
		   ChashDiffRows *rows)
{
	size_t limit = open_limit(before, after, replicas);
	Sweep sweep = {.replicas = replicas, .rows = rows};
	char *memory = scratch;
	int64_t lo = before->lowest;

	memory = init_side(&sweep.before, before, after, replicas, memory);
	memory = init_side(&sweep.after, after, before, replicas, memory);
	sweep.open = (size_t *) memory;
	sweep.next_open = sweep.open + limit;
	pair_nodes(&sweep.before, &sweep.after);

	for (;;)
	{
		/* Behind the last point stands one at the highest position. */
		int64_t before_hi = chash_point_position(before, sweep.before.point);
		int64_t after_hi = chash_point_position(after, sweep.after.point);
		int64_t hi = before_hi < after_hi ? before_hi : after_hi;
		size_t *swap = sweep.open;

		sweep.segment++;
		chash_work(&sweep.work, 1 + sweep.before.set_size + sweep.after.set_size);
		if (replicas > 1)
			compare_sets(&sweep, lo, hi);
		else
			compare_owners(&sweep, lo, hi);
		sweep.open = sweep.next_open;
		sweep.open_count = sweep.next_open_count;
		sweep.next_open = swap;
		sweep.next_open_count = 0;

		if (hi == before->highest)
			return;
		pass(&sweep, &sweep.before, hi);
		pass(&sweep, &sweep.after, hi);
		lo = hi + 1;
	}
}
