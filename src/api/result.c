/*
 * result.c
 *		What functions that read rings have in common.
 */
#include "result.h"

#include "../ring/replicas.h"
#include "../store/values.h"

#include "miscadmin.h"
#include "utils/builtins.h"

ChashCachedRing *
chash_get_ring(FunctionCallInfo fcinfo, int argument, int64 as_of)
{
	char *name = PG_ARGISNULL(argument) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(argument));

	chash_check_name("ring", name);
	return chash_cache_get(fcinfo->flinfo->fn_oid, name, as_of, false);
}

void
chash_names_init(ChashNames *names, const ChashRing *ring)
{
	names->ring = ring;
	names->texts = palloc0_array(Datum, Max(ring->node_count, 1));
}

Datum
chash_name(ChashNames *names, uint32 node, bool *isnull)
{
	*isnull = node == CHASH_NO_NODE;
	if (*isnull)
		return (Datum) 0;
	if (names->texts[node] == (Datum) 0)
		names->texts[node] =
			CStringGetTextDatum(chash_from_utf8(chash_ring_name(names->ring, node),
												chash_ring_nodes(names->ring)[node].name_length));
	return names->texts[node];
}

double *
chash_shares(const ChashRing *ring, uint32 replicas)
{
	double *shares = palloc0_array(double, Max(ring->node_count, 1));
	uint64 *widths = palloc0_array(uint64, Max(ring->node_count, 1));
	uint32 limit = Min(replicas, ring->holder_count);
	uint32 *nodes = palloc_array(uint32, Max(limit, 1));
	ChashWalk *walk = MemoryContextAllocHuge(CurrentMemoryContext, chash_walk_size(ring, limit));
	int64 lo = ring->lowest;
	uint32 work = 0;

	chash_walk_init(walk, ring, limit, false);
	for (uint32 point = 0; point <= ring->point_count && limit > 0; point++)
	{
		/* Behind the last point the circle wraps to the first. */
		int64 hi = chash_point_position(ring, point);
		uint32 count;

		chash_work(&work, 1 + limit);
		if (hi < lo)
			continue; /* a point that lost a tie */
		count = chash_walk_from_point(walk, point, limit, nodes);
		for (uint32 i = 0; i < count; i++)
		{
			/* Sums are exact; one that wraps to 0 is that of the whole circle. */
			widths[nodes[i]] += (uint64) hi - (uint64) lo + 1;
			if (widths[nodes[i]] == 0)
				shares[nodes[i]] = 1;
		}
		if (hi == ring->highest)
			break;
		lo = hi + 1;
	}
	for (uint32 node = 0; node < ring->node_count; node++)
	{
		chash_work(&work, 1);
		if (widths[node] > 0)
			shares[node] = chash_ring_share(ring, 0, (int64) (widths[node] - 1));
	}
	pfree(walk);
	pfree(nodes);
	pfree(widths);
	return shares;
}
