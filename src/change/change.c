/*
 * change.c
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

#include "../store/subscription.h"
#include "../store/values.h"
#include "difference.h"
#include "execute.h"
#include "present.h"
#include "statements.h"
#include "write.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "utils/memutils.h"

bool
chash_is_replica(void)
{
	return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

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

void
chash_change_check_home(const ChashCatalog *catalog, const ChashRingRow *ring)
{
	if (!ring->replicated || IsLogicalWorker() || !chash_has_subscription(catalog))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("ring \"%s\" comes by subscription and cannot be changed here", ring->ring),
			 errdetail("What the publisher changes next would no longer fit."),
			 errhint("Change the ring on the publisher. If this database takes over from it, drop the subscription first.")));
}

bool
chash_change_mark(const ChashCatalog *catalog, const char *ring, ChashTouch touch)
{
	pg_uuid_t version;
	ChashParameter parameters[2] = {chash_text_parameter(ring), chash_uuid_parameter(&version)};

	if (touch == CHASH_TOUCH_CHANGED)
		return chash_execute_own(catalog, "UPDATE @chash_rings SET digest = NULL WHERE ring = $1",
								 parameters, 1) > 0;
	chash_change_new_version(&version);
	if (touch == CHASH_TOUCH_RESTORED)
		return chash_execute_own(catalog, "UPDATE @chash_rings SET version = $2 WHERE ring = $1",
								 parameters, 2) > 0;
	return chash_execute_own(catalog,
							 "UPDATE @chash_rings SET version = $2, digest = NULL WHERE ring = $1",
							 parameters, 2) > 0;
}

/* Loads what a ring is before it is changed; its row is locked. */
static ChashTouched *
load_before(const ChashCatalog *catalog, const char *ring, ChashTouch touch)
{
	ChashTouched *touched = chash_touched_make(ring, touch, chash_statements_open());
	MemoryContext caller = MemoryContextSwitchTo(touched->context);

	if (!chash_change_load_now(catalog, ring, &touched->before))
		elog(ERROR, "ring \"%s\" has vanished while being changed", ring);
	MemoryContextSwitchTo(caller);
	return touched;
}

ChashTouched *
chash_change_lock(const ChashCatalog *catalog, const char *ring)
{
	ChashParameter parameter = chash_text_parameter(ring);

	chash_catalog_check_snapshot(catalog);
	if (chash_execute(catalog, "SELECT FROM @chash_rings WHERE ring = $1 FOR NO KEY UPDATE",
					  &parameter, 1) == 0)
		return NULL;
	return load_before(catalog, ring, CHASH_TOUCH_CHANGED);
}

const ChashDefinition *
chash_change_touch(const ChashCatalog *catalog, const char *ring, ChashTouch touch)
{
	ChashTouched *touched = chash_touched_find(ring);

	if (touched != NULL && !touched->dropped)
	{
		touched->disturbed = true;
		if (touch > touched->touch)
		{
			/* Rows were put in before; now somebody makes a change. */
			chash_change_check_home(catalog, &touched->before.ring);
			(void) chash_change_mark(catalog, ring, touch);
			touched->touch = touch;
		}
		return &touched->before;
	}
	if (touch == CHASH_TOUCH_CHANGED)
	{
		touched = chash_change_lock(catalog, ring);
		if (touched == NULL)
			return NULL;
		chash_change_check_home(catalog, &touched->before.ring);
		(void) chash_change_mark(catalog, ring, touch);
	}
	else
	{
		if (!chash_change_mark(catalog, ring, touch))
			return NULL;
		touched = load_before(catalog, ring, touch);
	}
	chash_touched_add(touched);
	return &touched->before;
}

void
chash_change_note_replicated(const char *ring)
{
	ChashTouched *touched;

	if (chash_touched_find(ring) != NULL)
		return;
	touched = chash_touched_make(ring, CHASH_TOUCH_REPLICATED, 0);
	chash_touched_add(touched);
}

bool
chash_change_touch_replicated(const ChashCatalog *catalog, const char *ring, bool nodes)
{
	ChashRingRow row;

	if (!chash_change_fetch_now(catalog, ring, &row))
		return false;

	/* The ring's row, with its digest, comes behind the nodes; not always behind history. */
	if (!nodes)
		(void) chash_change_mark(catalog, ring, CHASH_TOUCH_RESTORED);
	else if (!row.own || row.has_digest)
		(void) chash_change_mark(catalog, ring, CHASH_TOUCH_REPLICATED);
	chash_change_note_replicated(ring);
	return true;
}

const ChashDefinition *
chash_change_touch_row(const ChashCatalog *catalog, const char *ring)
{
	ChashTouched *touched = chash_touched_find(ring);

	if (touched == NULL || touched->dropped || touched->touch != CHASH_TOUCH_CHANGED)
	{
		chash_catalog_check_snapshot(catalog);
		touched = load_before(catalog, ring, CHASH_TOUCH_CHANGED);
		chash_change_check_home(catalog, &touched->before.ring);
		chash_touched_add(touched);
	}
	touched->disturbed = true;
	return &touched->before;
}

static void
remove_rows(const ChashCatalog *catalog, const char *ring)
{
	ChashParameter parameter = chash_text_parameter(ring);

	chash_execute_own(catalog, "DELETE FROM @chash_nodes WHERE ring = $1", &parameter, 1);
	chash_execute_own(catalog, "DELETE FROM @chash_node_history WHERE ring = $1", &parameter, 1);
}

void
chash_change_created(const ChashCatalog *catalog, const char *ring)
{
	ChashTouched *old = chash_touched_find(ring);
	ChashTouched *touched;

	/* Only if a statement still has to do with the one of that name that was dropped. */
	if (old == NULL || !old->dropped)
		return;
	touched = load_before(catalog, ring, CHASH_TOUCH_CHANGED);
	touched->statement = old->statement;
	chash_touched_add(touched);
}

void
chash_change_dropped(const ChashCatalog *catalog, const char *ring)
{
	ChashTouched *old = chash_touched_find(ring);

	remove_rows(catalog, ring);
	if (old != NULL && !old->dropped)
	{
		/* An entry of its own, which is rolled back with the drop. */
		ChashTouched *touched = chash_touched_make(ring, CHASH_TOUCH_CHANGED, old->statement);

		touched->dropped = true;
		chash_touched_add(touched);
	}
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
		remove_rows(catalog, ring);
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
			chash_write_nodes(catalog, before, after);
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
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "chash settle", ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	uint32 count;
	char **rings = chash_touched_rings(statement, &count);

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
	Assert(chash_statements_open() == 0);
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
