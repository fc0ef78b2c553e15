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
	return (size_t) ring->node_count + 2 * (size_t) ring->zone_count + capped(ring, limit) + 1;
}

size_t
chash_walk_size(const ChashRing *ring, uint32_t limit)
{
	return sizeof(ChashWalk) + mark_count(ring, limit) * sizeof(uint32_t);
}

void
chash_walk_init(ChashWalk *walk, const ChashRing *ring, uint32_t limit, bool live)
{
	walk->ring = ring;
	walk->live = live;
	walk->limit = limit;
	walk->stamp = 0;
	memset(walk->marks, 0, mark_count(ring, limit) * sizeof(uint32_t));
}

/*
 * Which rounds make up the first n nodes: all nodes of the rounds before the
 * last, as many of the last as are still wanted.  places[r] becomes the place
 * in the result where round r starts.  Returns the last round.
 */
static uint32_t
plan_rounds(const ChashWalk *walk, uint32_t n, uint32_t *places)
{
	const ChashRingZone *zones = chash_ring_zones(walk->ring);
	uint32_t before = 0;

	for (uint32_t round = 0;; round++)
	{
		uint32_t nodes = 0;

		places[round] = before;
		for (uint32_t z = 0; z < walk->ring->zone_count && before + nodes < n; z++)
			nodes += (walk->live ? zones[z].live : zones[z].holders) > round;
		if (before + nodes >= n)
			return round;
		before += nodes;
	}
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
	uint32_t last_round;
	uint32_t found = 0;
	uint32_t stamp;

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
	last_round = plan_rounds(walk, n, places);

	/* n nodes are there to be met, so the walk ends within one turn. */
	for (;; point++)
	{
		uint32_t node;
		uint32_t zone;
		uint32_t round;

		if (point >= ring->point_count)
			point = 0;
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
		if (round > last_round || places[round] >= n)
			continue;
		nodes[places[round]++] = node;
		if (++found == n)
			return n;
	}
}

uint32_t
chash_walk_from(ChashWalk *walk, int64_t position, uint32_t n, uint32_t *nodes)
{
	if (walk->ring->point_count == 0)
		return 0;
	return chash_walk_from_point(walk, chash_ring_find(walk->ring, position), n, nodes);
}
