/*
 * change.c
 *		Changing rings.
 *
 * Statements are executed by SPI, so that triggers, constraints and privileges
 * do their work; whoever calls runs as the extension's owner with search_path
 * pinned to pg_catalog.
 */
#include "change.h"

#include "../cache/cache.h"
#include "../store/values.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* The ring that chash itself is writing, or NULL. */
static const char *changing_ring = NULL;

/*
 * The latest touch of this transaction.  While nobody has looked since, the
 * stamp that it gave need not be replaced for a further change; that saves an
 * update of the ring's row for each of its nodes in a bulk load.
 */
static struct
{
	SubTransactionId subtransaction; /* invalid: none */
	uint64 looks;
	char ring[4 * CHASH_MAX_NAME];
} latest_touch;

static void
forget_touch(void)
{
	latest_touch.subtransaction = InvalidSubTransactionId;
}

static void
transaction_ended(XactEvent event, void *argument)
{
	forget_touch();
}

void
chash_change_init(void)
{
	RegisterXactCallback(transaction_ended, NULL);
}

bool
chash_is_replica(void)
{
	return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

ChashParameter
chash_text_parameter(const char *string)
{
	if (string == NULL)
		return (ChashParameter){TEXTOID, (Datum) 0, true};
	return (ChashParameter){TEXTOID, CStringGetTextDatum(string), false};
}

ChashParameter
chash_bigint_parameter(int64 value)
{
	return (ChashParameter){INT8OID, Int64GetDatum(value), false};
}

static ChashParameter
array_parameter(Oid type, ArrayType *array)
{
	return (ChashParameter){type, PointerGetDatum(array), array == NULL};
}

uint64
chash_execute(const ChashCatalog *catalog, const char *statement, const ChashParameter *parameters,
			  int count)
{
	const char *schema = quote_identifier(get_namespace_name(get_rel_namespace(catalog->rings)));
	StringInfoData sql;
	Oid types[9];
	Datum values[9];
	char nulls[9];
	int result;

	chash_catalog_check_triggers(catalog);
	initStringInfo(&sql);
	for (const char *c = statement; *c != '\0'; c++)
	{
		if (*c == '@')
			appendStringInfo(&sql, "%s.", schema);
		else
			appendStringInfoChar(&sql, *c);
	}
	Assert(count <= (int) lengthof(types));
	for (int i = 0; i < count; i++)
	{
		types[i] = parameters[i].type;
		values[i] = parameters[i].value;
		nulls[i] = parameters[i].isnull ? 'n' : ' ';
	}
	result = SPI_execute_with_args(sql.data, count, types, values, nulls, false, 0);
	if (result < 0)
		elog(ERROR, "statement \"%s\" failed: %s", sql.data, SPI_result_code_string(result));
	return SPI_processed;
}

uint64
chash_execute_own(const ChashCatalog *catalog, const char *ring, const char *statement,
				  const ChashParameter *parameters, int count)
{
	const char *outer_ring = changing_ring;
	uint64 processed;

	changing_ring = ring;
	PG_TRY();
	{
		processed = chash_execute(catalog, statement, parameters, count);
	}
	PG_FINALLY();
	{
		changing_ring = outer_ring;
	}
	PG_END_TRY();
	if (changing_ring == NULL)
		chash_cache_release();
	return processed;
}

bool
chash_is_changing(const char *ring)
{
	return changing_ring != NULL && strcmp(changing_ring, ring) == 0;
}

void
chash_statement_ended(void)
{
	if (changing_ring != NULL)
		return;
	forget_touch();
	chash_cache_release();
}

bool
chash_ring_touch(const ChashCatalog *catalog, const char *ring)
{
	ChashParameter parameter = chash_text_parameter(ring);

	if (latest_touch.subtransaction == GetCurrentSubTransactionId() &&
		latest_touch.looks == chash_cache_looks && strcmp(latest_touch.ring, ring) == 0)
		return true;

	/* The trigger on chash_rings puts in the new stamp. */
	if (chash_execute_own(catalog, ring,
						  "UPDATE @chash_rings SET version = version WHERE ring = $1", &parameter,
						  1) == 0)
		return false;
	latest_touch.subtransaction = GetCurrentSubTransactionId();
	latest_touch.looks = chash_cache_looks;
	strlcpy(latest_touch.ring, ring, sizeof(latest_touch.ring));
	return true;
}

/*
 * Under READ COMMITTED, what others have committed by now; in any case what
 * this transaction has done so far.
 */
static void
push_present_snapshot(void)
{
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
}

bool
chash_ring_fetch_now(const ChashCatalog *catalog, const char *ring, ChashRingRow *row)
{
	bool found;

	push_present_snapshot();
	found = chash_catalog_fetch_ring(catalog, ring, GetActiveSnapshot(), row);
	PopActiveSnapshot();
	return found;
}

bool
chash_ring_load_now(const ChashCatalog *catalog, const char *ring, ChashDefinition *definition)
{
	bool found;

	push_present_snapshot();
	found = chash_definition_load(catalog, ring, GetActiveSnapshot(), CHASH_NOW, definition);
	PopActiveSnapshot();
	return found;
}

static void
write_partitions(const ChashCatalog *catalog, const char *ring, const ChashNode *node)
{
	ChashParameter parameters[3] = {
		chash_text_parameter(ring),
		chash_text_parameter(node->name),
		array_parameter(INT4ARRAYOID, chash_partitions_to_array(node->spec.partitions,
																node->spec.partition_count)),
	};

	chash_execute_own(catalog, ring,
					  "UPDATE @chash_nodes SET held_partitions = $3 WHERE ring = $1 AND node = $2",
					  parameters, 3);
}

static bool
same_partitions(const ChashNode *a, const ChashNode *b)
{
	return a->spec.partition_count == b->spec.partition_count &&
		   (a->spec.partition_count == 0 || memcmp(a->spec.partitions, b->spec.partitions,
												   a->spec.partition_count * sizeof(uint32)) == 0);
}

void
chash_ring_settle(const ChashCatalog *catalog, const char *ring)
{
	ChashDefinition definition;
	ChashNode *before;
	ChashSpec spec;
	bool changed;
	ChashParameter parameters[3];

	if (!chash_ring_load_now(catalog, ring, &definition))
		return;

	/* Nodes that were removed have left no mark, but are in the fingerprint. */
	changed = strcmp(chash_definition_fingerprint(&definition), definition.ring.fingerprint) != 0;
	for (uint32 i = 0; i < definition.count; i++)
		changed |= definition.nodes[i].epoch > definition.ring.epoch;
	if (!changed)
		return;

	/* Nodes whose partitions change are marked with the epoch to come as well. */
	before =
		MemoryContextAllocHuge(CurrentMemoryContext, Max(definition.count, 1) * sizeof(ChashNode));
	if (definition.count > 0)
		memcpy(before, definition.nodes, definition.count * sizeof(ChashNode));
	chash_definition_assign(&definition);
	for (uint32 i = 0; i < definition.count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (definition.ring.placement == CHASH_PARTITIONS &&
			!same_partitions(&before[i], &definition.nodes[i]))
			write_partitions(catalog, ring, &definition.nodes[i]);
	}

	chash_definition_spec(&definition, &spec);
	chash_definition_check(&definition, &spec);

	/* A replica gets its history by replication: of this change it has none. */
	parameters[0] = chash_text_parameter(ring);
	parameters[1] = chash_text_parameter(chash_definition_fingerprint(&definition));
	parameters[2] = chash_bigint_parameter(chash_is_replica() ? definition.ring.epoch + 1
															  : definition.ring.history_from);
	chash_execute_own(catalog, ring,
					  "UPDATE @chash_rings SET epoch = epoch + 1, fingerprint = $2,"
					  " history_from = $3 WHERE ring = $1",
					  parameters, 3);
	forget_touch();
}

/* Writes a node as the definition has it, as a new row or over its old one. */
static void
write_node(const ChashCatalog *catalog, const ChashDefinition *definition, const ChashNode *node,
		   const char *statement, int64 epoch)
{
	bool has_tokens = definition->ring.placement == CHASH_TOKENS;
	bool has_partitions = epoch != 0 && definition->ring.placement == CHASH_PARTITIONS;
	ChashParameter parameters[9] = {
		chash_text_parameter(definition->ring.ring),
		chash_text_parameter(node->name),
		{NUMERICOID, NumericGetDatum(chash_weight_to_numeric(node->spec.weight)), false},
		chash_text_parameter(node->zone),
		chash_text_parameter(node->spec.down ? "down" : "up"),
		array_parameter(INT8ARRAYOID, has_tokens ? chash_tokens_to_array(node->spec.tokens,
																		 node->spec.token_count)
												 : NULL),
		{JSONBOID, PointerGetDatum(node->info), node->info == NULL},
		array_parameter(INT4ARRAYOID, has_partitions
										  ? chash_partitions_to_array(node->spec.partitions,
																	  node->spec.partition_count)
										  : NULL),
		chash_bigint_parameter(epoch),
	};

	chash_execute_own(catalog, definition->ring.ring, statement, parameters, epoch != 0 ? 9 : 7);
}

/* Is a node of a definition the same as it was? */
static bool
same_node(const ChashNode *a, const ChashNode *b)
{
	if (a->spec.weight != b->spec.weight || a->spec.down != b->spec.down ||
		(a->zone == NULL) != (b->zone == NULL) || (a->info == NULL) != (b->info == NULL) ||
		a->spec.token_count != b->spec.token_count)
		return false;
	if (a->zone != NULL && strcmp(a->zone, b->zone) != 0)
		return false;
	if (a->info != NULL && compareJsonbContainers(&a->info->root, &b->info->root) != 0)
		return false;
	return a->spec.token_count == 0 ||
		   memcmp(a->spec.tokens, b->spec.tokens, a->spec.token_count * sizeof(int64)) == 0;
}

/* Writes a change that has been checked, unless the node stays as it was. */
static bool
write_change(const ChashCatalog *catalog, const ChashDefinition *before,
			 const ChashDefinition *after, const char *name)
{
	const ChashNode *old_node = chash_definition_find(before, name);
	const ChashNode *node = chash_definition_find(after, name);

	if (node == NULL)
	{
		ChashParameter parameters[2] = {
			chash_text_parameter(after->ring.ring),
			chash_text_parameter(name),
		};

		chash_execute_own(catalog, after->ring.ring,
						  "DELETE FROM @chash_nodes WHERE ring = $1 AND node = $2", parameters, 2);
		return true;
	}
	if (old_node == NULL)
		write_node(catalog, after, node,
				   "INSERT INTO @chash_nodes (ring, node, weight, zone, state, tokens, info)"
				   " VALUES ($1, $2, $3, $4, $5, $6, $7)",
				   0);
	else if (!same_node(old_node, node))
		write_node(catalog, after, node,
				   "UPDATE @chash_nodes"
				   " SET weight = $3, zone = $4, state = $5, tokens = $6, info = $7"
				   " WHERE ring = $1 AND node = $2",
				   0);
	else
		return false;
	return true;
}

int64
chash_ring_change(const ChashCatalog *catalog, const char *ring, const ChashChange *changes,
				  uint32 count)
{
	ChashParameter parameter = chash_text_parameter(ring);
	ChashDefinition before;
	ChashDefinition after;
	ChashRingRow row;
	ChashSpec spec;
	bool written = false;

	/* Lock it, but leave its stamp alone for as long as nothing has changed. */
	if (chash_execute(catalog, "SELECT FROM @chash_rings WHERE ring = $1 FOR NO KEY UPDATE",
					  &parameter, 1) == 0 ||
		!chash_ring_load_now(catalog, ring, &before))
		chash_report_unknown_ring(ring);

	/* Everything is checked before anything is written. */
	after = before;
	after.nodes =
		MemoryContextAllocHuge(CurrentMemoryContext, Max(before.count, 1) * sizeof(ChashNode));
	after.capacity = Max(before.count, 1);
	if (before.count > 0)
		memcpy(after.nodes, before.nodes, before.count * sizeof(ChashNode));
	chash_definition_change(&after, changes, count);
	chash_definition_assign(&after);
	chash_definition_spec(&after, &spec);
	chash_definition_check(&after, &spec);

	for (uint32 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		written |= write_change(catalog, &before, &after, changes[i].node);
	}
	if (!written)
		return before.ring.epoch;
	chash_ring_settle(catalog, ring);
	if (!chash_ring_fetch_now(catalog, ring, &row))
		elog(ERROR, "ring \"%s\" has vanished while being changed", ring);
	return row.epoch;
}

static void
insert_ring(const ChashCatalog *catalog, const ChashRingRow *ring, const char *fingerprint)
{
	bool vnodes = ring->placement == CHASH_VNODES;
	bool partitions = ring->placement == CHASH_PARTITIONS;
	ChashParameter parameters[9] = {
		chash_text_parameter(ring->ring),
		chash_text_parameter(chash_placement_name(ring->placement)),
		chash_text_parameter(ring->hash->name),
		{INT4OID, Int32GetDatum((int32) ring->vnodes), !vnodes},
		{INT4OID, Int32GetDatum((int32) ring->partitions), !partitions},
		{BOOLOID, BoolGetDatum(ring->hash_tags), false},
		{INT4OID, Int32GetDatum(ring->replicas), false},
		chash_bigint_parameter(ring->epoch),
		chash_text_parameter(fingerprint),
	};

	if (chash_execute_own(catalog, ring->ring,
						  "INSERT INTO @chash_rings (ring, placement, hash, vnodes, partitions,"
						  " hash_tags, replicas, epoch, fingerprint)"
						  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
						  parameters, 9) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("ring \"%s\" already exists", ring->ring),
				 errhint("Drop it first with chash_drop_ring, or choose another name.")));
}

int64
chash_ring_create(const ChashCatalog *catalog, ChashDefinition *definition)
{
	ChashSpec spec;
	char *fingerprint;

	chash_definition_spec(definition, &spec);
	chash_definition_check(definition, &spec);
	fingerprint = chash_definition_fingerprint(definition);

	insert_ring(catalog, &definition->ring, fingerprint);
	for (uint32 i = 0; i < definition->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		write_node(catalog, definition, &definition->nodes[i],
				   "INSERT INTO @chash_nodes (ring, node, weight, zone, state, tokens,"
				   " info, held_partitions, epoch)"
				   " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
				   definition->ring.epoch);
	}
	return definition->ring.epoch;
}

void
chash_ring_check_absent(const ChashCatalog *catalog, const char *ring)
{
	ChashRingRow row;

	PushActiveSnapshot(GetLatestSnapshot());
	if (chash_catalog_fetch_ring(catalog, ring, GetActiveSnapshot(), &row))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("ring \"%s\" has been created since the transaction began", ring),
				 errhint("Repeat the transaction.")));
	PopActiveSnapshot();
}

static void
note_row(Datum *values, bool *nulls, void *found)
{
	*(bool *) found = true;
}

void
chash_ring_check_new(const ChashCatalog *catalog, const char *ring)
{
	ChashRingRow row;
	bool found = false;

	/* As of now, even where the transaction's snapshot is older. */
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	if (!chash_catalog_fetch_ring(catalog, ring, GetActiveSnapshot(), &row))
	{
		chash_catalog_scan(catalog, catalog->nodes, ring, GetActiveSnapshot(), note_row, &found);
		chash_catalog_scan(catalog, catalog->history, ring, GetActiveSnapshot(), note_row, &found);
	}
	PopActiveSnapshot();
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there are nodes of a ring \"%s\" already", ring),
				 errdetail("They were restored without their ring."),
				 errhint("Restore table chash_rings too, or delete them from chash_nodes and chash_node_history.")));
}

void
chash_ring_remove_rows(const ChashCatalog *catalog, const char *ring)
{
	ChashParameter parameter = chash_text_parameter(ring);

	chash_execute_own(catalog, ring, "DELETE FROM @chash_nodes WHERE ring = $1", &parameter, 1);
	chash_execute_own(catalog, ring, "DELETE FROM @chash_node_history WHERE ring = $1", &parameter,
					  1);
}

void
chash_ring_await(const ChashCatalog *catalog)
{
	LockRelationOid(catalog->rings, ShareRowExclusiveLock);
}

void
chash_ring_drop(const ChashCatalog *catalog, const char *ring)
{
	ChashParameter parameter = chash_text_parameter(ring);

	if (chash_execute(catalog, "DELETE FROM @chash_rings WHERE ring = $1", &parameter, 1) == 0)
		chash_report_unknown_ring(ring);
}

int64
chash_ring_prune(const ChashCatalog *catalog, const char *ring, int64 keep)
{
	ChashRingRow row;
	ChashParameter parameters[2];
	int64 history_from;

	if (keep < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of epochs to keep cannot be negative: %lld", (long long) keep),
				 errhint("With 0, only the present epoch is kept.")));
	if (!chash_ring_touch(catalog, ring) || !chash_ring_fetch_now(catalog, ring, &row))
		chash_report_unknown_ring(ring);

	history_from = Max(row.history_from, keep < row.epoch ? row.epoch - keep : 1);
	if (history_from == row.history_from)
		return 0;
	parameters[0] = chash_text_parameter(ring);
	parameters[1] = chash_bigint_parameter(history_from);
	chash_execute_own(catalog, ring, "UPDATE @chash_rings SET history_from = $2 WHERE ring = $1",
					  parameters, 2);
	chash_execute_own(catalog, ring,
					  "DELETE FROM @chash_node_history WHERE ring = $1 AND to_epoch <= $2",
					  parameters, 2);
	forget_touch();
	return history_from - row.history_from;
}
