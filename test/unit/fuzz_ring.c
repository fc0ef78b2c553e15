/*
 * fuzz_ring.c
 *		libFuzzer target: turns bytes into two rings, one a change of the other,
 *		and checks both and their difference against the model.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NODES 16
#define MAX_TOKENS 8

typedef struct Input
{
	const uint8_t *data;
	size_t size;
} Input;

static uint8_t
next_byte(Input *input)
{
	if (input->size == 0)
		return 0;
	input->size--;
	return *input->data++;
}

static int64_t
small_position(const void *key, size_t length)
{
	return chash_hash_xxh3.position(key, length) & 255;
}

static const ChashHash small_hash = {"small", 0, 8, false, small_position};

typedef struct Fuzzed
{
	ChashSpec spec;
	ChashSpecNode nodes[MAX_NODES];
	char names[MAX_NODES][2];
	int64_t tokens[MAX_NODES][MAX_TOKENS];
	uint32_t lists[256];
} Fuzzed;

static int
compare_tokens(const void *a, const void *b)
{
	return (*(const int64_t *) a > *(const int64_t *) b) -
		   (*(const int64_t *) a < *(const int64_t *) b);
}

static void
fill_node(Fuzzed *fuzzed, uint32_t at, Input *input)
{
	static const int64_t weights[] = {0, 1, 500, 1000, 1500, 2750, 4000, 9000};
	static const char *const zones[] = {NULL, "a", "b", "c"};
	ChashSpecNode *node = &fuzzed->nodes[at];
	uint8_t byte = next_byte(input);
	uint32_t count = 0;

	node->weight = weights[byte & 7];
	node->zone = zones[(byte >> 3) & 3];
	node->zone_length = node->zone != NULL;
	node->down = byte >> 7;
	if (fuzzed->spec.placement != CHASH_TOKENS)
		return;
	for (int i = 0; i < 1 + (byte >> 5 & 3) * 2; i++)
	{
		int64_t token = next_byte(input);
		bool known = false;

		if (fuzzed->spec.hash->bits == 64 && token >= 128)
			token = token >= 192 ? INT64_MAX - (token - 192) : INT64_MIN + (token - 128);
		for (uint32_t k = 0; k < count; k++)
			known |= fuzzed->tokens[at][k] == token;
		if (!known)
			fuzzed->tokens[at][count++] = token;
	}
	qsort(fuzzed->tokens[at], count, sizeof(int64_t), compare_tokens);
	node->tokens = fuzzed->tokens[at];
	node->token_count = count;
}

static void
finish(Fuzzed *fuzzed)
{
	void *scratch;

	if (fuzzed->spec.placement != CHASH_PARTITIONS)
		return;
	scratch = malloc(chash_partitions_scratch_size(&fuzzed->spec));
	chash_partitions_assign(&fuzzed->spec, fuzzed->lists, scratch);
	free(scratch);
}

static void
trap_if(const char *wrong)
{
	if (wrong != NULL)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static Fuzzed before;
	static Fuzzed after;
	Input input = {data, size};
	uint8_t byte = next_byte(&input);
	ChashRing *old_ring;
	ChashRing *new_ring;

	memset(&before, 0, sizeof(before));
	before.spec.placement = (ChashPlacement) (byte % 3);
	before.spec.hash = byte & 128 ? &small_hash : &chash_hash_xxh3;
	before.spec.vnodes = 1 + (byte >> 2 & 3);
	before.spec.partitions = 16U << (byte >> 4 & 3);
	before.spec.nodes = before.nodes;
	before.spec.node_count = next_byte(&input) % (MAX_NODES + 1);
	for (uint32_t i = 0; i < before.spec.node_count; i++)
	{
		before.names[i][0] = (char) ('a' + i);
		before.nodes[i].name = before.names[i];
		before.nodes[i].name_length = 1;
		fill_node(&before, i, &input);
	}
	finish(&before);

	/* The other ring has some of the nodes, and some of them anew. */
	memset(&after, 0, sizeof(after));
	after.spec = before.spec;
	after.spec.nodes = after.nodes;
	after.spec.node_count = 0;
	for (uint32_t i = 0; i < before.spec.node_count; i++)
	{
		byte = next_byte(&input);
		if (byte & 1)
			continue;
		after.nodes[after.spec.node_count] = before.nodes[i];
		if (byte & 2)
			fill_node(&after, after.spec.node_count, &input);
		after.spec.node_count++;
	}
	finish(&after);

	old_ring = build(&before.spec);
	new_ring = build(&after.spec);
	if (old_ring == NULL || new_ring == NULL)
		abort();
	trap_if(check_ring(old_ring));
	for (uint32_t replicas = 1; replicas <= 3; replicas++)
		trap_if(check_diff(old_ring, new_ring, replicas));
	free(old_ring);
	free(new_ring);
	return 0;
}
