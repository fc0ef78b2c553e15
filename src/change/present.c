/*
 * present.c
 *		Rings as of this moment, and what has happened that a snapshot does not see.
 *
 * A transaction that keeps its snapshot must not change what others have changed since:
 * it would write the difference from a ring that is gone.  Where others have updated the
 * ring's row, PostgreSQL itself refuses.  The other cases are here.
 */
#include "present.h"

#include "../store/definition.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

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
chash_change_fetch_now(const ChashCatalog *catalog, const char *ring, ChashRingRow *row)
{
	bool found;

	push_present_snapshot();
	found = chash_catalog_fetch_ring(catalog, ring, GetActiveSnapshot(), row);
	PopActiveSnapshot();
	return found;
}

bool
chash_change_load_now(const ChashCatalog *catalog, const char *ring, ChashDefinition *definition)
{
	bool found;

	push_present_snapshot();
	found = chash_definition_load(catalog, ring, GetActiveSnapshot(), CHASH_NOW, definition);
	PopActiveSnapshot();
	return found;
}

void
chash_change_await(const ChashCatalog *catalog)
{
	LockRelationOid(catalog->rings, ShareRowExclusiveLock);
}

void
chash_change_check_absent(const ChashCatalog *catalog, const char *ring)
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
count_row(Datum *values, bool *nulls, void *count)
{
	(*(uint64 *) count)++;
}

/* How many nodes of a ring there are, with those of its history, by a snapshot. */
static uint64
count_rows(const ChashCatalog *catalog, const char *ring, Snapshot snapshot)
{
	uint64 count = 0;

	PushActiveSnapshot(snapshot);
	chash_catalog_scan(catalog, catalog->nodes, ring, GetActiveSnapshot(), count_row, &count);
	chash_catalog_scan(catalog, catalog->history, ring, GetActiveSnapshot(), count_row, &count);
	PopActiveSnapshot();
	return count;
}

void
chash_change_check_new(const ChashCatalog *catalog, const char *ring)
{
	ChashRingRow row;
	bool exists;

	chash_catalog_check_snapshot(catalog);

	/* As of now, even where the transaction's snapshot is older. */
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	exists = chash_catalog_fetch_ring(catalog, ring, GetActiveSnapshot(), &row);
	PopActiveSnapshot();
	if (!exists && count_rows(catalog, ring, GetLatestSnapshot()) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there are nodes of a ring \"%s\" already", ring),
				 errdetail("They were restored without their ring."),
				 errhint("Restore table chash_rings too, or delete them from chash_nodes and chash_node_history.")));
}

void
chash_change_check_created(const ChashCatalog *catalog, const char *ring)
{
	uint64 rings = 0;

	if (!IsolationUsesXactSnapshot())
		return;
	chash_catalog_check_snapshot(catalog);
	push_present_snapshot();
	chash_catalog_scan(catalog, catalog->rings, ring, GetActiveSnapshot(), count_row, &rings);
	PopActiveSnapshot();
	if (rings > 1 || count_rows(catalog, ring, GetTransactionSnapshot()) >
						 count_rows(catalog, ring, GetLatestSnapshot()))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a ring \"%s\" has been dropped since the transaction began", ring),
				 errhint("Repeat the transaction.")));
}

/* Has a table rows that the transaction's snapshot does not see, though they are there? */
static bool
has_unseen_rows(Oid table_oid)
{
	Relation table = table_open(table_oid, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(table, NULL);
	TableScanDesc scan = table_beginscan_strat(table, GetActiveSnapshot(), 0, NULL, true, true);
	bool found = false;

	while (!found && table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		found = !table_tuple_satisfies_snapshot(table, slot, GetTransactionSnapshot());
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(table, NoLock);
	return found;
}

void
chash_change_check_truncate(const ChashCatalog *catalog)
{
	const Oid tables[] = {catalog->rings, catalog->nodes, catalog->history};
	bool found = false;

	if (!IsolationUsesXactSnapshot())
		return;
	chash_catalog_check_snapshot(catalog);
	PushActiveSnapshot(GetLatestSnapshot());
	for (int i = 0; i < (int) lengthof(tables) && !found; i++)
		found = has_unseen_rows(tables[i]);
	PopActiveSnapshot();
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("rings have been changed since the transaction began"),
				 errdetail("TRUNCATE would remove rows that the transaction does not see."),
				 errhint("Repeat the transaction.")));
}
