/*
 * bench_ring.c
 *		How fast src/ring is by itself.
 *
 *	cc -O3 -DNDEBUG -Isrc/ring -o bench_ring test/bench/bench_ring.c src/ring/[a-z]*.c
 *	bench_ring ROUNDS
 *
 * Prints a line for each figure, ring and round: what it is, the number of
 * points of the ring, and nanoseconds of CPU time (for `bytes`, bytes a point), separated by
 * tabs.  Lookups are per key, and include the hash.
 */
#define _POSIX_C_SOURCE 200809L
#include "replicas.h"
#include "ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEYS (1 << 20)

static char keys[KEYS][16];
static size_t lengths[KEYS];
static volatile uint64_t sink;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
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
print(const char *name, uint32_t points, double value)
{
	printf("%s\t%u\t%.3f\n", name, points, value);
}

/* Each of these goes through all keys once, and gives nanoseconds per key. */

static double
time_hash(void)
{
	double start = now();
	uint64_t sum = 0;

	for (int i = 0; i < KEYS; i++)
		sum += (uint64_t) chash_hash_xxh3.position(keys[i], lengths[i]);
	sink = sum;
	return (now() - start) / KEYS;
}

static double
time_lookup(const ChashRing *ring)
{
	double start = now();
	uint64_t sum = 0;

	for (int i = 0; i < KEYS; i++)
		sum += chash_ring_owner(ring, chash_hash_xxh3.position(keys[i], lengths[i]));
	sink = sum;
	return (now() - start) / KEYS;
}

static double
time_plain(const Plain *plain)
{
	double start = now();
	uint64_t sum = 0;

	for (int i = 0; i < KEYS; i++)
		sum += plain_owner(plain, chash_hash_xxh3.position(keys[i], lengths[i]));
	sink = sum;
	return (now() - start) / KEYS;
}

static double
time_replicas(ChashWalk *walk)
{
	double start = now();
	uint64_t sum = 0;
	uint32_t found[3];

	for (int i = 0; i < KEYS; i++)
	{
		chash_walk_from(walk, chash_hash_xxh3.position(keys[i], lengths[i]), 3, found);
		sum += found[2];
	}
	sink = sum;
	return (now() - start) / KEYS;
}

static double
time_sort(uint64_t *numbers, uint32_t count)
{
	double start;

	for (uint32_t i = 0; i < count; i++)
		numbers[i] = (uint64_t) chash_hash_xxh3.position(&i, sizeof(i));
	start = now();
	qsort(numbers, count, sizeof(uint64_t), compare_uint64);
	return now() - start;
}

static void
bench(uint32_t nodes, int rounds)
{
	ChashSpec spec = make_spec(nodes);
	uint32_t points;
	ChashRing *ring;
	Plain plain;
	uint64_t *numbers;
	void *scratch;
	ChashWalk *walk;

	chash_spec_check(&spec, &points);
	ring = malloc(chash_ring_size(&spec, points));
	scratch = malloc(chash_ring_scratch_size(&spec, points));
	numbers = malloc(points * sizeof(uint64_t));
	chash_ring_build(&spec, points, ring, scratch);
	plain = make_plain(ring);
	walk = malloc(chash_walk_size(ring, 3));
	chash_walk_init(walk, ring, 3, true);

	for (int round = 0; round < rounds; round++)
	{
		double start;

		print("hash", points, time_hash());
		print("lookup", points, time_lookup(ring));
		print("plain", points, time_plain(&plain));
		print("replicas", points, time_replicas(walk));
		start = now();
		chash_ring_build(&spec, points, ring, scratch);
		print("build", points, now() - start);
		print("sort", points, time_sort(numbers, points));
		print("bytes", points, (double) ring->size / points);
	}
}

int
main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 7;

	for (int i = 0; i < KEYS; i++)
		lengths[i] = (size_t) sprintf(keys[i], "key-%d", i);
	for (uint32_t nodes = 10; nodes <= 10000; nodes *= 10)
		bench(nodes, rounds);
	return 0;
}
