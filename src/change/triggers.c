/*
 * triggers.c
 *		Triggers on the extension's tables.
 *
 * They make direct DML, restores and replication as safe as the functions.
 * What they do depends on what a row is:
 *
 * - A change is a row that a user or a function of chash writes.  It is checked,
 *   marked with the epoch to come, and settled when its statement ends.
 * - An image is a row that already has its epoch: out of a dump, or replicated.
 *   It is kept as it is, since what goes with it comes by itself.  A row to be
 *   inserted is an image if it has an epoch.  A row to be updated is one if its
 *   epoch changes; only replication may do that.
 *
 * Logical replication fires row triggers only, so that whatever images need
 * (the ring's new stamp) is done BEFORE ROW.
 */
#include "../compat.h"

#include "row.h"

#include "../cache/cache.h"
#include "change.h"
#include "notify.h"
#include "../store/values.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(chash_rings_before_row);
PG_FUNCTION_INFO_V1(chash_rings_after_row);
PG_FUNCTION_INFO_V1(chash_nodes_before_row);
PG_FUNCTION_INFO_V1(chash_nodes_after_row);
PG_FUNCTION_INFO_V1(chash_nodes_after_statement);
PG_FUNCTION_INFO_V1(chash_history_before_row);
PG_FUNCTION_INFO_V1(chash_after_statement);
PG_FUNCTION_INFO_V1(chash_before_truncate);

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
	chash_catalog_check_columns(*catalog, trigger->tg_relation);
	return trigger;
}

/* ----------------------------------------------------------------
 * chash_rings
 * ----------------------------------------------------------------
 */

static char *
fingerprint_without_nodes(const ChashRow *row)
{
	ChashDefinition empty = {0};

	empty.ring.hash = chash_hash_by_name(chash_text_column(row, RINGS_HASH));
	(void) chash_placement_by_name(chash_text_column(row, RINGS_PLACEMENT), &empty.ring.placement);
	empty.ring.hash_tags = DatumGetBool(row->values[RINGS_HASH_TAGS - 1]);
	if (!row->nulls[RINGS_VNODES - 1])
		empty.ring.vnodes = DatumGetUInt32(row->values[RINGS_VNODES - 1]);
	if (!row->nulls[RINGS_PARTITIONS - 1])
		empty.ring.partitions = DatumGetUInt32(row->values[RINGS_PARTITIONS - 1]);
	return chash_definition_fingerprint(&empty);
}

/* Checks a ring, and fills in what was left out. */
static void
check_ring(ChashRow *row)
{
	char *placement;

	chash_require(row, RINGS_RING);
	chash_check_name("ring", chash_text_column(row, RINGS_RING));
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
	chash_check_epoch_began(chash_text_column(row, RINGS_RING),
							chash_bigint_column(row, RINGS_EPOCH));
	if (row->nulls[RINGS_FINGERPRINT - 1])
		chash_set_column(row, RINGS_FINGERPRINT,
						 CStringGetTextDatum(fingerprint_without_nodes(row)));
	if (!chash_is_fingerprint(chash_text_column(row, RINGS_FINGERPRINT)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fingerprint of ring \"%s\" is not one", chash_text_column(row, RINGS_RING)),
				 errhint("Leave column fingerprint out.")));
	if (row->nulls[RINGS_HISTORY_FROM - 1])
		chash_set_column(row, RINGS_HISTORY_FROM, row->values[RINGS_EPOCH - 1]);
	if (chash_bigint_column(row, RINGS_HISTORY_FROM) < 1 ||
		chash_bigint_column(row, RINGS_HISTORY_FROM) > chash_bigint_column(row, RINGS_EPOCH))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("history of ring \"%s\" cannot begin with epoch %lld",
						chash_text_column(row, RINGS_RING),
						(long long) chash_bigint_column(row, RINGS_HISTORY_FROM)),
				 errhint("Leave column history_from out.")));
}

/* Handles the update of a ring's row. */
static void
update_ring(const ChashRow *old_row, ChashRow *new_row)
{
	static const int fixed[] = {RINGS_RING,	  RINGS_PLACEMENT,	RINGS_HASH,
								RINGS_VNODES, RINGS_PARTITIONS, RINGS_HASH_TAGS};
	static const int maintained[] = {RINGS_EPOCH, RINGS_FINGERPRINT, RINGS_HISTORY_FROM};
	bool image = chash_is_replica() &&
				 !chash_same_columns(old_row, new_row, maintained, lengthof(maintained));

	if (chash_is_changing(chash_text_column(old_row, RINGS_RING)) || image)
	{
		check_ring(new_row);
		return;
	}
	chash_check_unchanged(
		old_row, new_row, fixed, lengthof(fixed),
		"Settings of a ring are fixed: create another ring, and compare the two with chash_ring_diff.");
	chash_check_unchanged(old_row, new_row, maintained, lengthof(maintained),
						  "It is maintained by chash.");
	check_ring(new_row);
	if (!chash_same_column(old_row, new_row, RINGS_REPLICAS))
		chash_set_column(new_row, RINGS_EPOCH,
						 Int64GetDatum(chash_bigint_column(old_row, RINGS_EPOCH) + 1));
}

Datum
chash_rings_before_row(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;
	TriggerData *trigger = get_trigger(fcinfo, &catalog);
	ChashRow old_row;
	ChashRow new_row;
	char *name;
	pg_uuid_t version;

	chash_get_rows(trigger, &old_row, &new_row);
	chash_cache_hold();
	if (new_row.tuple == NULL)
		return PointerGetDatum(old_row.tuple);
	if (old_row.tuple == NULL)
	{
		bool image = !new_row.nulls[RINGS_EPOCH - 1];

		check_ring(&new_row);
		name = chash_text_column(&new_row, RINGS_RING);
		if (!chash_is_replica() && (!image || chash_is_changing(name)))
			chash_ring_check_new(catalog, name);
		chash_check_epoch(chash_text_column(&new_row, RINGS_RING),
						  chash_bigint_column(&new_row, RINGS_EPOCH));
	}
	else
		update_ring(&old_row, &new_row);

	/* Whatever happens to a ring, nobody may take it for what it was before. */
	if (!pg_strong_random(&version, sizeof(version)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	chash_set_column(&new_row, RINGS_VERSION, UUIDPGetDatum(&version));
	return chash_result_row(&new_row);
}

Datum
chash_rings_after_row(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;
	TriggerData *trigger = get_trigger(fcinfo, &catalog);
	ChashRow old_row;
	ChashRow new_row;

	chash_get_rows(trigger, &old_row, &new_row);
	if (new_row.tuple == NULL)
	{
		char *name = chash_text_column(&old_row, RINGS_RING);

		chash_notify(name, 0);
		if (!chash_is_replica())
		{
			if (SPI_connect() != SPI_OK_CONNECT)
				elog(ERROR, "SPI_connect failed");
			chash_ring_remove_rows(catalog, name);
			SPI_finish();
		}
	}
	else if (old_row.tuple == NULL || !chash_same_column(&old_row, &new_row, RINGS_EPOCH))
		chash_notify(chash_text_column(&new_row, RINGS_RING),
					 chash_bigint_column(&new_row, RINGS_EPOCH));
	return PointerGetDatum(NULL);
}

/* ----------------------------------------------------------------
 * chash_nodes
 * ----------------------------------------------------------------
 */

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

/*
 * Locks the ring of a row and reads it; false if there is no such ring.  Rows
 * that are restored may come before their ring, and by several sessions, which
 * must not wait for each other's rings crosswise.
 */
static bool
lock_ring(const ChashCatalog *catalog, const char *name, bool restored, ChashRingRow *ring)
{
	if (!chash_is_changing(name) && restored &&
		(!chash_is_replica() || !chash_ring_fetch_now(catalog, name, ring)))
		chash_ring_await(catalog);
	if (chash_ring_touch(catalog, name))
		return chash_ring_fetch_now(catalog, name, ring);
	if (!chash_is_changing(name) && restored)
		chash_ring_check_absent(catalog, name);
	return false;
}

/* Handles a node to be inserted. */
static void
insert_node(ChashRow *row, const ChashRingRow *ring)
{
	bool image = !row->nulls[NODES_EPOCH - 1];
	bool partitions_given = !row->nulls[NODES_HELD_PARTITIONS - 1];

	check_node(row, ring);
	if (ring == NULL)
		return;
	if (!image)
	{
		if (partitions_given)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("column \"held_partitions\" cannot be set"),
					 errhint("It is maintained by chash.")));
		chash_set_column(row, NODES_EPOCH, Int64GetDatum(ring->epoch + 1));
	}
	else if (!chash_is_replica())
	{
		chash_check_epoch_began(ring->ring, chash_bigint_column(row, NODES_EPOCH));
		if (chash_bigint_column(row, NODES_EPOCH) > ring->epoch)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("epoch %lld of node \"%s\" is past that of its ring, %lld",
							(long long) chash_bigint_column(row, NODES_EPOCH),
							chash_text_column(row, NODES_NODE), (long long) ring->epoch),
					 errhint("Leave column epoch out.")));
	}
}

/* Handles a node to be updated. */
static void
update_node(const ChashRow *old_row, ChashRow *new_row, const ChashRingRow *ring)
{
	static const int fixed[] = {NODES_RING, NODES_NODE};
	static const int maintained[] = {NODES_HELD_PARTITIONS, NODES_EPOCH};
	static const int given[] = {NODES_WEIGHT,		   NODES_ZONE, NODES_STATE, NODES_TOKENS,
								NODES_HELD_PARTITIONS, NODES_INFO};
	bool image = chash_is_replica() &&
				 !chash_same_columns(old_row, new_row, maintained, lengthof(maintained));

	check_node(new_row, ring);
	if (image || ring == NULL)
		return;
	chash_check_unchanged(old_row, new_row, fixed, lengthof(fixed),
						  "A node is known by its name: remove the node, and add the other.");
	if (!chash_is_changing(ring->ring))
		chash_check_unchanged(old_row, new_row, maintained, lengthof(maintained),
							  "It is maintained by chash.");
	if (!chash_same_columns(old_row, new_row, given, lengthof(given)))
		chash_set_column(new_row, NODES_EPOCH, Int64GetDatum(ring->epoch + 1));
}

Datum
chash_nodes_before_row(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;
	TriggerData *trigger = get_trigger(fcinfo, &catalog);
	ChashRow old_row;
	ChashRow new_row;
	char *name;
	ChashRingRow ring;
	bool restored;
	bool exists;
	MemoryContext caller = CurrentMemoryContext;
	Datum result;

	chash_get_rows(trigger, &old_row, &new_row);
	if (new_row.tuple != NULL)
		chash_require(&new_row, NODES_RING);
	name = chash_text_column(old_row.tuple != NULL ? &old_row : &new_row, NODES_RING);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	restored = old_row.tuple == NULL && !new_row.nulls[NODES_EPOCH - 1];
	if (new_row.tuple == NULL && !chash_is_replica() && !chash_is_changing(name) &&
		!chash_ring_fetch_now(catalog, name, &ring))
		restored = true; /* what is deleted was never followed by its ring */
	exists = lock_ring(catalog, name, restored, &ring);
	if (new_row.tuple == NULL)
	{
		/* A node to be deleted, perhaps since its ring has been. */
		SPI_finish();
		chash_cache_hold();
		return PointerGetDatum(trigger->tg_trigtuple);
	}
	if (!exists && !restored && !chash_is_replica())
		chash_report_unknown_ring(name);
	if (old_row.tuple == NULL)
		insert_node(&new_row, exists ? &ring : NULL);
	else
		update_node(&old_row, &new_row, exists ? &ring : NULL);
	MemoryContextSwitchTo(caller);
	result = chash_result_row(&new_row);
	SPI_finish();
	chash_cache_hold();
	return result;
}

Datum
chash_nodes_after_row(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;
	TriggerData *trigger = get_trigger(fcinfo, &catalog);
	ChashRow old_row;
	ChashRow new_row;
	static const int columns[] = {NODES_RING, NODES_NODE,	NODES_EPOCH,		  NODES_WEIGHT,
								  NODES_ZONE, NODES_TOKENS, NODES_HELD_PARTITIONS};
	ChashParameter parameters[lengthof(columns)];

	/* A replica gets its history by replication. */
	if (chash_is_replica())
		return PointerGetDatum(NULL);
	chash_get_rows(trigger, &old_row, &new_row);
	if (new_row.tuple != NULL && chash_same_column(&old_row, &new_row, NODES_EPOCH))
		return PointerGetDatum(NULL);

	/*
	 * Not what the node was like for a part of this change only; and nothing
	 * at all if its ring has been dropped.
	 */
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	for (int i = 0; i < (int) lengthof(columns); i++)
	{
		parameters[i].type = TupleDescAttr(old_row.descriptor, columns[i] - 1)->atttypid;
		parameters[i].value = old_row.values[columns[i] - 1];
		parameters[i].isnull = old_row.nulls[columns[i] - 1];
	}
	chash_execute_own(catalog, chash_text_column(&old_row, NODES_RING),
					  "INSERT INTO @chash_node_history (ring, node, from_epoch, to_epoch, weight,"
					  " zone, tokens, held_partitions)"
					  " SELECT ring, $2, $3, epoch + 1, $4, $5, $6, $7 FROM @chash_rings"
					  " WHERE ring = $1 AND $3 <= epoch",
					  parameters, 7);
	SPI_finish();
	return PointerGetDatum(NULL);
}

/*
 * Images have been inserted.  If they complete a ring that is being restored,
 * or take it further that way, all is well.  But if the ring was complete
 * before, they are a change in disguise, which would go without an epoch.
 */
static void
check_images(const ChashCatalog *catalog, const char *ring)
{
	ChashDefinition definition;
	ChashChange *removals;
	ChashParameter parameter = chash_text_parameter(ring);
	uint64 count;

	if (!chash_ring_load_now(catalog, ring, &definition) ||
		strcmp(chash_definition_fingerprint(&definition), definition.ring.fingerprint) == 0)
		return;
	count = chash_execute(catalog, "SELECT node FROM new_rows WHERE ring = $1", &parameter, 1);
	removals = palloc0_array(ChashChange, Max(count, 1));
	for (uint64 i = 0; i < count; i++)
	{
		removals[i].kind = CHASH_REMOVE;
		removals[i].node = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
	}
	chash_definition_change(&definition, removals, (uint32) count);
	if (strcmp(chash_definition_fingerprint(&definition), definition.ring.fingerprint) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("nodes cannot be inserted into ring \"%s\" with an epoch of their own",
						ring),
				 errhint("Leave columns epoch and held_partitions out.")));
}

Datum
chash_nodes_after_statement(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;
	TriggerData *trigger = get_trigger(fcinfo, &catalog);
	bool inserted = TRIGGER_FIRED_BY_INSERT(trigger->tg_event);
	bool deleted = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
	SPITupleTable *rings;
	uint64 count;

	/* Initial synchronization copies images, which are complete by themselves. */
	chash_statement_ended();
	if (IsLogicalWorker())
		return PointerGetDatum(NULL);

	if (SPI_connect() != SPI_OK_CONNECT || SPI_register_trigger_data(trigger) < 0)
		elog(ERROR, "SPI_connect failed");
	count = chash_execute(catalog,
						  deleted ? "SELECT DISTINCT ring, true FROM old_rows ORDER BY ring"
								  : "SELECT n.ring, bool_or(n.epoch > r.epoch)"
									" FROM new_rows n JOIN @chash_rings r ON r.ring = n.ring"
									" GROUP BY n.ring ORDER BY n.ring",
						  NULL, 0);
	rings = SPI_tuptable;
	for (uint64 i = 0; i < count; i++)
	{
		char *ring = SPI_getvalue(rings->vals[i], rings->tupdesc, 1);
		bool isnull;

		if (chash_is_changing(ring))
			continue;
		if (DatumGetBool(SPI_getbinval(rings->vals[i], rings->tupdesc, 2, &isnull)))
			chash_ring_settle(catalog, ring);
		else if (inserted && !chash_is_replica())
			check_images(catalog, ring);
	}
	SPI_finish();
	return PointerGetDatum(NULL);
}

/* ----------------------------------------------------------------
 * chash_node_history, and all tables
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
	check_definition(row, name, HISTORY_WEIGHT, HISTORY_ZONE, HISTORY_TOKENS,
					 HISTORY_HELD_PARTITIONS, ring);
}

Datum
chash_history_before_row(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;
	TriggerData *trigger = get_trigger(fcinfo, &catalog);
	ChashRow old_row;
	ChashRow new_row;
	char *name;
	ChashRingRow ring;
	bool exists;
	MemoryContext caller = CurrentMemoryContext;
	Datum result = PointerGetDatum(trigger->tg_trigtuple);

	chash_get_rows(trigger, &old_row, &new_row);
	if (new_row.tuple != NULL)
		chash_require(&new_row, HISTORY_RING);
	name = chash_text_column(old_row.tuple != NULL ? &old_row : &new_row, HISTORY_RING);
	if (chash_is_changing(name))
	{
		chash_cache_hold();
		return result;
	}

	/* Rows of a dump and replicated ones make older epochs what they were. */
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	exists = lock_ring(catalog, name,
					   old_row.tuple == NULL || !chash_ring_fetch_now(catalog, name, &ring), &ring);
	if (old_row.tuple != NULL && (exists || new_row.tuple != NULL) && !chash_is_replica())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recorded history of ring \"%s\" cannot be changed", name),
				 errhint("Use chash_prune_history to shorten it.")));
	if (new_row.tuple != NULL)
	{
		check_history(&new_row, exists ? &ring : NULL);
		MemoryContextSwitchTo(caller);
		result = chash_result_row(&new_row);
	}
	SPI_finish();
	chash_cache_hold();
	return result;
}

Datum
chash_after_statement(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;

	(void) get_trigger(fcinfo, &catalog);
	chash_statement_ended();
	return PointerGetDatum(NULL);
}

Datum
chash_before_truncate(PG_FUNCTION_ARGS)
{
	const ChashCatalog *catalog;
	TriggerData *trigger = get_trigger(fcinfo, &catalog);
	Oid table = RelationGetRelid(trigger->tg_relation);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	chash_execute(catalog,
				  table == catalog->rings	? "DELETE FROM @chash_rings"
				  : table == catalog->nodes ? "DELETE FROM @chash_nodes"
											: "DELETE FROM @chash_node_history",
				  NULL, 0);
	SPI_finish();
	return PointerGetDatum(NULL);
}
