/*
 * partitions.c
 *		Placement partitions: quotas, and the changes of hands that reach them.
 *
 * Quotas depend on the weights alone.  With one node changed, those of all
 * others go the same way (a divisor method is coherent), so that nothing ever
 * moves between two nodes that did not change.
 */
#include "partitions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NOBODY UINT32_MAX

/* A node's way through the heap, in steps for chash_work. */
#define HEAP_STEPS 20

typedef struct Scattered
{
	uint64_t hash;
	uint32_t number;
} Scattered;

size_t
chash_partitions_scratch_size(const ChashSpec *spec)
{
	/* At most 2^20 partitions; nodes are in memory already, eight times over. */
	return (size_t) spec->partitions * (sizeof(Scattered) + sizeof(uint32_t)) +
		   (size_t) spec->node_count * 3 * sizeof(uint32_t) +
		   chash_sort_scratch_size(spec->partitions, sizeof(Scattered));
}

/* Is node a due the next partition before node b? */
static bool
comes_before(const ChashSpec *spec, const uint32_t *quotas, uint32_t a, uint32_t b)
{
	/* weight / (2 * quota + 1), multiplied out: below 2^30 * 2^22. */
	uint64_t left = (uint64_t) spec->nodes[a].weight * (2 * (uint64_t) quotas[b] + 1);
	uint64_t right = (uint64_t) spec->nodes[b].weight * (2 * (uint64_t) quotas[a] + 1);

	return left != right ? left > right : a < b;
}

static void
sift_down(const ChashSpec *spec, const uint32_t *quotas, uint32_t *heap, uint32_t size, uint32_t at)
{
	uint32_t node = heap[at];

	for (;;)
	{
		uint32_t child = 2 * at + 1;

		if (child >= size)
			break;
		if (child + 1 < size && comes_before(spec, quotas, heap[child + 1], heap[child]))
			child++;
		if (!comes_before(spec, quotas, heap[child], node))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = node;
}

void
chash_partitions_quotas(const ChashSpec *spec, uint32_t *quotas, void *scratch)
{
	uint32_t *heap = scratch;
	uint32_t size = 0;
	uint32_t work = 0;

	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		chash_work(&work, 1);
		quotas[i] = spec->nodes[i].weight > 0 ? 1 : 0;
		if (quotas[i] > 0)
			heap[size++] = i;
	}
	if (size == 0)
		return;

	for (uint32_t i = size / 2; i-- > 0;)
	{
		chash_work(&work, HEAP_STEPS);
		sift_down(spec, quotas, heap, size, i);
	}
	for (uint32_t seats = size; seats < spec->partitions; seats++)
	{
		chash_work(&work, HEAP_STEPS);
		quotas[heap[0]]++;
		sift_down(spec, quotas, heap, size, 0);
	}
}

static int
compare_scattered(const void *a, const void *b)
{
	const Scattered *left = a;
	const Scattered *right = b;

	if (left->hash != right->hash)
		return left->hash < right->hash ? -1 : 1;
	return (left->number > right->number) - (left->number < right->number);
}

static void
scatter(uint32_t partitions, Scattered *order, void *scratch)
{
	uint32_t work = 0;

	for (uint32_t i = 0; i < partitions; i++)
	{
		char decimal[16];
		int length = snprintf(decimal, sizeof(decimal), "%" PRIu32, i);

		chash_work(&work, 1);
		order[i].hash = (uint64_t) chash_hash_xxh3.position(decimal, (size_t) length);
		order[i].number = i;
	}
	chash_sort(order, partitions, sizeof(Scattered), compare_scattered, scratch);
}

void
chash_partitions_assign(ChashSpec *spec, uint32_t *lists, void *scratch)
{
	Scattered *order = scratch;
	Scattered *sorting = order + spec->partitions;
	uint32_t *owners = (uint32_t *) (sorting + spec->partitions / 2);
	uint32_t *quotas = owners + spec->partitions;
	uint32_t *held = quotas + spec->node_count;
	uint32_t *heap = held + spec->node_count;
	uint32_t receiver = 0;
	uint32_t start = 0;
	uint32_t work = 0;

	chash_partitions_quotas(spec, quotas, heap);

	memset(owners, 0xff, spec->partitions * sizeof(uint32_t));
	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		chash_work(&work, 1);
		held[i] = 0;
		for (uint32_t k = 0; k < spec->nodes[i].partition_count; k++)
		{
			uint32_t number = spec->nodes[i].partitions[k];

			chash_work(&work, 1);
			if (number >= spec->partitions || owners[number] != NOBODY)
				continue;
			owners[number] = i;
			held[i]++;
		}
	}

	scatter(spec->partitions, order, sorting);
	for (uint32_t i = 0; i < spec->partitions; i++)
	{
		uint32_t *owner = &owners[order[i].number];

		chash_work(&work, 1);
		if (*owner != NOBODY && held[*owner] > quotas[*owner])
		{
			held[*owner]--;
			*owner = NOBODY;
		}
	}
	for (uint32_t i = 0; i < spec->partitions; i++)
	{
		uint32_t *owner = &owners[order[i].number];

		chash_work(&work, 1);
		if (*owner != NOBODY)
			continue;
		for (; receiver < spec->node_count && held[receiver] >= quotas[receiver]; receiver++)
			chash_work(&work, 1);
		if (receiver == spec->node_count)
			break; /* no node has weight */
		*owner = receiver;
		held[receiver]++;
	}

	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		chash_work(&work, 1);
		spec->nodes[i].partitions = lists + start;
		spec->nodes[i].partition_count = 0;
		start += held[i];
	}
	for (uint32_t i = 0; i < spec->partitions; i++)
	{
		chash_work(&work, 1);
		if (owners[i] != NOBODY)
		{
			ChashSpecNode *node = &spec->nodes[owners[i]];

			node->partitions[node->partition_count++] = i;
		}
	}
}

bool
chash_partitions_same_weights(const ChashSpec *before, const ChashSpec *after)
{
	uint32_t work = 0;

	if (before->node_count != after->node_count)
		return false;
	for (uint32_t i = 0; i < before->node_count; i++)
	{
		const ChashSpecNode *old_node = &before->nodes[i];
		const ChashSpecNode *new_node = &after->nodes[i];

		chash_work(&work, 1);
		if (old_node->weight != new_node->weight ||
			chash_compare_names(old_node->name, old_node->name_length, new_node->name,
								new_node->name_length) != 0)
			return false;
	}
	return true;
}
