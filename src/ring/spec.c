/*
 * spec.c
 *		What follows from the definition of a ring by counting alone, and its
 *		fingerprint.
 */
#include "spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int
chash_compare_names(const char *a, size_t a_length, const char *b, size_t b_length)
{
	int order = memcmp(a, b, a_length < b_length ? a_length : b_length);

	if (order != 0)
		return order;
	return (a_length > b_length) - (a_length < b_length);
}

uint64_t
chash_node_point_count(const ChashSpec *spec, const ChashSpecNode *node)
{
	uint64_t points;

	if (node->weight == 0)
		return 0;
	if (spec->placement == CHASH_TOKENS)
		return node->token_count;
	if (spec->placement == CHASH_PARTITIONS)
		return node->partition_count;

	/* At most 65536 * 999999999 + 500: far from overflow. */
	points = ((uint64_t) spec->vnodes * (uint64_t) node->weight + CHASH_WEIGHT_ONE / 2) /
			 CHASH_WEIGHT_ONE;
	return points > 0 ? points : 1;
}

ChashSpecError
chash_spec_check(const ChashSpec *spec, uint32_t *point_count)
{
	uint64_t points = 0;
	uint32_t weighted = 0;
	uint32_t work = 0;

	*point_count = 0;
	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		uint64_t more = chash_node_point_count(spec, &spec->nodes[i]);

		chash_work(&work, 1);
		if (spec->nodes[i].name_length > CHASH_MAX_NAME)
			return CHASH_SPEC_LONG_NAME;
		if (more > CHASH_MAX_POINTS - points)
			return CHASH_SPEC_TOO_MANY_POINTS;
		points += more;
		weighted += spec->nodes[i].weight > 0;
	}

	if (spec->placement == CHASH_PARTITIONS)
	{
		if (weighted > spec->partitions)
			return CHASH_SPEC_TOO_FEW_PARTITIONS;
		for (uint32_t i = 0; i < spec->node_count; i++)
		{
			const ChashSpecNode *node = &spec->nodes[i];

			if (node->weight == 0 && node->partition_count > 0)
				return CHASH_SPEC_BAD_OWNERS;
			for (uint32_t k = 0; k < node->partition_count; k++)
			{
				chash_work(&work, 1);
				if (node->partitions[k] >= spec->partitions)
					return CHASH_SPEC_BAD_OWNERS;
			}
		}
		/* That none is owned twice shows when the ring is built. */
		if (points != (weighted > 0 ? spec->partitions : 0))
			return CHASH_SPEC_BAD_OWNERS;
	}

	*point_count = (uint32_t) points;
	return CHASH_SPEC_OK;
}

int64_t
chash_partition_end(const ChashSpec *spec, uint32_t partition)
{
	uint64_t highest_offset = UINT64_MAX >> (64 - spec->hash->bits);

	/*
	 * The width of a partition less one, since the width itself does not fit
	 * where one partition is the whole circle.  Powers of two divide evenly.
	 */
	uint64_t last = highest_offset / spec->partitions;

	return (int64_t) ((uint64_t) spec->hash->lowest + partition * (last + 1) + last);
}

static const char *const placement_names[] = {
	[CHASH_VNODES] = "vnodes",
	[CHASH_PARTITIONS] = "partitions",
	[CHASH_TOKENS] = "tokens",
};

const char *
chash_placement_name(ChashPlacement placement)
{
	return placement_names[placement];
}

bool
chash_placement_by_name(const char *name, ChashPlacement *placement)
{
	for (size_t i = 0; i < sizeof(placement_names) / sizeof(placement_names[0]); i++)
	{
		if (strcmp(name, placement_names[i]) == 0)
		{
			*placement = (ChashPlacement) i;
			return true;
		}
	}
	return false;
}

/* Writes a count, or - where it does not apply. */
static void
put_count(char buffer[16], bool applies, uint32_t count)
{
	if (applies)
		snprintf(buffer, 16, "%" PRIu32, count);
	else
		strcpy(buffer, "-");
}

void
chash_spec_fingerprint(const ChashSpec *spec, char fingerprint[CHASH_FINGERPRINT_SIZE])
{
	XXH3_state_t state;
	XXH128_hash_t hash;
	char line[128];
	char vnodes[16];
	char partitions[16];
	uint32_t work = 0;

	XXH3_128bits_reset(&state);
	put_count(vnodes, spec->placement == CHASH_VNODES, spec->vnodes);
	put_count(partitions, spec->placement == CHASH_PARTITIONS, spec->partitions);
	snprintf(line, sizeof(line), "chash\t1\t%s\t%s\t%s\t%s\t%d\n",
			 chash_placement_name(spec->placement), spec->hash->name, vnodes, partitions,
			 spec->hash_tags ? 1 : 0);
	XXH3_128bits_update(&state, line, strlen(line));

	for (uint32_t i = 0; i < spec->node_count; i++)
	{
		const ChashSpecNode *node = &spec->nodes[i];

		chash_work(&work, 1);
		XXH3_128bits_update(&state, "node\t", 5);
		XXH3_128bits_update(&state, node->name, node->name_length);
		snprintf(line, sizeof(line), "\t%" PRId64 "\t", node->weight);
		XXH3_128bits_update(&state, line, strlen(line));
		if (node->zone != NULL)
			XXH3_128bits_update(&state, node->zone, node->zone_length);
		XXH3_128bits_update(&state, "\n", 1);

		if (spec->placement == CHASH_TOKENS)
		{
			XXH3_128bits_update(&state, "tokens", 6);
			for (uint32_t k = 0; k < node->token_count; k++)
			{
				chash_work(&work, 1);
				snprintf(line, sizeof(line), "\t%" PRId64, node->tokens[k]);
				XXH3_128bits_update(&state, line, strlen(line));
			}
			XXH3_128bits_update(&state, "\n", 1);
		}
		else if (spec->placement == CHASH_PARTITIONS)
		{
			XXH3_128bits_update(&state, "partitions", 10);
			for (uint32_t k = 0; k < node->partition_count; k++)
			{
				chash_work(&work, 1);
				snprintf(line, sizeof(line), "\t%" PRIu32, node->partitions[k]);
				XXH3_128bits_update(&state, line, strlen(line));
			}
			XXH3_128bits_update(&state, "\n", 1);
		}
	}

	hash = XXH3_128bits_digest(&state);
	snprintf(fingerprint, CHASH_FINGERPRINT_SIZE, "%016" PRIx64 "%016" PRIx64,
			 (uint64_t) hash.high64, (uint64_t) hash.low64);
}
