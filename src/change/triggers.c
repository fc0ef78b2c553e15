/*
 * triggers.c
 *		Triggers on the extension's tables.
 *
 * They make direct DML, restores and replication as safe as the functions.  What they
 * do depends on what a row is, which classify() says:
 *
 * OWN			chash writes it itself: a change that was checked as a whole
 * CHANGE		a user changes a ring
 * RESTORED		it comes out of a dump, or with the initial copy of replication: a row to
 *				be inserted that has its epoch already (rows of history always have)
 * REPLICATED	logical replication applies it: no statement goes with it, or it is an
 *				update that brings its own epoch, under session_replication_role = replica
 *
 *			chash_rings					chash_nodes					chash_node_history
 * OWN		as it is, with a stamp		as it is					as it is
 * CHANGE	insert: checked, complete	checked, gets the next		insert: as RESTORED
 *			update: only replicas		epoch; its ring is touched	else refused
 *			delete: all that belongs	and settled
 *			  to it goes
 * RESTORED	checked; other restorers	checked; may come before	checked; may come
 *			wait						its ring					before its ring
 * REPLICATED checked, another stamp	checked; its ring loses		its ring gets
 *										its digest until its row	another stamp
 *										comes
 *
 * Statements open and close around the rows (settle.c); TRUNCATE becomes DELETE of all
 * rows first.
 */
#include "../compat.h"

#include "../store/values.h"
#include "change.h"
#include "execute.h"
#include "notify.h"
#include "present.h"
#include "row.h"
#include "write.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "utils/builtins.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(chash_before_statement);
PG_FUNCTION_INFO_V1(chash_after_statement);
PG_FUNCTION_INFO_V1(chash_before_truncate);
PG_FUNCTION_INFO_V1(chash_rings_before_row);
PG_FUNCTION_INFO_V1(chash_rings_after_row);
PG_FUNCTION_INFO_V1(chash_nodes_before_row);
PG_FUNCTION_INFO_V1(chash_history_before_row);

/* Scripts of versions before 0.3.0 name these, and ALTER EXTENSION UPDATE begins with them. */
PG_FUNCTION_INFO_V1(chash_nodes_after_row);
PG_FUNCTION_INFO_V1(chash_nodes_after_statement);

typedef enum RowKind
{
	OWN,
	CHANGE,
	RESTORED,
	REPLICATED
} RowKind;

/* The rows of a trigger's call, and what they are. */
typedef struct Call
{
	TriggerData *trigger;
	const ChashCatalog *catalog;
	ChashRow old_row; /* without tuple: insert */
	ChashRow new_row; /* without tuple: delete */
	char *ring;
	RowKind kind;
} Call;

/* Checks that a trigger function was called by a trigger on one of our tables. */
static TriggerData *
get_trigger(FunctionCallInfo fcinfo, const ChashCatalog **catalog)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	Oid table;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("trigger function of chash was not called by a trigger")));
	*catalog = chash_catalog(fcinfo->flinfo->fn_oid);
	table = RelationGetRelid(trigger->tg_relation);
	if (table != (*catalog)->rings && table != (*catalog)->nodes && table != (*catalog)->history)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("trigger function of chash cannot be used on table \"%s\"",
						RelationGetRelationName(trigger->tg_relation))));
	if (!chash_catalog_check_columns(*catalog, trigger->tg_relation))
		chash_report_older_script();
	return trigger;
}

/*
 * What a row is.  `epoch` is the number of its column epoch, 0 if it has none; updates
 * of `maintained` columns are nobody's but replication's.
 */
static RowKind
classify(const Call *call, int epoch, const int *maintained, int count)
{
	if (chash_fired_by_own())
		return OWN;
	if (!chash_change_is_open())
	{
		if (chash_is_replica())
			return REPLICATED;

		/* By way of a table that this one inherits from, or with triggers disabled. */
		(void) chash_catalog_prepare_write(call->catalog); /* or those of an older script */
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rows of table \"%s\" cannot be changed without a statement on the table itself",
						RelationGetRelationName(call->trigger->tg_relation)),
				 errhint("Name the table in the statement, and let its triggers fire always.")));
	}
	if (call->old_row.tuple == NULL)
		return epoch == 0 || !call->new_row.nulls[epoch - 1] ? RESTORED : CHANGE;
	if (call->new_row.tuple != NULL && chash_is_replica() &&
		!chash_same_columns(&call->old_row, &call->new_row, maintained, count))
		return REPLICATED;
	return CHANGE;
}

/* Takes a call of a row trigger; column 1 of each table is the ring's name. */
static void
get_call(FunctionCallInfo fcinfo, Call *call, int epoch, const int *maintained, int count)
{
	call->trigger = get_trigger(fcinfo, &call->catalog);
	chash_get_rows(call->trigger, &call->old_row, &call->new_row);
	if (call->new_row.tuple != NULL)
		chash_require(&call->new_row, 1);
	call->ring =
		chash_text_column(call->old_row.tuple != NULL ? &call->old_row : &call->new_row, 1);
	call->kind = classify(call, epoch, maintained, count);
}

/* What a BEFORE ROW trigger returns: the row to be written, or the one to be deleted. */
static Datum
proceed(Call *call)
{
	if (call->new_row.tuple == NULL)
		return PointerGetDatum(call->old_row.tuple);
	return chash_result_row(&call->new_row);
}

/* ----------------------------------------------------------------
 * chash_rings
 * ----------------------------------------------------------------
 */

static const int rings_maintained[] = {RINGS_EPOCH, RINGS_FINGERPRINT, RINGS_HISTORY_FROM};

/* The definition of a ring without nodes. */
static void
empty_definition(const ChashRow *row, ChashDefinition *empty)
{
	memset(empty, 0, sizeof(*empty));
	empty->ring.ring = chash_text_column(row, RINGS_RING);
	empty->ring.hash = chash_hash_by_name(chash_text_column(row, RINGS_HASH));
	(void) chash_placement_by_name(chash_text_column(row, RINGS_PLACEMENT), &empty->ring.placement);
	empty->ring.hash_tags = DatumGetBool(row->values[RINGS_HASH_TAGS - 1]);
	empty->ring.replicas = DatumGetInt32(row->values[RINGS_REPLICAS - 1]);
	empty->ring.epoch = chash_bigint_column(row, RINGS_EPOCH);
	if (!row->nulls[RINGS_VNODES - 1])
		empty->ring.vnodes = DatumGetUInt32(row->values[RINGS_VNODES - 1]);
	if (!row->nulls[RINGS_PARTITIONS - 1])
		empty->ring.partitions = DatumGetUInt32(row->values[RINGS_PARTITIONS - 1]);
}

/* Checks a ring, and fills in what was left out. */
static void
check_ring(ChashRow *row)
{
	char *name = chash_text_column(row, RINGS_RING);
	char *placement;
	ChashDefinition empty;

	chash_check_name("ring", name);
	chash_require(row, RINGS_PLACEMENT);
	chash_require(row, RINGS_HASH);
	chash_require(row, RINGS_HASH_TAGS);
	chash_require(row, RINGS_REPLICAS);
	placement = chash_text_column(row, RINGS_PLACEMENT);
	if (row->nulls[RINGS_VNODES - 1] && strcmp(placement, "vnodes") == 0)
		chash_set_column(row, RINGS_VNODES, Int32GetDatum(CHASH_DEFAULT_VNODES));
	if (row->nulls[RINGS_PARTITIONS - 1] && strcmp(placement, "partitions") == 0)
		chash_set_column(row, RINGS_PARTITIONS, Int32GetDatum(CHASH_DEFAULT_PARTITIONS));
	chash_check_settings(placement, chash_text_column(row, RINGS_HASH),
						 !row->nulls[RINGS_VNODES - 1],
						 DatumGetInt32(row->values[RINGS_VNODES - 1]),
						 !row->nulls[RINGS_PARTITIONS - 1],
						 DatumGetInt32(row->values[RINGS_PARTITIONS - 1]));
	chash_check_replicas(DatumGetInt32(row->values[RINGS_REPLICAS - 1]));

	if (row->nulls[RINGS_EPOCH - 1])
		chash_set_column(row, RINGS_EPOCH, Int64GetDatum(1));
	chash_check_epoch_began(name, chash_bigint_column(row, RINGS_EPOCH));
	if (row->nulls[RINGS_FINGERPRINT - 1])
	{
		empty_definition(row, &empty);
		chash_set_column(row, RINGS_FINGERPRINT,
						 CStringGetTextDatum(chash_definition_fingerprint(&empty)));
	}
	if (!chash_is_fingerprint(chash_text_column(row, RINGS_FINGERPRINT)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid fingerprint for ring \"%s\"", name),
				 errhint("Leave column fingerprint out.")));
	if (row->nulls[RINGS_HISTORY_FROM - 1])
		chash_set_column(row, RINGS_HISTORY_FROM, row->values[RINGS_EPOCH - 1]);
	if (chash_bigint_column(row, RINGS_HISTORY_FROM) < 1 ||
		chash_bigint_column(row, RINGS_HISTORY_FROM) > chash_bigint_column(row, RINGS_EPOCH))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("history of ring \"%s\" cannot begin with epoch %lld", name,
						(long long) chash_bigint_column(row, RINGS_HISTORY_FROM)),
				 errhint("Leave column history_from out.")));
}

/* Handles a ring that a user creates: without nodes it is complete. */
static void
create_ring(Call *call)
{
	ChashRow *row = &call->new_row;
	ChashDefinition empty;
	pg_uuid_t *digest = palloc(sizeof(pg_uuid_t));

	chash_change_check_new(call->catalog, call->ring);
	empty_definition(row, &empty);
	if (strcmp(chash_text_column(row, RINGS_FINGERPRINT), chash_definition_fingerprint(&empty)) !=
		0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fingerprint of ring \"%s\" is not that of a ring without nodes", call->ring),
				 errhint("Leave column fingerprint out.")));
	chash_definition_digest(&empty, digest);
	chash_set_column(row, RINGS_DIGEST, UUIDPGetDatum(digest));
	chash_set_column(row, RINGS_REPLICATED, BoolGetDatum(false));
}

/* Handles the update of a ring's row by a user. */
static void
update_ring(Call *call)
{
	static const int fixed[] = {RINGS_RING,	  RINGS_PLACEMENT,	RINGS_HASH,
								RINGS_VNODES, RINGS_PARTITIONS, RINGS_HASH_TAGS};
	const ChashRow *old_row = &call->old_row;
	ChashRow *new_row = &call->new_row;
	const ChashDefinition *before;

	chash_check_unchanged(
		old_row, new_row, fixed, lengthof(fixed),
		"Settings of a ring are fixed: create another ring, and compare the two with chash_ring_diff.");
	chash_check_unchanged(old_row, new_row, rings_maintained, lengthof(rings_maintained),
						  "It is maintained by chash.");
	check_ring(new_row);
	before = chash_change_touch_row(call->catalog, call->ring);
	chash_copy_column(old_row, new_row, RINGS_VERSION);
	chash_copy_column(old_row, new_row, RINGS_REPLICATED);
	new_row->nulls[RINGS_DIGEST - 1] = true;
	if (!chash_same_column(old_row, new_row, RINGS_REPLICAS))
		chash_set_column(new_row, RINGS_EPOCH, Int64GetDatum(before->ring.epoch + 1));
}

Datum
chash_rings_before_row(PG_FUNCTION_ARGS)
{
	Call call;
	ChashRingRow ring;
	pg_uuid_t *version = palloc(sizeof(pg_uuid_t));

	get_call(fcinfo, &call, RINGS_EPOCH, rings_maintained, lengthof(rings_maintained));
	if (call.new_row.tuple == NULL)
	{
		if (call.kind == CHANGE)
			chash_catalog_check_snapshot(call.catalog);
		if (call.kind == CHANGE && chash_change_fetch_now(call.catalog, call.ring, &ring))
			chash_change_check_home(call.catalog, &ring);
		return proceed(&call);
	}
	chash_change_new_version(version);
	if (call.old_row.tuple == NULL || call.kind == REPLICATED)
		chash_set_column(&call.new_row, RINGS_VERSION, UUIDPGetDatum(version));
	switch (call.kind)
	{
		case OWN:
			check_ring(&call.new_row);
			break;
		case CHANGE:
			if (call.old_row.tuple != NULL)
				update_ring(&call);
			else
			{
				check_ring(&call.new_row);
				create_ring(&call);
			}
			break;
		case RESTORED:
			check_ring(&call.new_row);
			if (IsLogicalWorker())
				chash_set_column(&call.new_row, RINGS_REPLICATED, BoolGetDatum(true));
			break;
		case REPLICATED:
			check_ring(&call.new_row);
			chash_set_column(&call.new_row, RINGS_REPLICATED, BoolGetDatum(true));
			chash_change_note_replicated(call.ring);
			break;
	}
	if (call.old_row.tuple == NULL)
		chash_check_epoch(call.ring, chash_bigint_column(&call.new_row, RINGS_EPOCH));
	return proceed(&call);
}

Datum
chash_rings_after_row(PG_FUNCTION_ARGS)
{
	Call call;

	get_call(fcinfo, &call, RINGS_EPOCH, rings_maintained, lengthof(rings_maintained));
	if (call.new_row.tuple == NULL)
	{
		chash_notify(call.ring, 0);
		if (call.kind != REPLICATED)
			chash_change_dropped(call.catalog, call.ring);
		return PointerGetDatum(NULL);
	}
	if (call.old_row.tuple == NULL && call.kind != REPLICATED)
		chash_change_check_created(call.catalog, call.ring);
	if (call.old_row.tuple == NULL && call.kind != OWN && call.kind != REPLICATED)
		chash_change_created(call.catalog, call.ring);
	if (call.old_row.tuple == NULL || !chash_same_column(&call.old_row, &call.new_row, RINGS_EPOCH))
		chash_notify(call.ring, chash_bigint_column(&call.new_row, RINGS_EPOCH));
	return PointerGetDatum(NULL);
}

/* ----------------------------------------------------------------
 * chash_nodes
 * ----------------------------------------------------------------
 */

static const int nodes_maintained[] = {NODES_HELD_PARTITIONS, NODES_EPOCH};

/*
 * Checks what a row of chash_nodes and one of chash_node_history have in common;
 * ring is NULL if it is not there yet.
 */
static void
check_definition(ChashRow *row, const char *name, int weight_column, int zone_column,
				 int tokens_column, int partitions_column, const ChashRingRow *ring)
{
	char *zone = chash_text_column(row, zone_column);
	int64 weight;
	uint32 count = 0;
	int64 *tokens;
	uint32 *partitions;

	chash_check_name("node", name);
	if (zone != NULL)
		chash_check_name("zone", zone);
	chash_require(row, weight_column);
	weight = chash_weight_from_numeric(DatumGetNumeric(row->values[weight_column - 1]), name);
	chash_set_column(row, weight_column, NumericGetDatum(chash_weight_to_numeric(weight)));
	if (ring == NULL)
		return;

	if (!row->nulls[tokens_column - 1])
	{
		tokens = chash_tokens_from_array(DatumGetArrayTypeP(row->values[tokens_column - 1]),
										 ring->hash, name, &count);
		chash_set_column(row, tokens_column, PointerGetDatum(chash_tokens_to_array(tokens, count)));
	}
	chash_check_tokens_fit(ring, name, count);
	if (ring->placement != CHASH_TOKENS)
		row->nulls[tokens_column - 1] = true;

	count = 0;
	partitions = NULL;
	if (!row->nulls[partitions_column - 1])
		partitions =
			chash_partitions_from_array(DatumGetArrayTypeP(row->values[partitions_column - 1]),
										&count);
	chash_set_column(row, partitions_column,
					 PointerGetDatum(chash_partitions_to_array(partitions, count)));
	if (ring->placement != CHASH_PARTITIONS)
		row->nulls[partitions_column - 1] = true;
}

/* Checks a node by itself; ring is NULL if it is not there yet. */
static void
check_node(ChashRow *row, const ChashRingRow *ring)
{
	char *name = chash_text_column(row, NODES_NODE);

	chash_require(row, NODES_NODE);
	check_definition(row, name, NODES_WEIGHT, NODES_ZONE, NODES_TOKENS, NODES_HELD_PARTITIONS,
					 ring);
	chash_require(row, NODES_STATE);
	(void) chash_state_is_down(chash_text_column(row, NODES_STATE), name);
}

/* Handles a node that a user inserts, updates or deletes. */
static void
change_node(Call *call)
{
	static const int fixed[] = {NODES_RING, NODES_NODE};
	static const int given[] = {NODES_WEIGHT, NODES_ZONE, NODES_STATE, NODES_TOKENS, NODES_INFO};
	ChashRow *row = &call->new_row;
	const ChashDefinition *before;

	if (row->tuple != NULL && call->old_row.tuple != NULL)
	{
		chash_check_unchanged(&call->old_row, row, fixed, lengthof(fixed),
							  "A node is known by its name: remove the node, and add the other.");
		chash_check_unchanged(&call->old_row, row, nodes_maintained, lengthof(nodes_maintained),
							  "It is maintained by chash.");
	}
	before = chash_change_touch(call->catalog, call->ring, CHASH_TOUCH_CHANGED);
	if (before == NULL && row->tuple == NULL)
	{
		/* It was restored, and its ring never came. */
		chash_change_await(call->catalog);
		chash_change_check_absent(call->catalog, call->ring);
		return;
	}
	if (before == NULL)
		chash_report_unknown_ring(call->ring);
	if (row->tuple == NULL)
		return;
	if (call->old_row.tuple == NULL && !row->nulls[NODES_HELD_PARTITIONS - 1])
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column \"held_partitions\" cannot be set"),
				 errhint("It is maintained by chash.")));
	check_node(row, &before->ring);
	if (call->old_row.tuple == NULL ||
		!chash_same_columns(&call->old_row, row, given, lengthof(given)))
		chash_set_column(row, NODES_EPOCH, Int64GetDatum(before->ring.epoch + 1));
}

/*
 * The ring of a row that is restored; NULL if it is not there yet.  Rows may come
 * before their ring, and by several sessions, which must not wait for each other's
 * rings crosswise.
 */
static const ChashRingRow *
restored_ring(Call *call)
{
	const ChashDefinition *before;

	if (!chash_is_replica())
		chash_change_await(call->catalog);
	chash_catalog_check_snapshot(call->catalog);
	before = chash_change_touch(call->catalog, call->ring, CHASH_TOUCH_RESTORED);
	if (before != NULL)
	{
		chash_change_check_home(call->catalog, &before->ring);
		return &before->ring;
	}
	if (chash_is_replica())
		chash_change_await(call->catalog);
	chash_change_check_absent(call->catalog, call->ring);
	return NULL;
}

static void
restore_node(Call *call)
{
	ChashRow *row = &call->new_row;
	const ChashRingRow *ring = restored_ring(call);

	check_node(row, ring);
	if (ring == NULL || chash_is_replica())
		return;
	chash_check_epoch_began(ring->ring, chash_bigint_column(row, NODES_EPOCH));
	if (chash_bigint_column(row, NODES_EPOCH) > ring->epoch)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("epoch %lld of node \"%s\" is past that of its ring, %lld",
						(long long) chash_bigint_column(row, NODES_EPOCH),
						chash_text_column(row, NODES_NODE), (long long) ring->epoch),
				 errhint("Leave column epoch out.")));
}

/* The ring of a row that is replicated, into `ring`; NULL if it is not there yet. */
static const ChashRingRow *
replicated_ring(Call *call, bool nodes, ChashRingRow *ring)
{
	if (!chash_change_touch_replicated(call->catalog, call->ring, nodes))
	{
		chash_change_await(call->catalog);
		chash_change_check_absent(call->catalog, call->ring);
		return NULL;
	}
	(void) chash_change_fetch_now(call->catalog, call->ring, ring);
	return ring;
}

Datum
chash_nodes_before_row(PG_FUNCTION_ARGS)
{
	Call call;
	ChashRingRow buffer;
	const ChashRingRow *ring;

	get_call(fcinfo, &call, NODES_EPOCH, nodes_maintained, lengthof(nodes_maintained));
	switch (call.kind)
	{
		case OWN:
			break;
		case CHANGE:
			change_node(&call);
			break;
		case RESTORED:
			restore_node(&call);
			break;
		case REPLICATED:
			ring = replicated_ring(&call, true, &buffer);
			if (call.new_row.tuple != NULL)
				check_node(&call.new_row, ring);
			break;
	}
	return proceed(&call);
}

/* ----------------------------------------------------------------
 * chash_node_history
 * ----------------------------------------------------------------
 */

/* Checks a past version of a node; ring is NULL if it is not there yet. */
static void
check_history(ChashRow *row, const ChashRingRow *ring)
{
	char *name = chash_text_column(row, HISTORY_NODE);

	chash_require(row, HISTORY_NODE);
	chash_require(row, HISTORY_FROM_EPOCH);
	chash_require(row, HISTORY_TO_EPOCH);
	if (chash_bigint_column(row, HISTORY_FROM_EPOCH) < 1 ||
		chash_bigint_column(row, HISTORY_FROM_EPOCH) >= chash_bigint_column(row, HISTORY_TO_EPOCH))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("epochs %lld to %lld of node \"%s\" are not in order",
						(long long) chash_bigint_column(row, HISTORY_FROM_EPOCH),
						(long long) chash_bigint_column(row, HISTORY_TO_EPOCH), chash_clip(name))));
	if (ring != NULL && !chash_is_replica() &&
		chash_bigint_column(row, HISTORY_TO_EPOCH) > ring->epoch)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("epoch %lld of node \"%s\" is past that of its ring, %lld",
						(long long) chash_bigint_column(row, HISTORY_TO_EPOCH), chash_clip(name),
						(long long) ring->epoch),
				 errhint("History ends with the present epoch.")));
	check_definition(row, name, HISTORY_WEIGHT, HISTORY_ZONE, HISTORY_TOKENS,
					 HISTORY_HELD_PARTITIONS, ring);
}

/* Refuses to change what is recorded; what was restored without its ring may go. */
static void
refuse_history(Call *call)
{
	ChashRingRow ring;

	if (!chash_change_fetch_now(call->catalog, call->ring, &ring))
	{
		chash_change_await(call->catalog);
		chash_change_check_absent(call->catalog, call->ring);
		if (call->new_row.tuple == NULL)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("recorded history of ring \"%s\" cannot be changed", call->ring),
			 errhint("Use chash_prune_history to shorten it.")));
}

Datum
chash_history_before_row(PG_FUNCTION_ARGS)
{
	static const int maintained[] = {HISTORY_FROM_EPOCH, HISTORY_TO_EPOCH};
	Call call;
	ChashRingRow buffer;
	const ChashRingRow *ring;

	get_call(fcinfo, &call, 0, maintained, lengthof(maintained));
	switch (call.kind)
	{
		case OWN:
			break;
		case CHANGE:
			refuse_history(&call);
			break;
		case RESTORED:
			check_history(&call.new_row, restored_ring(&call));
			break;
		case REPLICATED:
			ring = replicated_ring(&call, false, &buffer);
			if (call.new_row.tuple != NULL)
				check_history(&call.new_row, ring);
			break;
	}
	return proceed(&call);
}

/* ----------------------------------------------------------------
 * Statements on all three tables
 * ----------------------------------------------------------------
 */

Datum
chash_before_statement(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;

	(void) get_trigger(fcinfo, &catalog);
	chash_change_open();
	return PointerGetDatum(NULL);
}

Datum
chash_after_statement(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;

	(void) get_trigger(fcinfo, &catalog);
	chash_change_close(catalog);
	return PointerGetDatum(NULL);
}

Datum
chash_before_truncate(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;
	TriggerData *trigger = get_trigger(fcinfo, &catalog);
	Oid table = RelationGetRelid(trigger->tg_relation);

	chash_change_check_truncate(catalog);
	chash_execute(catalog,
				  table == catalog->rings	? "DELETE FROM @chash_rings"
				  : table == catalog->nodes ? "DELETE FROM @chash_nodes"
											: "DELETE FROM @chash_node_history",
				  NULL, 0);
	return PointerGetDatum(NULL);
}

Datum
chash_nodes_after_row(PG_FUNCTION_ARGS)
{
	chash_report_older_script();
}

Datum
chash_nodes_after_statement(PG_FUNCTION_ARGS)
{
	chash_report_older_script();
}
