/*
 * manage.c
 *		Functions that change rings.
 *
 * They read their arguments, and leave the rest to change/functions.c.  SQL
 * declares them SECURITY DEFINER with search_path pinned to pg_catalog.
 */
#include "../compat.h"

#include "json.h"

#include "../change/change.h"
#include "../change/present.h"
#include "../store/snapshot.h"
#include "../store/values.h"

#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(chash_create_ring);
PG_FUNCTION_INFO_V1(chash_drop_ring);
PG_FUNCTION_INFO_V1(chash_add_node);
PG_FUNCTION_INFO_V1(chash_set_node);
PG_FUNCTION_INFO_V1(chash_remove_node);
PG_FUNCTION_INFO_V1(chash_mark_down);
PG_FUNCTION_INFO_V1(chash_mark_up);
PG_FUNCTION_INFO_V1(chash_apply);
PG_FUNCTION_INFO_V1(chash_prune_history);
PG_FUNCTION_INFO_V1(chash_copy_ring);
PG_FUNCTION_INFO_V1(chash_import);
PG_FUNCTION_INFO_V1(chash_export);

/* A text argument, NULL if it is null. */
static char *
text_argument(FunctionCallInfo fcinfo, int argument)
{
	return PG_ARGISNULL(argument) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(argument));
}

/* The argument that names a ring. */
static char *
ring_argument(FunctionCallInfo fcinfo, int argument)
{
	char *ring = text_argument(fcinfo, argument);

	chash_check_name("ring", ring);
	return ring;
}

static const ChashCatalog *
find_catalog(FunctionCallInfo fcinfo)
{
	return chash_catalog(fcinfo->flinfo->fn_oid);
}

/*
 * Makes changes of the ring that the second argument names, if it is at the epoch
 * that argument `if_epoch` names; returns the epoch.
 */
static Datum
change_ring(FunctionCallInfo fcinfo, const ChashChange *changes, uint32 count, int if_epoch)
{
	const char *ring = ring_argument(fcinfo, 1);
	int64 epoch = 0;
	bool given = if_epoch < PG_NARGS() && !PG_ARGISNULL(if_epoch);

	if (given)
		epoch = PG_GETARG_INT64(if_epoch);
	PG_RETURN_INT64(
		chash_change_nodes(find_catalog(fcinfo), ring, changes, count, given ? &epoch : NULL));
}

Datum
chash_create_ring(PG_FUNCTION_ARGS)
{
	ChashDefinition definition = {0};
	ChashRingRow *ring = &definition.ring;
	char *placement = text_argument(fcinfo, 1);
	char *hash = text_argument(fcinfo, 2);

	ring->ring = ring_argument(fcinfo, 0);
	if (placement == NULL || hash == NULL || PG_ARGISNULL(7))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("placement, hash and replicas of a ring cannot be null")));
	chash_check_settings(placement, hash, !PG_ARGISNULL(3), PG_GETARG_INT32(3), !PG_ARGISNULL(4),
						 PG_GETARG_INT32(4));
	(void) chash_placement_by_name(placement, &ring->placement);
	ring->hash = chash_hash_by_name(hash);
	if (!PG_ARGISNULL(6))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("hash \"%s\" takes no secret", hash),
				 errhint("Leave secret out.")));
	ring->vnodes = PG_ARGISNULL(3) ? CHASH_DEFAULT_VNODES : PG_GETARG_UINT32(3);
	ring->partitions = PG_ARGISNULL(4) ? CHASH_DEFAULT_PARTITIONS : PG_GETARG_UINT32(4);
	ring->hash_tags = PG_ARGISNULL(5) ? ring->hash->tags : PG_GETARG_BOOL(5);
	ring->replicas = PG_GETARG_INT32(7);
	chash_check_replicas(ring->replicas);
	ring->epoch = 1;

	chash_change_create(find_catalog(fcinfo), &definition);
	PG_RETURN_INT64(ring->epoch);
}

Datum
chash_drop_ring(PG_FUNCTION_ARGS)
{
	const char *ring = ring_argument(fcinfo, 0);

	chash_change_drop(find_catalog(fcinfo), ring);
	PG_RETURN_VOID();
}

/* chash_add_node and chash_set_node have the same arguments. */
static void
read_node_arguments(FunctionCallInfo fcinfo, ChashChange *change)
{
	change->node = text_argument(fcinfo, 0);
	chash_check_name("node", change->node);
	if (!PG_ARGISNULL(2))
	{
		change->has_weight = true;
		change->weight = chash_weight_from_numeric(PG_GETARG_NUMERIC(2), change->node);
	}
	change->zone = text_argument(fcinfo, 3);
	change->has_zone = change->zone != NULL;
	if (!PG_ARGISNULL(4))
	{
		change->has_info = true;
		change->info = PG_GETARG_JSONB_P(4);
	}
	if (!PG_ARGISNULL(5))
	{
		change->has_tokens = true;
		change->tokens = chash_tokens_from_array(PG_GETARG_ARRAYTYPE_P(5), NULL, change->node,
												 &change->token_count);
	}
}

Datum
chash_add_node(PG_FUNCTION_ARGS)
{
	ChashChange change = {.kind = CHASH_ADD};

	read_node_arguments(fcinfo, &change);
	if (!change.has_weight)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("weight of node \"%s\" cannot be null", change.node)));
	return change_ring(fcinfo, &change, 1, 6);
}

Datum
chash_set_node(PG_FUNCTION_ARGS)
{
	ChashChange change = {.kind = CHASH_SET};

	read_node_arguments(fcinfo, &change);
	return change_ring(fcinfo, &change, 1, 6);
}

Datum
chash_remove_node(PG_FUNCTION_ARGS)
{
	ChashChange change = {.kind = CHASH_REMOVE, .node = text_argument(fcinfo, 0)};

	return change_ring(fcinfo, &change, 1, 2);
}

Datum
chash_mark_down(PG_FUNCTION_ARGS)
{
	ChashChange change = {.kind = CHASH_SET,
						  .node = text_argument(fcinfo, 0),
						  .has_state = true,
						  .down = true};

	return change_ring(fcinfo, &change, 1, 2);
}

Datum
chash_mark_up(PG_FUNCTION_ARGS)
{
	ChashChange change = {.kind = CHASH_SET,
						  .node = text_argument(fcinfo, 0),
						  .has_state = true,
						  .down = false};

	return change_ring(fcinfo, &change, 1, 2);
}

Datum
chash_apply(PG_FUNCTION_ARGS)
{
	ChashChange *changes;
	uint32 count;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("changes of a ring cannot be null")));
	if (!PG_ARGISNULL(2))
		chash_report_pins();
	changes = chash_changes_from_json(PG_GETARG_JSONB_P(0), &count);
	return change_ring(fcinfo, changes, count, 3);
}

Datum
chash_prune_history(PG_FUNCTION_ARGS)
{
	const char *ring = ring_argument(fcinfo, 0);

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("number of epochs to keep cannot be null")));
	PG_RETURN_INT64(chash_change_prune(find_catalog(fcinfo), ring, PG_GETARG_INT64(1)));
}

Datum
chash_copy_ring(PG_FUNCTION_ARGS)
{
	const char *from = ring_argument(fcinfo, 0);
	char *to = ring_argument(fcinfo, 1);
	const ChashCatalog *catalog = find_catalog(fcinfo);
	ChashDefinition definition;

	if (!chash_change_load_now(catalog, from, &definition))
		chash_report_unknown_ring(from);
	definition.ring.ring = to;
	definition.ring.epoch = 1;
	chash_change_create(catalog, &definition);
	PG_RETURN_INT64(1);
}

/* The name that a definition gives to its ring. */
static char *
exported_name(const Jsonb *definition)
{
	JsonbValue buffer;
	const JsonbValue *name = NULL;

	if (JB_ROOT_IS_OBJECT(definition))
		name = getKeyJsonValueFromContainer(unconstify(JsonbContainer *, &definition->root), "ring",
											4, &buffer);
	if (name == NULL || name->type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("definition of a ring does not name it"),
				 errhint("Give the name after the definition.")));
	return pnstrdup(name->val.string.val, name->val.string.len);
}

Datum
chash_import(PG_FUNCTION_ARGS)
{
	ChashDefinition definition;
	const char *ring;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("definition of a ring cannot be null")));
	ring = PG_ARGISNULL(1) ? exported_name(PG_GETARG_JSONB_P(0)) : text_argument(fcinfo, 1);
	chash_definition_from_json(PG_GETARG_JSONB_P(0), ring, &definition);
	chash_change_create(find_catalog(fcinfo), &definition);
	PG_RETURN_INT64(definition.ring.epoch);
}

Datum
chash_export(PG_FUNCTION_ARGS)
{
	const char *ring = ring_argument(fcinfo, 0);
	bool taken = chash_snapshot_begin();
	ChashDefinition definition;

	chash_definition_load_or_fail(chash_catalog(fcinfo->flinfo->fn_oid), ring, GetActiveSnapshot(),
								  &definition);
	chash_snapshot_end(taken);
	PG_RETURN_JSONB_P(chash_definition_to_json(&definition));
}
