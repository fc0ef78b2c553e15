/*
 * functions.c
 *		The changes that SQL functions stand for.
 *
 * Each is a statement on the road that settle.c tells of.  Everything is checked before anything
 * is written.
 */
#include "change.h"

#include "../store/values.h"
#include "difference.h"
#include "execute.h"
#include "present.h"
#include "statements.h"
#include "write.h"

#include "catalog/pg_type.h"
#include "utils/memutils.h"

static void
check_epoch_is(const ChashRingRow *ring, const int64 *if_epoch)
{
	if (if_epoch != NULL && *if_epoch != ring->epoch)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ring \"%s\" is at epoch %lld, not %lld", ring->ring,
						(long long) ring->epoch, (long long) *if_epoch),
				 errhint("It has been changed since. Look at the plan again.")));
}

int64
chash_change_nodes(const ChashCatalog *catalog, const char *ring, const ChashChange *changes,
				   uint32 count, const int64 *if_epoch)
{
	ChashTouched *touched = chash_touched_held(ring);
	bool first = touched == NULL;
	ChashDefinition stored;
	ChashDefinition after;
	int64 epoch;

	/* Everything is checked before anything is written. */
	if (first)
		touched = chash_change_lock(catalog, ring);
	if (touched == NULL)
		chash_report_unknown_ring(ring);
	epoch = touched->before.ring.epoch;
	check_epoch_is(&touched->before.ring, if_epoch);
	if (first)
		stored = touched->before;
	else if (!chash_change_load_now(catalog, ring, &stored))
		chash_report_unknown_ring(ring);
	stored.ring.epoch = epoch;
	chash_definition_copy(&stored, &after);
	chash_definition_change(&after, changes, count);
	if (!(first ? chash_difference_complete(&stored, &after)
				: chash_difference_mark(&stored, &after)))
	{
		if (first)
			MemoryContextDelete(touched->context);
		return epoch;
	}

	chash_change_open();
	if (first)
	{
		touched->statement = chash_statements_open();
		touched->after = &after;
		chash_touched_add(touched);
	}
	else
	{
		/* A part of what the statement that touched it does. */
		(void) chash_change_touch(catalog, ring, CHASH_TOUCH_CHANGED);
		chash_write_nodes(catalog, &stored, &after);
	}
	chash_change_close(catalog);
	return epoch + 1;
}

static void
insert_ring(const ChashCatalog *catalog, const ChashDefinition *definition)
{
	const ChashRingRow *ring = &definition->ring;
	pg_uuid_t digest;
	ChashParameter parameters[10] = {
		chash_text_parameter(ring->ring),
		chash_text_parameter(chash_placement_name(ring->placement)),
		chash_text_parameter(ring->hash->name),
		{INT4OID, Int32GetDatum((int32) ring->vnodes), ring->placement != CHASH_VNODES},
		{INT4OID, Int32GetDatum((int32) ring->partitions), ring->placement != CHASH_PARTITIONS},
		{BOOLOID, BoolGetDatum(ring->hash_tags), false},
		{INT4OID, Int32GetDatum(ring->replicas), false},
		chash_bigint_parameter(ring->epoch),
		chash_text_parameter(ring->fingerprint),
		chash_uuid_parameter(&digest),
	};

	chash_definition_digest(definition, &digest);
	if (chash_execute_own(
			catalog,
			"INSERT INTO @chash_rings (ring, placement, hash, vnodes, partitions,"
			" hash_tags, replicas, epoch, fingerprint, digest)"
			" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
			parameters, lengthof(parameters)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("ring \"%s\" already exists", ring->ring),
				 errhint("Drop it first with chash_drop_ring, or choose another name.")));
}

void
chash_change_create(const ChashCatalog *catalog, ChashDefinition *definition)
{
	ChashDefinition empty = {0};
	ChashSpec spec;
	ChashTouched *touched;

	chash_definition_spec(definition, &spec);
	chash_definition_check(definition, &spec);
	definition->ring.fingerprint = chash_definition_fingerprint(definition);
	for (uint32 i = 0; i < definition->count; i++)
		definition->nodes[i].epoch = definition->ring.epoch;

	/* Locked, so that nobody restores rows of that ring after the check. */
	(void) chash_catalog_prepare_write(catalog);
	chash_change_check_new(catalog, definition->ring.ring);

	/* What triggers of the owner do to it meanwhile comes after it. */
	chash_change_open();
	touched =
		chash_touched_make(definition->ring.ring, CHASH_TOUCH_RESTORED, chash_statements_open());
	touched->before = *definition;
	touched->after = definition;
	chash_touched_add(touched);
	insert_ring(catalog, definition);
	chash_write_nodes(catalog, &empty, definition);
	chash_change_close(catalog);
	chash_change_created(catalog, definition->ring.ring);
}

void
chash_change_drop(const ChashCatalog *catalog, const char *ring)
{
	ChashParameter parameter = chash_text_parameter(ring);

	chash_catalog_check_snapshot(catalog);
	if (chash_execute(catalog, "DELETE FROM @chash_rings WHERE ring = $1", &parameter, 1) == 0)
		chash_report_unknown_ring(ring);
}

int64
chash_change_prune(const ChashCatalog *catalog, const char *ring, int64 keep)
{
	ChashParameter parameters[2] = {chash_text_parameter(ring)};
	ChashRingRow row;
	int64 history_from;

	if (keep < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of epochs to keep cannot be negative: %lld", (long long) keep),
				 errhint("With 0, only the present epoch is kept.")));
	chash_catalog_check_snapshot(catalog);
	if (chash_execute(catalog, "SELECT FROM @chash_rings WHERE ring = $1 FOR NO KEY UPDATE",
					  parameters, 1) == 0 ||
		!chash_change_fetch_now(catalog, ring, &row))
		chash_report_unknown_ring(ring);
	chash_change_check_home(catalog, &row);

	history_from = Max(row.history_from, keep < row.epoch ? row.epoch - keep : 1);
	if (history_from == row.history_from)
		return 0;
	parameters[1] = chash_bigint_parameter(history_from);
	chash_execute_own(catalog, "UPDATE @chash_rings SET history_from = $2 WHERE ring = $1",
					  parameters, 2);
	chash_execute_own(catalog, "DELETE FROM @chash_node_history WHERE ring = $1 AND to_epoch <= $2",
					  parameters, 2);
	return history_from - row.history_from;
}
