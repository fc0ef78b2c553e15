/*
 * bench_balance.c
 *		How evenly the circle is shared out: the share of the busiest of a
 *		hundred nodes, as a multiple of the mean.
 *
 *	cc -O3 -DNDEBUG -Isrc/ring -o bench_balance test/bench/bench_balance.c src/ring/[a-z]*.c
 *	bench_balance SETS
 *
 * Prints a line for each placement, number of points a node (of partitions in
 * all) and set of nodes: placement, that number, ratio, separated by tabs.
 * Each set has names of its own; sets are the same in every run.
 */
#include "partitions.h"
#include "ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 100
#define MAX_VNODES 1024

static char names[NODES][32];
static ChashSpecNode nodes[NODES];

/* Names that ascend, with something of the set in each. */
static void
name_nodes(int set)
{
	for (int i = 0; i < NODES; i++)
	{
		nodes[i].name = names[i];
		nodes[i].name_length = (size_t) sprintf(names[i], "node-%02d-%d", i, set);
		nodes[i].weight = CHASH_WEIGHT_ONE;
	}
}

static double
busiest(const ChashRing *ring)
{
	double shares[NODES] = {0};
	double most = 0;
	uint32_t last = ring->point_count - 1;

	for (uint32_t i = 0; i <= last; i++)
	{
		uint64_t before = (uint64_t) chash_point_position(ring, i > 0 ? i - 1 : last);
		uint64_t width = (uint64_t) chash_point_position(ring, i) - before;

		shares[chash_point_owner(ring, i)] += (double) width / 18446744073709551616.0;
	}
	for (int i = 0; i < NODES; i++)
	{
		if (shares[i] > most)
			most = shares[i];
	}
	return most * NODES;
}

static void
measure_vnodes(int sets)
{
	ChashSpec spec = {.hash = &chash_hash_xxh3,
					  .placement = CHASH_VNODES,
					  .vnodes = MAX_VNODES,
					  .nodes = nodes,
					  .node_count = NODES};
	ChashRing *ring;
	void *scratch;
	uint32_t points;

	name_nodes(sets);
	chash_spec_check(&spec, &points);
	ring = malloc(chash_ring_size(&spec, points));
	scratch = malloc(chash_ring_scratch_size(&spec, points));
	for (spec.vnodes = 1; spec.vnodes <= MAX_VNODES; spec.vnodes *= 2)
	{
		for (int set = 0; set < sets; set++)
		{
			name_nodes(set);
			chash_spec_check(&spec, &points);
			chash_ring_build(&spec, points, ring, scratch);
			printf("vnodes\t%u\t%.6f\n", spec.vnodes, busiest(ring));
		}
	}
	free(ring);
	free(scratch);
}

/* Here names do not matter: quotas are all there is to it. */
static void
measure_partitions(void)
{
	ChashSpec spec = {.hash = &chash_hash_xxh3,
					  .placement = CHASH_PARTITIONS,
					  .nodes = nodes,
					  .node_count = NODES};
	uint32_t quotas[NODES];
	void *scratch = malloc(chash_partitions_scratch_size(&spec));

	name_nodes(0);
	for (spec.partitions = 128; spec.partitions <= NODES * MAX_VNODES; spec.partitions *= 2)
	{
		uint32_t most = 0;

		chash_partitions_quotas(&spec, quotas, scratch);
		for (int i = 0; i < NODES; i++)
		{
			if (quotas[i] > most)
				most = quotas[i];
		}
		printf("partitions\t%u\t%.6f\n", spec.partitions, (double) most * NODES / spec.partitions);
	}
	free(scratch);
}

int
main(int argc, char **argv)
{
	int sets = argc > 1 ? atoi(argv[1]) : 200;

	measure_vnodes(sets);
	measure_partitions();
	return 0;
}
