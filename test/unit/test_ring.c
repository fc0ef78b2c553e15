/*
 * test_ring.c
 *		Unit tests of src/ring: published vectors, the edges, and random rings
 *		against the model.  Prints TAP.
 */
#include "model.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tests = 0;
static int failures = 0;

static void
ok(bool passed, const char *format, ...)
{
	va_list arguments;

	printf("%sok %d - ", passed ? "" : "not ", ++tests);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	failures += !passed;
}

/* Random numbers that are the same everywhere (splitmix64). */
static uint64_t random_state = 42;

static uint64_t
random_bits(void)
{
	uint64_t z = (random_state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint32_t
random_below(uint32_t limit)
{
	return (uint32_t) (random_bits() % limit);
}

/* ----------------------------------------------------------------
 * Specs for tests
 * ----------------------------------------------------------------
 */

#define MAX_NODES 40
#define MAX_TOKENS 12
#define MAX_TEST_PARTITIONS 256

/* A spec with room for everything that it points to. */
typedef struct TestSpec
{
	ChashSpec spec;
	ChashSpecNode nodes[MAX_NODES];
	char names[MAX_NODES][24];
	int64_t tokens[MAX_NODES][MAX_TOKENS];
	uint32_t lists[2][MAX_TEST_PARTITIONS];
	int list;
} TestSpec;

/* A circle of 2^14 positions from 0 on, where positions often meet. */
static int64_t
small_position(const void *key, size_t length)
{
	return chash_hash_xxh3.position(key, length) & 16383;
}

static const ChashHash small_hash = {"small", 0, 14, false, small_position};

static void
init(TestSpec *t, const ChashHash *hash, ChashPlacement placement)
{
	memset(t, 0, sizeof(*t));
	t->spec.hash = hash;
	t->spec.placement = placement;
	t->spec.vnodes = 8;
	t->spec.partitions = 64;
	t->spec.nodes = t->nodes;
}

/* Adds a node, in the order of names, and returns it. */
static ChashSpecNode *
add(TestSpec *t, const char *name, int64_t weight)
{
	uint32_t at = t->spec.node_count++;
	ChashSpecNode *node = &t->nodes[at];

	memset(node, 0, sizeof(*node));
	snprintf(t->names[at], sizeof(t->names[at]), "%s", name);
	node->name = t->names[at];
	node->name_length = strlen(name);
	node->weight = weight;
	node->tokens = t->tokens[at];
	return node;
}

static void
add_token(TestSpec *t, const char *name, int64_t token)
{
	ChashSpecNode *node = add(t, name, CHASH_WEIGHT_ONE);

	t->tokens[t->spec.node_count - 1][0] = token;
	node->token_count = 1;
}

static void
assign(TestSpec *t)
{
	void *scratch = malloc(chash_partitions_scratch_size(&t->spec));

	t->list = 1 - t->list;
	chash_partitions_assign(&t->spec, t->lists[t->list], scratch);
	free(scratch);
}

static int
compare_tokens(const void *a, const void *b)
{
	int64_t left = *(const int64_t *) a;
	int64_t right = *(const int64_t *) b;

	return (left > right) - (left < right);
}

/* Gives a node random tokens, some at the ends of the circle, some adjacent. */
static void
random_tokens(TestSpec *t, uint32_t at)
{
	int64_t *tokens = t->tokens[at];
	uint32_t count = 0;

	for (int i = 0; i < MAX_TOKENS; i++)
	{
		uint64_t offset = random_bits() >> (64 - t->spec.hash->bits);
		int64_t token;
		bool known = false;

		if (random_below(4) == 0)
			offset = random_below(6);
		token = (int64_t) ((uint64_t) t->spec.hash->lowest + offset);
		if (random_below(12) == 0)
			token = chash_hash_highest(t->spec.hash);
		for (uint32_t k = 0; k < count; k++)
			known |= tokens[k] == token;
		if (!known)
			tokens[count++] = token;
		if (random_below(6) == 0)
			break;
	}
	qsort(tokens, count, sizeof(int64_t), compare_tokens);
	t->nodes[at].token_count = count;
}

/* A random ring of up to a dozen nodes. */
static void
random_spec(TestSpec *t, const ChashHash *hash, ChashPlacement placement)
{
	static const int64_t weights[] = {0, 1, 500, 1000, 2750};
	static const char *const zones[] = {"a", "b", "c"};
	uint32_t count = random_below(13);
	bool zoned = random_below(2);

	init(t, hash, placement);
	t->spec.vnodes = 1 + random_below(8);
	t->spec.partitions = UINT32_C(1) << (4 + random_below(5));
	for (uint32_t i = 0; i < count; i++)
	{
		char name[24];
		ChashSpecNode *node;

		snprintf(name, sizeof(name), "%02u%s", (unsigned) i, random_below(2) ? "#1" : "");
		node = add(t, name, weights[random_below(5)]);
		node->down = random_below(5) == 0;
		if (zoned && random_below(5) > 0)
		{
			node->zone = zones[random_below(3)];
			node->zone_length = 1;
		}
		if (placement == CHASH_TOKENS)
			random_tokens(t, i);
	}
	if (placement == CHASH_PARTITIONS)
		assign(t);
}

/* Removes, adds or reweights a few nodes. */
static void
random_change(const TestSpec *before, TestSpec *after)
{
	init(after, before->spec.hash, before->spec.placement);
	after->spec.vnodes = before->spec.vnodes;
	after->spec.partitions = before->spec.partitions;
	for (uint32_t i = 0; i < before->spec.node_count; i++)
	{
		const ChashSpecNode *old = &before->nodes[i];
		ChashSpecNode *node;
		uint32_t at = after->spec.node_count;

		if (random_below(5) == 0)
			continue;
		node = add(after, before->names[i], random_below(5) == 0 ? 1500 : old->weight);
		node->zone = old->zone;
		node->zone_length = old->zone_length;
		memcpy(after->tokens[at], before->tokens[i], sizeof(before->tokens[i]));
		node->token_count = old->token_count;
		node->partitions = old->partitions;
		node->partition_count = old->partition_count;
	}
	if (random_below(2))
	{
		add(after, "zz", 1000);
		if (before->spec.placement == CHASH_TOKENS)
			random_tokens(after, after->spec.node_count - 1);
	}
	if (before->spec.placement == CHASH_PARTITIONS)
		assign(after);
}

/* ----------------------------------------------------------------
 * Tests
 * ----------------------------------------------------------------
 */

/* The buffer of the xxHash project's own sanity check, and its results. */
static void
test_hash(void)
{
	static const struct
	{
		size_t length;
		uint64_t hash;
	} vectors[] = {
		{0, UINT64_C(0x2D06800538D394C2)},	 {1, UINT64_C(0xC44BDFF4074EECDB)},
		{6, UINT64_C(0x27B56A84CD2D7325)},	 {12, UINT64_C(0xA713DAF0DFBB77E7)},
		{24, UINT64_C(0xA3FE70BF9D3510EB)},	 {48, UINT64_C(0x397DA259ECBA1F11)},
		{80, UINT64_C(0xBCDEFBBB2C47C90A)},	 {195, UINT64_C(0xCD94217EE362EC3A)},
		{403, UINT64_C(0xCDEB804D65C6DEA4)}, {2367, UINT64_C(0xCB37AEB9E5D361ED)},
	};
	unsigned char buffer[2367];
	uint64_t generator = 2654435761U;
	bool right = true;

	for (size_t i = 0; i < sizeof(buffer); i++)
	{
		buffer[i] = (unsigned char) (generator >> 56);
		generator *= UINT64_C(11400714785074694797);
	}
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		right &= (uint64_t) chash_hash_xxh3.position(buffer, vectors[i].length) == vectors[i].hash;
	ok(right, "xxh3 gives the published values");
	ok((uint64_t) chash_hash_xxh3.position("abc", 3) == UINT64_C(0x78af5f94892f3950) &&
		   (uint64_t) chash_hash_xxh3.position("123456789", 9) == UINT64_C(0x72dcb18b67a17dff),
	   "xxh3 of abc and 123456789");
	ok(chash_hash_by_name("xxh3") == &chash_hash_xxh3 && chash_hash_by_name("md5") == NULL &&
		   chash_hash_by_name("") == NULL,
	   "hashes are found by name");
	ok(chash_hash_highest(&chash_hash_xxh3) == INT64_MAX &&
		   chash_hash_highest(&small_hash) == 16383,
	   "highest positions");
	ok(chash_hash_covers(&small_hash, 0) && chash_hash_covers(&small_hash, 16383) &&
		   !chash_hash_covers(&small_hash, -1) && !chash_hash_covers(&small_hash, 16384) &&
		   chash_hash_covers(&chash_hash_xxh3, INT64_MIN),
	   "positions off the circle are known as such");
}

static void
test_tags(void)
{
	static const char *const cases[][2] = {
		{"{user1000}.following", "user1000"},
		{"foo{}{bar}", "foo{}{bar}"},
		{"foo{{bar}}zap", "{bar"},
		{"foo{bar}{zap}", "bar"},
		{"{}", "{}"},
		{"", ""},
		{"}{", "}{"},
		{"a{b", "a{b"},
		{"{", "{"},
		{"x}y{z}", "z"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const char *key = cases[i][0];
		size_t length = strlen(key);

		chash_hash_tag(&key, &length);
		ok(length == strlen(cases[i][1]) && memcmp(key, cases[i][1], length) == 0,
		   "hash tag of \"%s\"", cases[i][0]);
	}
}

static void
test_point_counts(void)
{
	/* vnodes, weight in thousandths, points */
	static const int64_t cases[][3] = {
		{256, 1000, 256},
		{256, 0, 0},
		{256, 1, 1},
		{256, 5, 1},
		{256, 6, 2},
		{1, 500, 1},
		{1, 1499, 1},
		{1, 1500, 2},
		{1, 2500, 3},
		{3, 500, 2},
		{100, 2750, 275},
		{256, 999999999, 256000000},
		{65536, 999999999, 65535999934},
	};
	TestSpec t;
	uint32_t points;

	init(&t, &chash_hash_xxh3, CHASH_VNODES);
	add(&t, "a", 1000);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		t.spec.vnodes = (uint32_t) cases[i][0];
		t.nodes[0].weight = cases[i][1];
		ok(chash_node_point_count(&t.spec, &t.nodes[0]) == (uint64_t) cases[i][2],
		   "%" PRId64 " vnodes of weight %" PRId64 "/1000 are %" PRId64 " points", cases[i][0],
		   cases[i][1], cases[i][2]);
	}

	t.spec.vnodes = 65536;
	t.nodes[0].weight = 256000;
	ok(chash_spec_check(&t.spec, &points) == CHASH_SPEC_OK && points == CHASH_MAX_POINTS,
	   "as many points as are allowed");
	add(&t, "b", 1);
	ok(chash_spec_check(&t.spec, &points) == CHASH_SPEC_TOO_MANY_POINTS, "one point too many");
}

static void
test_edges(void)
{
	TestSpec t;
	TestSpec u;
	ChashRing *ring;
	ChashRing *other;
	ChashDiffRows rows;
	ChashRangeCursor cursor = {0};
	ChashRange range;

	/* The worked example: points at 20, 50 and 80. */
	init(&t, &chash_hash_xxh3, CHASH_TOKENS);
	add_token(&t, "A", 20);
	add_token(&t, "B", 50);
	add_token(&t, "C", 80);
	ring = build(&t.spec);
	ok(chash_ring_owner(ring, 35) == 1 && chash_ring_owner(ring, 90) == 0 &&
		   chash_ring_owner(ring, 50) == 1 && chash_ring_owner(ring, 51) == 2 &&
		   chash_ring_owner(ring, INT64_MIN) == 0 && chash_ring_owner(ring, INT64_MAX) == 0,
	   "35 is B's, 90 wraps to A, 50 is B's");
	u = t;
	u.spec.nodes = u.nodes;
	for (int i = 0; i < 3; i++)
	{
		u.nodes[i].name = u.names[i];
		u.nodes[i].tokens = u.tokens[i];
	}
	add_token(&u, "D", 40);
	other = build(&u.spec);
	rows = diff(ring, other, 1);
	ok(rows.count == 1 && rows.rows[0].lo == 21 && rows.rows[0].hi == 40 &&
		   rows.rows[0].from == 1 && rows.rows[0].to == 3,
	   "D at 40 takes exactly 21..40 from B");
	free(rows.rows);
	free(other);
	init(&u, &chash_hash_xxh3, CHASH_TOKENS);
	add_token(&u, "A", 20);
	add_token(&u, "C", 80);
	other = build(&u.spec);
	rows = diff(ring, other, 1);
	ok(rows.count == 1 && rows.rows[0].lo == 21 && rows.rows[0].hi == 50 &&
		   rows.rows[0].from == 1 && rows.rows[0].to == 1,
	   "without B, exactly 21..50 goes to C");
	free(rows.rows);
	free(other);
	free(ring);

	/* No node, one node, nodes without weight. */
	init(&t, &chash_hash_xxh3, CHASH_VNODES);
	ring = build(&t.spec);
	ok(chash_ring_owner(ring, 0) == CHASH_NO_NODE && !chash_ranges_next(ring, &cursor, &range),
	   "an empty ring has no owner and no range");
	add(&t, "only", 1000);
	other = build(&t.spec);
	ok(chash_ranges_next(other, &cursor, &range) && range.lo == INT64_MIN &&
		   range.hi == INT64_MAX && !chash_ranges_next(other, &cursor, &range),
	   "one node owns one range, all of the circle");
	ok(chash_ring_share(other, INT64_MIN, INT64_MAX) == 1.0, "whose share is 1");
	rows = diff(ring, other, 1);
	ok(rows.count == 1 && rows.rows[0].lo == INT64_MIN && rows.rows[0].hi == INT64_MAX &&
		   rows.rows[0].from == CHASH_NO_NODE && rows.rows[0].to == 0,
	   "the first node takes everything");
	free(rows.rows);
	rows = diff(other, other, 3);
	ok(rows.count == 0, "nothing differs from itself");
	free(rows.rows);
	free(other);
	free(ring);
	t.nodes[0].weight = 0;
	ring = build(&t.spec);
	ok(ring->point_count == 0 && ring->node_count == 1 && check_ring(ring) == NULL,
	   "a node without weight has no points");
	free(ring);

	/* Two nodes at one position, at both ends of the circle too. */
	init(&t, &chash_hash_xxh3, CHASH_TOKENS);
	add_token(&t, "a", INT64_MAX);
	add_token(&t, "b", INT64_MAX);
	add_token(&t, "c", INT64_MIN);
	ring = build(&t.spec);
	ok(chash_ring_owner(ring, INT64_MAX) == 0 && chash_ring_owner(ring, INT64_MIN) == 2 &&
		   chash_ring_owner(ring, INT64_MIN + 1) == 0,
	   "the smaller name owns, at both ends");
	ok(check_ring(ring) == NULL, "and the walk meets the other one");
	init(&u, &chash_hash_xxh3, CHASH_TOKENS);
	add_token(&u, "b", INT64_MAX);
	add_token(&u, "c", INT64_MIN);
	other = build(&u.spec);
	rows = diff(ring, other, 1);
	ok(rows.count == 1 && rows.rows[0].lo == INT64_MIN + 1 && rows.rows[0].hi == INT64_MAX &&
		   rows.rows[0].from == 0 && rows.rows[0].to == 0,
	   "without it, the other one owns the same");
	free(rows.rows);
	free(other);
	free(ring);

	/* All points in one bucket. */
	init(&t, &chash_hash_xxh3, CHASH_TOKENS);
	for (int i = 0; i < MAX_NODES; i++)
	{
		char name[8];
		ChashSpecNode *node;

		snprintf(name, sizeof(name), "n%02d", i);
		node = add(&t, name, 1000);
		for (int k = 0; k < MAX_TOKENS; k++)
			t.tokens[i][k] = k * 50 + i;
		node->token_count = MAX_TOKENS;
	}
	ring = build(&t.spec);
	ok(check_ring(ring) == NULL, "%u points in one bucket", ring->point_count);
	free(ring);
}

static void
test_random(const ChashHash *hash, ChashPlacement placement)
{
	const char *wrong = NULL;
	int rings = 0;

	for (; rings < 300 && wrong == NULL; rings++)
	{
		TestSpec before;
		TestSpec after;
		ChashRing *old_ring;
		ChashRing *new_ring;

		random_spec(&before, hash, placement);
		random_change(&before, &after);
		old_ring = build(&before.spec);
		new_ring = build(&after.spec);
		wrong = check_ring(old_ring);
		for (uint32_t replicas = 1; replicas <= 4 && wrong == NULL; replicas++)
			wrong = check_diff(old_ring, new_ring, replicas);
		free(old_ring);
		free(new_ring);
	}
	ok(wrong == NULL, "%d random rings of placement %s on a circle of 2^%d%s%s", rings,
	   chash_placement_name(placement), hash->bits, wrong ? ": " : "", wrong ? wrong : "");
}

static bool
holds(const ChashSpecNode *node, uint32_t partition)
{
	for (uint32_t k = 0; k < node->partition_count; k++)
	{
		if (node->partitions[k] == partition)
			return true;
	}
	return false;
}

static void
test_partitions(void)
{
	TestSpec t;
	TestSpec u;
	ChashRing *ring;
	uint32_t points;
	bool right = true;
	uint32_t doubled[] = {0, 0};

	init(&t, &chash_hash_xxh3, CHASH_PARTITIONS);
	t.spec.partitions = 4;
	ok(chash_partition_end(&t.spec, 0) == INT64_MIN / 2 - 1 &&
		   chash_partition_end(&t.spec, 1) == -1 && chash_partition_end(&t.spec, 3) == INT64_MAX,
	   "partitions end where they should");
	t.spec.partitions = 1;
	ok(chash_partition_end(&t.spec, 0) == INT64_MAX, "one partition is everything");
	t.spec.hash = &small_hash;
	t.spec.partitions = 16384;
	ok(chash_partition_end(&t.spec, 7) == 7 && chash_partition_end(&t.spec, 16383) == 16383,
	   "as many partitions as positions");

	/* Every change of one node moves to or from that node alone, and the least. */
	for (int round = 0; round < 200 && right; round++)
	{
		uint32_t changed = UINT32_MAX;

		random_spec(&t, &chash_hash_xxh3, CHASH_PARTITIONS);
		if (t.spec.node_count == 0)
			continue;
		u = t;
		u.spec.nodes = u.nodes;
		changed = random_below(u.spec.node_count);
		u.nodes[changed].weight = (int64_t) random_below(3) * 1375;
		assign(&u);
		for (uint32_t i = 0; i < t.spec.node_count; i++)
		{
			uint32_t kept = 0;
			uint32_t smaller;

			for (uint32_t k = 0; k < t.nodes[i].partition_count; k++)
				kept += holds(&u.nodes[i], t.nodes[i].partitions[k]);
			smaller = t.nodes[i].partition_count < u.nodes[i].partition_count
						  ? t.nodes[i].partition_count
						  : u.nodes[i].partition_count;
			right &= kept == smaller;
		}
	}
	ok(right, "no node gives up a partition and takes another");

	init(&t, &chash_hash_xxh3, CHASH_PARTITIONS);
	t.spec.partitions = 2;
	add(&t, "a", 1000);
	add(&t, "b", 1000);
	t.nodes[0].partitions = doubled;
	t.nodes[0].partition_count = 2;
	ok(chash_spec_check(&t.spec, &points) == CHASH_SPEC_OK && build(&t.spec) == NULL,
	   "a partition with two owners is found out");
	t.nodes[0].partition_count = 1;
	ok(chash_spec_check(&t.spec, &points) == CHASH_SPEC_BAD_OWNERS, "one without owner too");
	add(&t, "c", 1000);
	ok(chash_spec_check(&t.spec, &points) == CHASH_SPEC_TOO_FEW_PARTITIONS,
	   "more nodes than partitions are refused");
	t.spec.node_count = 2;
	assign(&t);
	ring = build(&t.spec);
	ok(ring != NULL && t.nodes[0].partition_count == 1 && t.nodes[1].partition_count == 1,
	   "assigning puts doubled and missing partitions right");
	free(ring);
}

static void
test_fingerprint(void)
{
	TestSpec t;
	char first[CHASH_FINGERPRINT_SIZE];
	char second[CHASH_FINGERPRINT_SIZE];

	init(&t, &chash_hash_xxh3, CHASH_VNODES);
	t.spec.vnodes = 256;
	add(&t, "a", 1000);
	chash_spec_fingerprint(&t.spec, first);
	ok(strlen(first) == 32, "a fingerprint has 32 digits");
	t.nodes[0].down = true;
	chash_spec_fingerprint(&t.spec, second);
	ok(strcmp(first, second) == 0, "down or up makes no difference");
	t.nodes[0].zone = "z";
	t.nodes[0].zone_length = 1;
	chash_spec_fingerprint(&t.spec, second);
	ok(strcmp(first, second) != 0, "a zone does");
	t.nodes[0].zone = NULL;
	t.spec.hash_tags = true;
	chash_spec_fingerprint(&t.spec, second);
	ok(strcmp(first, second) != 0, "hash tags do");
}

/* What chash_sort sorts here: as it stands, the second number says where it stood. */
typedef struct Item
{
	uint32_t key;
	uint32_t place;
} Item;

static int
compare_items(const void *a, const void *b)
{
	return (int) ((const Item *) a)->key - (int) ((const Item *) b)->key;
}

static bool
sorts(Item *items, uint32_t count)
{
	void *scratch = malloc(chash_sort_scratch_size(count, sizeof(Item)) + 1);
	uint64_t sum = 0;
	bool right = true;

	for (uint32_t i = 0; i < count; i++)
	{
		items[i].place = i;
		sum += items[i].key * (uint64_t) (i + 1);
	}
	chash_sort(items, count, sizeof(Item), compare_items, scratch);
	for (uint32_t i = 0; i < count; i++)
	{
		sum -= items[i].key * (uint64_t) (items[i].place + 1);
		right &= i == 0 || items[i - 1].key < items[i].key ||
				 (items[i - 1].key == items[i].key && items[i - 1].place < items[i].place);
	}
	free(scratch);
	return right && sum == 0;
}

static void
test_sort(void)
{
	static Item items[1000];
	bool right = true;

	for (uint32_t count = 0; count < 300; count++)
	{
		for (uint32_t keys = 1; keys < 1000; keys *= 9)
		{
			for (uint32_t i = 0; i < count; i++)
				items[i].key = random_below(keys);
			right &= sorts(items, count);
		}
		for (uint32_t i = 0; i < count; i++)
			items[i].key = count - i;
		right &= sorts(items, count);
	}
	ok(right, "sorting keeps every item, and the order of equal ones");
}

static void
test_find_node(void)
{
	TestSpec t;
	ChashRing *ring;
	bool right = true;

	init(&t, &chash_hash_xxh3, CHASH_VNODES);
	add(&t, "a", 1000);
	add(&t, "ab", 0);
	add(&t, "b", 1000);
	ring = build(&t.spec);
	for (uint32_t i = 0; i < 3; i++)
		right &= chash_ring_find_node(ring, t.names[i], strlen(t.names[i])) == i;
	ok(right && chash_ring_find_node(ring, "", 0) == CHASH_NO_NODE &&
		   chash_ring_find_node(ring, "aa", 2) == CHASH_NO_NODE &&
		   chash_ring_find_node(ring, "c", 1) == CHASH_NO_NODE,
	   "nodes are found by name");
	free(ring);
}

static void
test_same_weights(void)
{
	TestSpec t;
	TestSpec u;

	init(&t, &chash_hash_xxh3, CHASH_PARTITIONS);
	add(&t, "a", 1000);
	add(&t, "b", 2000);
	init(&u, &chash_hash_xxh3, CHASH_PARTITIONS);
	add(&u, "a", 1000);
	ok(!chash_partitions_same_weights(&t.spec, &u.spec), "a node more or less is a difference");
	add(&u, "b", 2000)->down = true;
	ok(chash_partitions_same_weights(&t.spec, &u.spec), "up or down is none");
	u.nodes[1].weight = 1999;
	ok(!chash_partitions_same_weights(&t.spec, &u.spec), "a weight is one");
	u.nodes[1].weight = 2000;
	u.nodes[1].name = "c";
	ok(!chash_partitions_same_weights(&t.spec, &u.spec), "so is another node in its place");
}

/* ----------------------------------------------------------------
 * Interrupts
 * ----------------------------------------------------------------
 */

#define LARGE (1 << 20)

static uint32_t looks;
static jmp_buf stopped;

static void
count_look(void)
{
	looks++;
}

static void
stop(void)
{
	longjmp(stopped, 1);
}

/* So many steps must have looked for interrupts. */
static void
looked(uint32_t steps, const char *what)
{
	ok(looks >= steps / CHASH_WORK_INTERVAL,
	   "%s: %" PRIu32 " looks for interrupts in %" PRIu32 " steps", what, looks, steps);
	looks = 0;
}

/* One node holds nearly everything, another one point: walks are long. */
static ChashRing *
uneven_ring(TestSpec *t)
{
	init(t, &chash_hash_xxh3, CHASH_VNODES);
	t->spec.vnodes = LARGE / 1024;
	add(t, "big", 1024000);
	add(t, "tiny", 1);
	return build(&t->spec);
}

static void
test_interrupts(void)
{
	TestSpec t;
	ChashRing *ring;
	ChashRing *other;
	ChashWalk *walk;
	ChashRangeCursor cursor = {0};
	ChashRange range;
	ChashDiffRows rows = {0};
	void *scratch;
	uint32_t *lists = malloc(LARGE * sizeof(uint32_t));
	int64_t *tokens = malloc(LARGE * sizeof(int64_t));
	Item *items = malloc(LARGE * sizeof(Item));
	uint32_t nodes[2];
	uint32_t points;
	char fingerprint[CHASH_FINGERPRINT_SIZE];

	chash_interrupt_hook = count_look;
	for (uint32_t i = 0; i < LARGE; i++)
		items[i].key = random_below(LARGE);
	ok(sorts(items, LARGE), "a million items are sorted");
	looked(10 * LARGE, "sorting them");

	ring = uneven_ring(&t);
	looked(4 * LARGE, "building a ring");
	walk = malloc(chash_walk_size(ring, 2));
	chash_walk_init(walk, ring, 2, false);
	looks = 0;

	/* From the point behind the tiny node's, the whole circle has to be walked. */
	points = 0;
	while (chash_point_owner(ring, points) != 1)
		points++;
	ok(chash_walk_from_point(walk, points + 1, 2, nodes) == 2 && nodes[0] == 0 && nodes[1] == 1,
	   "a walk around the circle meets both nodes");
	looked(LARGE, "one walk");
	for (int i = 0; i < LARGE; i++)
		(void) chash_walk_from_point(walk, points, 2, nodes);
	looked(2 * LARGE, "many short walks");
	while (chash_ranges_next(ring, &cursor, &range))
		;
	looked(LARGE, "ranges");
	free(walk);
	free(ring);

	t.nodes[0].down = true;
	ring = build(&t.spec);
	looks = 0;
	ok(chash_ring_next_live(ring, points + 1) == 1, "the only live node is found");
	looked(LARGE, "finding it");
	free(ring);

	/* A plan of such rings with two replicas would take a minute: it is stopped. */
	ring = uneven_ring(&t);
	add(&t, "tiny too", 1);
	other = build(&t.spec);
	scratch = malloc(chash_diff_scratch_size(ring, other, 2));
	chash_interrupt_hook = stop;
	if (setjmp(stopped) == 0)
	{
		chash_diff(ring, other, 2, scratch, &rows);
		ok(false, "a plan that takes long is stopped");
	}
	else
		ok(true, "a plan that takes long is stopped");
	free(scratch);
	free(other);
	free(ring);
	chash_interrupt_hook = count_look;
	looks = 0;

	/* Many points at a few positions. */
	init(&t, &chash_hash_xxh3, CHASH_TOKENS);
	add(&t, "a", 1000);
	add(&t, "b", 1000);
	for (uint32_t i = 0; i < LARGE; i++)
		tokens[i] = i;
	t.nodes[0].tokens = t.nodes[1].tokens = tokens;
	t.nodes[0].token_count = t.nodes[1].token_count = LARGE;
	ring = build(&t.spec);
	looked(8 * LARGE, "building a ring of crowded tokens");
	ok(ring->point_count == 2 * LARGE && chash_point_position(ring, 2 * LARGE - 1) == LARGE - 1 &&
		   chash_point_owner(ring, 1) == 1,
	   "which are in order");
	free(ring);
	chash_spec_fingerprint(&t.spec, fingerprint);
	looked(2 * LARGE, "fingerprint of tokens");

	init(&t, &chash_hash_xxh3, CHASH_PARTITIONS);
	t.spec.partitions = LARGE;
	add(&t, "a", 1000);
	add(&t, "b", 3000);
	scratch = malloc(chash_partitions_scratch_size(&t.spec));
	chash_partitions_assign(&t.spec, lists, scratch);
	looked(30 * LARGE, "dealing partitions");
	ok(chash_spec_check(&t.spec, &points) == CHASH_SPEC_OK && points == LARGE,
	   "all of which have an owner");
	looked(LARGE, "looking at them");
	chash_spec_fingerprint(&t.spec, fingerprint);
	looked(LARGE, "fingerprint of partitions");
	free(scratch);
	free(items);
	free(tokens);
	free(lists);
	chash_interrupt_hook = NULL;
}

int
main(void)
{
	static const ChashPlacement placements[] = {CHASH_VNODES, CHASH_PARTITIONS, CHASH_TOKENS};

	test_hash();
	test_tags();
	test_point_counts();
	test_edges();
	for (int i = 0; i < 3; i++)
	{
		test_random(&chash_hash_xxh3, placements[i]);
		test_random(&small_hash, placements[i]);
	}
	test_partitions();
	test_fingerprint();
	test_sort();
	test_find_node();
	test_same_weights();
	test_interrupts();
	printf("1..%d\n", tests);
	return failures > 0;
}
