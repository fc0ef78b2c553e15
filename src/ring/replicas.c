/*
 * replicas.c
 *		The replica walk.
 */
#include "replicas.h"

#include <string.h>

static uint32_t
capped(const ChashRing *ring, uint32_t limit)
{
	return limit < ring->holder_count ? limit : ring->holder_count;
}

static size_t
mark_count(const ChashRing *ring, uint32_t limit)
{
	return (size_t) ring->node_count + 2 * (size_t) ring->zone_count +
		   2 * ((size_t) capped(ring, limit) + 1);
}

size_t
chash_walk_size(const ChashRing *ring, uint32_t limit)
{
	return sizeof(ChashWalk) + mark_count(ring, limit) * sizeof(uint32_t);
}

/*
 * Where in the result each round starts: behind the nodes of the rounds before
 * it.  A round has a node of each zone that has so many.
 */
static void
plan_rounds(ChashWalk *walk, uint32_t *starts)
{
	const ChashRingZone *zones = chash_ring_zones(walk->ring);
	uint32_t cap = capped(walk->ring, walk->limit);
	uint32_t more = 0;
	uint32_t before = 0;

	/* How many zones have as many nodes as that, then how many have more. */
	for (uint32_t z = 0; z < walk->ring->zone_count; z++)
	{
		uint32_t nodes = walk->live ? zones[z].live : zones[z].holders;

		chash_work(&walk->work, 1);
		starts[nodes < cap ? nodes : cap]++;
	}
	for (uint32_t nodes = cap + 1; nodes-- > 0;)
	{
		uint32_t zone_count = starts[nodes];

		chash_work(&walk->work, 1);
		starts[nodes] = more;
		more += zone_count;
	}
	for (uint32_t round = 0; round <= cap; round++)
	{
		uint32_t zone_count = starts[round];

		chash_work(&walk->work, 1);
		starts[round] = before;
		before += zone_count;
	}
}

void
chash_walk_init(ChashWalk *walk, const ChashRing *ring, uint32_t limit, bool live)
{
	size_t count = mark_count(ring, limit);

	walk->ring = ring;
	walk->live = live;
	walk->limit = limit;
	walk->wanted = 0;
	walk->rounds = 0;
	walk->stamp = 0;
	walk->work = 0;
	memset(walk->marks, 0, count * sizeof(uint32_t));
	plan_rounds(walk, walk->marks + count - capped(ring, limit) - 1);
}

/* Finds out how many rounds make up the first n nodes. */
static void
count_rounds(ChashWalk *walk, uint32_t n, const uint32_t *starts)
{
	walk->wanted = n;
	for (walk->rounds = 0; starts[walk->rounds] < n; walk->rounds++)
		chash_work(&walk->work, 1);
}

/* How far a walk can go on from a point before it wraps, or looks for interrupts. */
static inline uint32_t
stretch_end(const ChashWalk *walk, uint32_t point)
{
	uint32_t rest = CHASH_WORK_INTERVAL - walk->work;

	return rest < walk->ring->point_count - point ? point + rest : walk->ring->point_count;
}

uint32_t
chash_walk_from_point(ChashWalk *walk, uint32_t point, uint32_t n, uint32_t *nodes)
{
	const ChashRing *ring = walk->ring;
	const ChashRingNode *entries = chash_ring_nodes(ring);
	uint32_t available = walk->live ? ring->live_count : ring->holder_count;
	uint32_t *met = walk->marks;
	uint32_t *zone_met = met + ring->node_count;
	uint32_t *zone_nodes = zone_met + ring->zone_count;
	uint32_t *places = zone_nodes + ring->zone_count;
	const uint32_t *starts = places + capped(ring, walk->limit) + 1;
	uint32_t found = 0;
	uint32_t stamp;
	uint32_t start;
	uint32_t end;

	if (n > available)
		n = available;
	if (n == 0)
		return 0;
	if (++walk->stamp == 0)
	{
		/* The stamps are used up: forget all marks and start over. */
		chash_walk_init(walk, ring, walk->limit, walk->live);
		walk->stamp = 1;
	}
	stamp = walk->stamp;
	if (n != walk->wanted)
		count_rounds(walk, n, starts);
	for (uint32_t round = 0; round < walk->rounds; round++)
		places[round] = starts[round];

	/* n nodes are there to be met, so the walk ends within one turn. */
	start = point < ring->point_count ? point : 0;
	end = stretch_end(walk, start);
	for (point = start;; point++)
	{
		uint32_t node;
		uint32_t zone;
		uint32_t round;

		if (point == end)
		{
			chash_work(&walk->work, end - start);
			point = start = end < ring->point_count ? end : 0;
			end = stretch_end(walk, start);
		}
		node = chash_point_owner(ring, point);
		if (met[node] == stamp)
			continue;
		met[node] = stamp;
		if (walk->live && entries[node].down)
			continue;

		zone = entries[node].zone;
		if (zone_met[zone] != stamp)
		{
			zone_met[zone] = stamp;
			zone_nodes[zone] = 0;
		}
		round = zone_nodes[zone]++;
		if (round >= walk->rounds || places[round] >= n)
			continue;
		nodes[places[round]++] = node;
		if (++found == n)
		{
			chash_work(&walk->work, point - start + 1);
			return n;
		}
	}
}

uint32_t
chash_walk_from(ChashWalk *walk, int64_t position, uint32_t n, uint32_t *nodes)
{
	if (walk->ring->point_count == 0)
		return 0;
	return chash_walk_from_point(walk, chash_ring_find(walk->ring, position), n, nodes);
}
