/*
 * definition.c
 *		The definition of a ring in memory.
 *
 * Plans and changes share this code: a change is made to a definition first, which
 * finds everything that is wrong with it, and only then to the tables.
 */
#include "definition.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "values.h"

#include "../ring/partitions.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* Rows are read into a definition by way of this. */
typedef struct Reader
{
	ChashDefinition *definition;
	int64 as_of; /* CHASH_NOW, or an epoch */
} Reader;

static ChashNode *
append_node(ChashDefinition *definition, char *name)
{
	ChashNode *node;

	if (definition->count == definition->capacity)
	{
		Size capacity = Max((Size) definition->capacity * 2, 16);

		if (definition->nodes == NULL)
			definition->nodes =
				MemoryContextAllocHuge(CurrentMemoryContext, capacity * sizeof(ChashNode));
		else
			definition->nodes = repalloc_huge(definition->nodes, capacity * sizeof(ChashNode));
		definition->capacity = (uint32) capacity;
	}
	node = &definition->nodes[definition->count++];
	memset(node, 0, sizeof(ChashNode));
	node->name = name;
	node->spec.name = chash_to_utf8(name, strlen(name), &node->spec.name_length);
	return node;
}

static void
set_zone(ChashNode *node, char *zone)
{
	node->zone = zone;
	node->spec.zone = NULL;
	node->spec.zone_length = 0;
	if (zone != NULL)
		node->spec.zone = chash_to_utf8(zone, strlen(zone), &node->spec.zone_length);
}

/* Takes what a row of chash_nodes and one of chash_node_history have in common. */
static void
read_node(ChashDefinition *definition, Datum name, Datum weight, const NullableDatum *zone,
		  const NullableDatum *tokens, const NullableDatum *partitions)
{
	ChashNode *node = append_node(definition, TextDatumGetCString(name));

	node->spec.weight = chash_weight_from_numeric(DatumGetNumeric(weight), node->name);
	if (!zone->isnull)
		set_zone(node, TextDatumGetCString(zone->value));
	if (definition->ring.placement == CHASH_TOKENS && !tokens->isnull)
		node->spec.tokens =
			chash_tokens_from_array(DatumGetArrayTypeP(tokens->value), definition->ring.hash,
									node->name, &node->spec.token_count);
	if (definition->ring.placement == CHASH_PARTITIONS && !partitions->isnull)
		node->spec.partitions = chash_partitions_from_array(DatumGetArrayTypeP(partitions->value),
															&node->spec.partition_count);
}

static NullableDatum
column(const Datum *values, const bool *nulls, int number)
{
	return (NullableDatum){values[number - 1], nulls[number - 1]};
}

static void
read_nodes_row(Datum *values, bool *nulls, void *argument)
{
	Reader *reader = argument;
	NullableDatum zone = column(values, nulls, NODES_ZONE);
	NullableDatum tokens = column(values, nulls, NODES_TOKENS);
	NullableDatum partitions = column(values, nulls, NODES_HELD_PARTITIONS);
	int64 epoch = DatumGetInt64(values[NODES_EPOCH - 1]);
	ChashNode *node;

	if (reader->as_of != CHASH_NOW && epoch > reader->as_of)
		return;
	read_node(reader->definition, values[NODES_NODE - 1], values[NODES_WEIGHT - 1], &zone, &tokens,
			  &partitions);
	if (reader->as_of != CHASH_NOW)
		return;
	node = &reader->definition->nodes[reader->definition->count - 1];
	node->epoch = epoch;
	node->spec.down = chash_state_is_down(TextDatumGetCString(values[NODES_STATE - 1]), node->name);
	if (!nulls[NODES_INFO - 1])
		node->info = DatumGetJsonbPCopy(values[NODES_INFO - 1]);
}

static void
read_history_row(Datum *values, bool *nulls, void *argument)
{
	Reader *reader = argument;
	NullableDatum zone = column(values, nulls, HISTORY_ZONE);
	NullableDatum tokens = column(values, nulls, HISTORY_TOKENS);
	NullableDatum partitions = column(values, nulls, HISTORY_HELD_PARTITIONS);

	if (DatumGetInt64(values[HISTORY_FROM_EPOCH - 1]) > reader->as_of ||
		DatumGetInt64(values[HISTORY_TO_EPOCH - 1]) <= reader->as_of)
		return;
	read_node(reader->definition, values[HISTORY_NODE - 1], values[HISTORY_WEIGHT - 1], &zone,
			  &tokens, &partitions);
}

static int
compare_nodes(const void *a, const void *b)
{
	const ChashSpecNode *left = &((const ChashNode *) a)->spec;
	const ChashSpecNode *right = &((const ChashNode *) b)->spec;

	return chash_compare_names(left->name, left->name_length, right->name, right->name_length);
}

static void
sort_nodes(ChashDefinition *definition)
{
	void *scratch;

	if (definition->count < 2)
		return;
	scratch = MemoryContextAllocHuge(CurrentMemoryContext,
									 chash_sort_scratch_size(definition->count, sizeof(ChashNode)));
	chash_sort(definition->nodes, definition->count, sizeof(ChashNode), compare_nodes, scratch);
	pfree(scratch);
}

void
chash_check_epoch_began(const char *ring, int64 epoch)
{
	if (epoch < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("epoch %lld of ring \"%s\" never was", (long long) epoch, ring),
				 errhint("Epochs count from 1.")));
}

void
chash_check_epoch(const char *ring, int64 epoch)
{
	chash_check_epoch_began(ring, epoch);
	if (epoch > CHASH_MAX_EPOCH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("epoch %lld of ring \"%s\" is too large to go on from", (long long) epoch,
						ring),
				 errdetail("The largest to begin with is %lld.", (long long) CHASH_MAX_EPOCH)));
}

void
chash_check_recorded(const ChashRingRow *ring, int64 epoch)
{
	chash_check_epoch_began(ring->ring, epoch);
	if (ring->own && !ring->has_digest)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("past epochs of ring \"%s\" cannot be read while it is being changed",
						ring->ring),
				 errhint("Look again when the statement has ended.")));
	if (epoch > ring->epoch)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("epoch %lld of ring \"%s\" is still to come", (long long) epoch,
						ring->ring),
				 errdetail("The ring is at epoch %lld.", (long long) ring->epoch)));
	if (epoch < ring->history_from)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("epoch %lld of ring \"%s\" is not on record any more", (long long) epoch,
						ring->ring),
				 errdetail("The oldest that is on record is %lld.",
						   (long long) ring->history_from)));
}

bool
chash_definition_load(const ChashCatalog *catalog, const char *ring, Snapshot snapshot, int64 as_of,
					  ChashDefinition *definition)
{
	Reader reader = {definition, as_of};

	memset(definition, 0, sizeof(*definition));
	if (!chash_catalog_fetch_ring(catalog, ring, snapshot, &definition->ring))
		return false;
	if (as_of != CHASH_NOW)
	{
		chash_check_recorded(&definition->ring, as_of);
		chash_catalog_scan(catalog, catalog->history, ring, snapshot, read_history_row, &reader);
	}
	chash_catalog_scan(catalog, catalog->nodes, ring, snapshot, read_nodes_row, &reader);
	sort_nodes(definition);
	for (uint32 i = 1; i < definition->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (compare_nodes(&definition->nodes[i - 1], &definition->nodes[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("node \"%s\" of ring \"%s\" is on record twice for one epoch",
							definition->nodes[i].name, ring),
					 errhint("Restore chash_nodes and chash_node_history together.")));
	}
	return true;
}

void
chash_definition_load_or_fail(const ChashCatalog *catalog, const char *ring, Snapshot snapshot,
							  ChashDefinition *definition)
{
	if (!chash_definition_load(catalog, ring, snapshot, CHASH_NOW, definition))
		chash_report_unknown_ring(ring);
}

/* Finds a node among the first `count`, which are sorted. */
static ChashNode *
find_node(const ChashDefinition *definition, uint32 count, const char *name)
{
	ChashNode wanted = {0};

	if (count == 0)
		return NULL;
	wanted.spec.name = chash_to_utf8(name, strlen(name), &wanted.spec.name_length);
	return bsearch(&wanted, definition->nodes, count, sizeof(ChashNode), compare_nodes);
}

ChashNode *
chash_definition_find(const ChashDefinition *definition, const char *name)
{
	return find_node(definition, definition->count, name);
}

void
chash_check_tokens_fit(const ChashRingRow *ring, const char *node, uint32 token_count)
{
	if (ring->placement == CHASH_TOKENS)
	{
		if (token_count == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("node \"%s\" has no tokens", node),
					 errhint("Ring \"%s\" has placement tokens: give the positions of the node's points.",
							 ring->ring)));
	}
	else if (token_count > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("node \"%s\" cannot have tokens", node),
				 errhint("Ring \"%s\" has placement %s; only placement tokens takes them.",
						 ring->ring, chash_placement_name(ring->placement))));
}

void
chash_report_unknown_node(const char *ring, const char *node)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("ring \"%s\" has no node \"%s\"", ring, chash_clip(node)),
			 errhint("Table chash_nodes lists those that it has.")));
}

/* Makes one change, with the nodes that were there before it among the first `count`. */
static void
make_change(ChashDefinition *definition, uint32 count, const ChashChange *change)
{
	ChashNode *node;

	chash_check_name("node", change->node);
	node = find_node(definition, count, change->node);
	if (node != NULL && change->kind == CHASH_ADD)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("ring \"%s\" already has a node \"%s\"", definition->ring.ring,
						change->node),
				 errhint("Change it with chash_set_node.")));
	if (node == NULL && (change->kind == CHASH_SET || change->kind == CHASH_REMOVE))
		chash_report_unknown_node(definition->ring.ring, change->node);

	if (change->kind == CHASH_REMOVE)
	{
		node->removed = true;
		return;
	}
	if (node == NULL)
	{
		node = append_node(definition, change->node);
		node->spec.weight = CHASH_WEIGHT_ONE;
	}
	if (change->has_weight)
		node->spec.weight = change->weight;
	if (change->has_zone)
	{
		if (change->zone != NULL)
			chash_check_name("zone", change->zone);
		set_zone(node, change->zone);
	}
	if (change->has_info)
		node->info = change->info;
	if (change->has_state)
		node->spec.down = change->down;
	if (change->has_tokens)
	{
		chash_check_tokens(change->tokens, change->token_count, definition->ring.hash, node->name);
		node->spec.tokens = change->tokens;
		node->spec.token_count = change->token_count;
	}
	if (change->partitions != NULL)
	{
		node->spec.partitions = change->partitions;
		node->spec.partition_count = change->partition_count;
	}
	chash_check_tokens_fit(&definition->ring, node->name, node->spec.token_count);
}

void
chash_definition_change(ChashDefinition *definition, const ChashChange *changes, uint32 count)
{
	uint32 before = definition->count;
	uint32 kept = 0;

	/* New nodes go behind the sorted ones, and removed ones stay, until all is done. */
	for (uint32 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		make_change(definition, before, &changes[i]);
	}
	for (uint32 i = 0; i < definition->count; i++)
	{
		if (!definition->nodes[i].removed)
			definition->nodes[kept++] = definition->nodes[i];
	}
	if (definition->count > before)
	{
		definition->count = kept;
		sort_nodes(definition);
	}
	definition->count = kept;
}

void
chash_definition_spec(const ChashDefinition *definition, ChashSpec *spec)
{
	memset(spec, 0, sizeof(*spec));
	spec->hash = definition->ring.hash;
	spec->placement = definition->ring.placement;
	spec->hash_tags = definition->ring.hash_tags;
	spec->vnodes = definition->ring.vnodes;
	spec->partitions = definition->ring.partitions;
	spec->node_count = definition->count;
	spec->nodes = MemoryContextAllocHuge(CurrentMemoryContext,
										 Max(definition->count, 1) * sizeof(ChashSpecNode));
	for (uint32 i = 0; i < definition->count; i++)
		spec->nodes[i] = definition->nodes[i].spec;
}

static void
report_spec_error(const ChashDefinition *definition, ChashSpecError error)
{
	const char *ring = definition->ring.ring;

	switch (error)
	{
		case CHASH_SPEC_OK:
			return;
		case CHASH_SPEC_LONG_NAME:
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("ring \"%s\" has a node whose name is too long", ring)));
			break;
		case CHASH_SPEC_TOO_MANY_POINTS:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("ring \"%s\" would have more than %d points", ring, CHASH_MAX_POINTS),
					 errhint("Points are vnodes times weight: divide all weights by one number, or use fewer vnodes or tokens.")));
			break;
		case CHASH_SPEC_TOO_FEW_PARTITIONS:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("ring \"%s\" would have more nodes than its %u partitions", ring,
							definition->ring.partitions),
					 errhint("The number of partitions is fixed: create a ring with more of them.")));
			break;
		case CHASH_SPEC_BAD_OWNERS:
			if (definition->ring.own)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("partitions of ring \"%s\" do not have one owner each", ring),
						 errdetail("This transaction is changing or restoring the ring, and is not done with that."),
						 errhint("Look again when the statement has ended, or all rows are restored.")));
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("partitions of ring \"%s\" do not have one owner each", ring),
					 errdetail("The columns held_partitions of its nodes in chash_nodes do not fit together."),
					 errhint("Restore the table as a whole; any change of the ring by a function gives every partition an owner again.")));
			break;
	}
}

void
chash_definition_assign(ChashDefinition *definition)
{
	ChashSpec spec;
	uint32 weighted = 0;
	uint32 *lists;
	void *scratch;

	if (definition->ring.placement != CHASH_PARTITIONS)
		return;
	chash_definition_spec(definition, &spec);
	for (uint32 i = 0; i < spec.node_count; i++)
		weighted += spec.nodes[i].weight > 0;
	if (weighted > spec.partitions)
		report_spec_error(definition, CHASH_SPEC_TOO_FEW_PARTITIONS);

	lists = palloc_array(uint32, spec.partitions);
	scratch = MemoryContextAllocHuge(CurrentMemoryContext, chash_partitions_scratch_size(&spec));
	chash_partitions_assign(&spec, lists, scratch);
	for (uint32 i = 0; i < definition->count; i++)
		definition->nodes[i].spec = spec.nodes[i];
	pfree(scratch);
	pfree(spec.nodes);
}

uint32
chash_definition_check(const ChashDefinition *definition, const ChashSpec *spec)
{
	uint32 points;

	report_spec_error(definition, chash_spec_check(spec, &points));
	return points;
}

/* Builds the ring of a definition, or says why that is not possible. */
static ChashRing *
try_build(const ChashDefinition *definition, ChashSpecError *error)
{
	ChashSpec spec;
	uint32 points;
	ChashRing *ring;
	void *scratch;

	chash_definition_spec(definition, &spec);
	*error = chash_spec_check(&spec, &points);
	if (*error != CHASH_SPEC_OK)
		return NULL;
	ring = MemoryContextAllocHuge(CurrentMemoryContext, chash_ring_size(&spec, points));
	scratch = MemoryContextAllocHuge(CurrentMemoryContext,
									 Max(chash_ring_scratch_size(&spec, points), 1));
	*error = chash_ring_build(&spec, points, ring, scratch);
	pfree(scratch);
	pfree(spec.nodes);
	return ring;
}

ChashRing *
chash_definition_build(const ChashDefinition *definition)
{
	ChashSpecError error;
	ChashRing *ring = try_build(definition, &error);

	report_spec_error(definition, error);
	return ring;
}

bool
chash_definition_is_sound(const ChashDefinition *definition)
{
	ChashSpecError error;
	ChashRing *ring = try_build(definition, &error);

	if (error != CHASH_SPEC_BAD_OWNERS)
		report_spec_error(definition, error);
	if (ring != NULL)
		pfree(ring);
	return error == CHASH_SPEC_OK;
}

char *
chash_definition_fingerprint(const ChashDefinition *definition)
{
	char *fingerprint = palloc(CHASH_FINGERPRINT_SIZE);
	ChashSpec spec;

	chash_definition_spec(definition, &spec);
	chash_spec_fingerprint(&spec, fingerprint);
	pfree(spec.nodes);
	return fingerprint;
}

void
chash_definition_digest(const ChashDefinition *definition, pg_uuid_t *digest)
{
	size_t name_length;
	const char *name =
		chash_to_utf8(definition->ring.ring, strlen(definition->ring.ring), &name_length);
	StringInfoData text;
	XXH128_canonical_t canonical;

	initStringInfo(&text);
	appendBinaryStringInfo(&text, name, (int) name_length);
	appendStringInfo(&text, "\t%lld\t%d\t%s\n", (long long) definition->ring.epoch,
					 definition->ring.replicas, chash_definition_fingerprint(definition));
	for (uint32 i = 0; i < definition->count; i++)
	{
		const ChashSpecNode *node = &definition->nodes[i].spec;

		if (!node->down)
			continue;
		appendBinaryStringInfo(&text, node->name, (int) node->name_length);
		appendStringInfoChar(&text, '\n');
	}
	XXH128_canonicalFromHash(&canonical, XXH3_128bits(text.data, (size_t) text.len));
	StaticAssertStmt(sizeof(canonical.digest) == sizeof(digest->data), "a digest has 128 bits");
	memcpy(digest->data, canonical.digest, sizeof(digest->data));
	pfree(text.data);
}

bool
chash_definition_proven(const ChashDefinition *definition)
{
	pg_uuid_t digest;

	/* Rows of a version before 0.3.0, restored or replicated, come without a digest. */
	if (!definition->ring.has_digest)
		return strcmp(chash_definition_fingerprint(definition), definition->ring.fingerprint) == 0;
	chash_definition_digest(definition, &digest);
	return memcmp(&digest, &definition->ring.digest, sizeof(digest)) == 0;
}

bool
chash_definition_is_dealt(const ChashDefinition *definition)
{
	uint32 partitions = definition->ring.partitions;
	bool *dealt;
	bool weighted = false;
	uint32 count = 0;

	if (definition->ring.placement != CHASH_PARTITIONS)
		return true;
	dealt = palloc0_array(bool, Max(partitions, 1));
	for (uint32 i = 0; i < definition->count; i++)
	{
		const ChashSpecNode *node = &definition->nodes[i].spec;

		CHECK_FOR_INTERRUPTS();
		weighted |= node->weight > 0;
		for (uint32 k = 0; k < node->partition_count; k++)
		{
			uint32 number = node->partitions[k];

			if (node->weight == 0 || number >= partitions || dealt[number])
				return false;
			dealt[number] = true;
			count++;
		}
	}
	pfree(dealt);
	return count == (weighted ? partitions : 0);
}

void
chash_definition_copy(const ChashDefinition *definition, ChashDefinition *copy)
{
	*copy = *definition;
	copy->capacity = Max(definition->count, 1);
	copy->nodes = MemoryContextAllocHuge(CurrentMemoryContext, copy->capacity * sizeof(ChashNode));
	if (definition->count > 0)
		memcpy(copy->nodes, definition->nodes, definition->count * sizeof(ChashNode));
}
