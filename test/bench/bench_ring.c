/*
 * bench_ring.c
 *		How fast src/ring is by itself, as ratios within one run.
 *
 *	cc -O3 -DNDEBUG -Isrc/ring -o bench_ring test/bench/bench_ring.c src/ring/[a-z]*.c
 */
#define _POSIX_C_SOURCE 200809L
#include "diff.h"
#include "replicas.h"
#include "ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEYS (1 << 20)
#define ROUNDS 9

static char keys[KEYS][16];
static size_t lengths[KEYS];
static volatile uint64_t sink;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static int
compare_doubles(const void *a, const void *b)
{
	return (*(const double *) a > *(const double *) b) -
		   (*(const double *) a < *(const double *) b);
}

static double
median(double *values)
{
	qsort(values, ROUNDS, sizeof(double), compare_doubles);
	return values[ROUNDS / 2];
}

static int
compare_uint64(const void *a, const void *b)
{
	return (*(const uint64_t *) a > *(const uint64_t *) b) -
		   (*(const uint64_t *) a < *(const uint64_t *) b);
}

static ChashSpec
make_spec(uint32_t nodes)
{
	ChashSpec spec = {.hash = &chash_hash_xxh3, .placement = CHASH_VNODES, .vnodes = 256};

	spec.nodes = calloc(nodes, sizeof(ChashSpecNode));
	spec.node_count = nodes;
	for (uint32_t i = 0; i < nodes; i++)
	{
		char *name = malloc(16);

		spec.nodes[i].name = name;
		spec.nodes[i].name_length = (size_t) sprintf(name, "node-%05u", i);
		spec.nodes[i].weight = CHASH_WEIGHT_ONE;
	}
	return spec;
}

/* The plainest bucket index: starts and positions in arrays of their own. */
typedef struct Plain
{
	uint32_t *starts;
	int64_t *positions;
	uint32_t *owners;
	uint32_t count;
} Plain;

static inline uint32_t
plain_bucket(const Plain *plain, int64_t position)
{
	uint64_t offset = (uint64_t) position - (uint64_t) INT64_MIN;

	return (uint32_t) (((offset >> 32) * plain->count) >> 32);
}

static Plain
make_plain(const ChashRing *ring)
{
	Plain plain = {.count = ring->point_count};

	plain.starts = malloc((plain.count + 1) * sizeof(uint32_t));
	plain.positions = malloc((plain.count + 1) * sizeof(int64_t));
	plain.owners = malloc((plain.count + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i <= plain.count; i++)
	{
		plain.positions[i] = i < plain.count ? chash_point_position(ring, i) : INT64_MAX;
		plain.owners[i] = chash_point_owner(ring, i);
	}
	for (uint32_t b = 0, point = 0; b < plain.count; b++)
	{
		while (point < plain.count && plain_bucket(&plain, plain.positions[point]) < b)
			point++;
		plain.starts[b] = point;
	}
	return plain;
}

static inline uint32_t
plain_owner(const Plain *plain, int64_t position)
{
	uint32_t point = plain->starts[plain_bucket(plain, position)];

	while (plain->positions[point] < position)
		point++;
	return plain->owners[point];
}

static void
bench(uint32_t nodes)
{
	ChashSpec spec = make_spec(nodes);
	ChashSpec more = make_spec(nodes + 1);
	uint32_t points;
	uint32_t more_points;
	ChashRing *ring;
	ChashRing *after;
	Plain plain;
	uint64_t *numbers;
	void *scratch;
	double hash[ROUNDS], lookup[ROUNDS], simple[ROUNDS], replicas[ROUNDS], build[ROUNDS],
		sort[ROUNDS];
	ChashWalk *walk;

	chash_spec_check(&spec, &points);
	chash_spec_check(&more, &more_points);
	ring = malloc(chash_ring_size(&spec, points));
	after = malloc(chash_ring_size(&more, more_points));
	scratch = malloc(chash_ring_scratch_size(&more, more_points));
	numbers = malloc(points * sizeof(uint64_t));
	chash_ring_build(&more, more_points, after, scratch);
	chash_ring_build(&spec, points, ring, scratch);
	plain = make_plain(ring);
	walk = malloc(chash_walk_size(ring, 3));
	chash_walk_init(walk, ring, 3, true);

	for (int round = 0; round < ROUNDS; round++)
	{
		double start = now();
		uint64_t sum = 0;
		uint32_t found[3];

		for (int i = 0; i < KEYS; i++)
			sum += (uint64_t) chash_hash_xxh3.position(keys[i], lengths[i]);
		hash[round] = now() - start;

		start = now();
		for (int i = 0; i < KEYS; i++)
			sum += chash_ring_owner(ring, chash_hash_xxh3.position(keys[i], lengths[i]));
		lookup[round] = now() - start;

		start = now();
		for (int i = 0; i < KEYS; i++)
			sum += plain_owner(&plain, chash_hash_xxh3.position(keys[i], lengths[i]));
		simple[round] = now() - start;

		start = now();
		for (int i = 0; i < KEYS; i++)
		{
			chash_walk_from(walk, chash_hash_xxh3.position(keys[i], lengths[i]), 3, found);
			sum += found[2];
		}
		replicas[round] = now() - start;

		start = now();
		chash_ring_build(&spec, points, ring, scratch);
		build[round] = now() - start;

		for (uint32_t i = 0; i < points; i++)
			numbers[i] = (uint64_t) chash_hash_xxh3.position(&i, sizeof(i));
		start = now();
		qsort(numbers, points, sizeof(uint64_t), compare_uint64);
		sort[round] = now() - start;
		sink = sum;
	}

	printf("%u nodes, %u points, %.2f bytes a point\n", nodes, points,
		   (double) ring->size / points);
	printf("  hash %.1f ns; lookup %.1f ns over it, a plain bucket index %.1f: ratio %.2f\n",
		   median(hash) / KEYS, (median(lookup) - median(hash)) / KEYS,
		   (median(simple) - median(hash)) / KEYS,
		   (median(lookup) - median(hash)) / (median(simple) - median(hash)));
	printf("  3 replicas %.1f ns with the hash: %.2f times hash and lookup\n",
		   median(replicas) / KEYS, median(replicas) / median(lookup));
	printf("  build %.1f ms, qsort of as many uint64 %.1f ms: ratio %.2f\n", median(build) / 1e6,
		   median(sort) / 1e6, median(build) / median(sort));
}

int
main(void)
{
	for (int i = 0; i < KEYS; i++)
		lengths[i] = (size_t) sprintf(keys[i], "key-%d", i);
	bench(10);
	bench(100);
	bench(1000);
	bench(10000);
	return 0;
}
