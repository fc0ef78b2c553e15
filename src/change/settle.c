/*
 * settle.c
 *		The road of a change: every change of a ring takes it.
 *
 * A ring is changed by statements: those of users on chash's tables, and those that
 * chash's functions stand for.  Statements nest, since functions and triggers that
 * one calls can run others.
 *
 *	1. A statement opens (chash_change_open).
 *	2. Before the first row of a ring changes, the ring is touched: its row is locked,
 *	   what the ring was before is kept in memory, and its digest is taken away, which
 *	   tells everybody that the ring is not settled.
 *	3. Rows change.
 *	4. When the statement that touched the ring first closes, the ring is settled
 *	   (settle): what it is now is compared with what it was before.  If they differ,
 *	   the difference is one epoch: rows that are not as they should be, history of
 *	   all nodes that changed or went, the ring's row with epoch, fingerprint and
 *	   digest, each written once.
 *
 * History follows from the two definitions alone, not from what the tables say at the
 * moment when some row changes.  Whatever else the statement called did to the same
 * ring belongs to the same epoch.
 *
 * Two things are remembered from one row to the next (statements.c), both for the
 * transaction only and both rolled back with subtransactions:
 *
 *	- The statements that are open.  Without them nobody would know that an outer
 *	  statement is still writing.
 *	- The rings that they have touched, and what these were before.  Without them only
 *	  marks on rows would tell what has changed, and deleted nodes leave none.
 *
 * (A third one, in execute.c, lasts for one statement of chash's own, and tells which
 * triggers that statement has fired.)
 */
#include "change.h"

#include "difference.h"
#include "present.h"
#include "statements.h"
#include "write.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "utils/memutils.h"

/* ----------------------------------------------------------------
 * Statements, and the rings that they have touched
 * ----------------------------------------------------------------
 */

bool
chash_change_is_open(void)
{
	return chash_statements_open() > 0;
}

void
chash_change_open(void)
{
	chash_statements_push();
}

/* ----------------------------------------------------------------
 * Settling
 * ----------------------------------------------------------------
 */

/* Removes rows that came after their ring had gone, and would make its name unusable. */
static void
settle_dropped(const ChashCatalog *catalog, const char *ring)
{
	ChashRingRow row;

	if (!chash_change_fetch_now(catalog, ring, &row))
		chash_write_removal(catalog, ring);
}

/*
 * Writes the difference between what a ring was and what it is to be; `others`: triggers
 * of the owner may have had a hand in it.
 */
static void
settle(const ChashCatalog *catalog, ChashTouched *touched, bool others)
{
	const ChashDefinition *before = &touched->before;
	ChashDefinition *after = palloc(sizeof(ChashDefinition));
	ChashDefinition stored;
	bool different = true;

	/* What a function makes of it is known, and written now. */
	if (touched->after != NULL)
	{
		*after = stored = *touched->after;
		if (touched->touch == CHASH_TOUCH_CHANGED)
		{
			(void) chash_write_mark(catalog, touched->ring, CHASH_TOUCH_CHANGED);
			chash_write_nodes(catalog, before, after);
		}
	}
	if (touched->after == NULL || touched->disturbed || others)
	{
		touched->disturbed = false;
		if (!chash_change_load_now(catalog, touched->ring, &stored))
			return;
		chash_difference_check_restored(before, &stored);
		chash_definition_copy(&stored, after);
		if (touched->touch == CHASH_TOUCH_CHANGED)
			different = chash_difference_complete(before, after);
	}
	touched->after = NULL;
	if (touched->touch != CHASH_TOUCH_CHANGED)
		return;

	/* Rows can have been marked with an epoch that does not come. */
	chash_write_nodes(catalog, &stored, after);
	after->ring.fingerprint = chash_definition_fingerprint(after);
	if (!different && strcmp(after->ring.fingerprint, before->ring.fingerprint) == 0)
	{
		chash_write_old_digest(catalog, before);
		return;
	}
	after->ring.epoch = before->ring.epoch + 1;
	chash_write_ring(catalog, after, chash_write_history(catalog, before, after));

	/* Should a trigger of the owner have changed it again meanwhile. */
	touched->before = *after;
}

/* Settles a ring that the statement of that number touched first. */
static void
settle_ring(const ChashCatalog *catalog, const char *ring, int statement, bool others)
{
	ChashTouched *touched;

	/* Triggers of the owner can change, drop or create it while it is being settled. */
	do
	{
		CHECK_FOR_INTERRUPTS();
		touched = chash_touched_find(ring);
		if (touched->dropped)
			settle_dropped(catalog, ring);
		else
			settle(catalog, touched, others);
	} while (chash_touched_find(ring) != touched || touched->disturbed);
	chash_touched_forget(ring, statement);
}

void
chash_change_close(const ChashCatalog *catalog)
{
	int statement = chash_statements_open();
	MemoryContext context;
	MemoryContext caller;
	uint32 count;
	char **rings;

	/* With the other trigger disabled, none was opened. */
	if (statement == 0)
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "chash settle", ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(context);
	rings = chash_touched_rings(statement, &count);
	if (count > 0)
	{
		bool others = chash_catalog_prepare_write(catalog);
		MemoryContext each = AllocSetContextCreate(context, "chash ring", ALLOCSET_DEFAULT_SIZES);

		MemoryContextSwitchTo(each);
		for (uint32 i = 0; i < count; i++)
		{
			settle_ring(catalog, rings[i], statement, others);
			MemoryContextReset(each);
		}
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	chash_statements_pop();
}

/* ----------------------------------------------------------------
 * The end of a transaction
 * ----------------------------------------------------------------
 */

/*
 * What was replicated must be what the publisher has: it says so with the digest.
 * (Not asked of the initial copy, which brings one table after the other.)
 */
static void
check_replicated(const ChashCatalog *catalog, const char *ring)
{
	ChashDefinition definition;

	if (chash_change_load_now(catalog, ring, &definition) && !chash_definition_proven(&definition))
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("nodes of ring \"%s\" do not match the ring's fingerprint after replication",
						ring),
				 errdetail("They were changed here, or not all tables of chash are replicated."),
				 errhint("Until the initial copy is complete that is to be expected. Otherwise copy the tables of chash anew.")));
}

static void
transaction_ends(XactEvent event, void *argument)
{
	uint32 count;
	char **rings;

	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE)
		return;
	if (chash_statements_open() > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a statement that changes rings was not run to its end"),
				 errdetail("It returns rows, and the function that executed it asked for only some of them, or trigger chash_after_statement is disabled."),
				 errhint("Execute it without a limit on rows.")));
	rings = chash_touched_rings(0, &count);
	for (uint32 i = 0; i < count; i++)
	{
		ChashTouch touch = chash_touched_find(rings[i])->touch;

		if (touch == CHASH_TOUCH_CHANGED)
			elog(ERROR, "change of ring \"%s\" is not complete", rings[i]);
		if (touch == CHASH_TOUCH_REPLICATED && IsLogicalWorker())
			check_replicated(chash_catalog_known(), rings[i]);
	}
}

void
chash_change_init(void)
{
	chash_statements_init();
	RegisterXactCallback(transaction_ends, NULL);
}
