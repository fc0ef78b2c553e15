/*
 * touch.c
 *		Before the first row of a ring changes: the ring is locked, and what it was is
 *		kept.
 *
 * See settle.c for the whole road.
 */
#include "change.h"

#include "../store/subscription.h"
#include "execute.h"
#include "present.h"
#include "statements.h"
#include "write.h"

#include "commands/trigger.h"
#include "replication/logicalworker.h"
#include "utils/memutils.h"

bool
chash_is_replica(void)
{
	return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
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
	ChashTouched *touched;
	ChashParameter parameter = chash_text_parameter(ring);

	chash_catalog_check_snapshot(catalog);
	if (chash_execute(catalog, "SELECT FROM @chash_rings WHERE ring = $1 FOR NO KEY UPDATE",
					  &parameter, 1) == 0)
		return NULL;
	touched = load_before(catalog, ring, CHASH_TOUCH_CHANGED);
	chash_change_check_home(catalog, &touched->before.ring);
	return touched;
}

const ChashDefinition *
chash_change_touch(const ChashCatalog *catalog, const char *ring, ChashTouch touch)
{
	ChashTouched *touched = chash_touched_held(ring);

	if (touched != NULL)
	{
		touched->disturbed = true;
		if (touch < touched->touch)
			(void) chash_write_mark(catalog, ring, touch); /* history may have come */
		if (touch > touched->touch)
		{
			/* Rows were put in before; now somebody makes a change. */
			chash_change_check_home(catalog, &touched->before.ring);
			(void) chash_write_mark(catalog, ring, touch);
			touched->touch = touch;
		}
		return &touched->before;
	}
	if (touch == CHASH_TOUCH_CHANGED)
	{
		touched = chash_change_lock(catalog, ring);
		if (touched == NULL)
			return NULL;
		(void) chash_write_mark(catalog, ring, touch);
	}
	else
	{
		if (!chash_write_mark(catalog, ring, touch))
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
	if (nodes && (!row.own || row.has_digest))
		(void) chash_write_mark(catalog, ring, CHASH_TOUCH_REPLICATED);
	else if (!nodes && chash_touched_find(ring) == NULL)
		(void) chash_write_mark(catalog, ring, CHASH_TOUCH_RESTORED);
	chash_change_note_replicated(ring);
	return true;
}

const ChashDefinition *
chash_change_touch_row(const ChashCatalog *catalog, const char *ring)
{
	ChashTouched *touched = chash_touched_held(ring);

	if (touched == NULL || touched->touch != CHASH_TOUCH_CHANGED)
	{
		chash_catalog_check_snapshot(catalog);
		touched = load_before(catalog, ring, CHASH_TOUCH_CHANGED);
		chash_change_check_home(catalog, &touched->before.ring);
		chash_touched_add(touched);
	}
	touched->disturbed = true;
	return &touched->before;
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
	ChashRingRow row;
	ChashTouched *touched;

	/* The statement may have taken the name again: then there were no rows to go. */
	if (chash_change_fetch_now(catalog, ring, &row))
	{
		if (old == NULL)
			return;
		touched = load_before(catalog, ring, CHASH_TOUCH_CHANGED);
		touched->statement = old->statement;
		chash_touched_add(touched);
		return;
	}
	chash_write_removal(catalog, ring);
	if (old != NULL && !old->dropped)
	{
		/* An entry of its own, which is rolled back with the drop. */
		touched = chash_touched_make(ring, CHASH_TOUCH_CHANGED, old->statement);
		touched->dropped = true;
		chash_touched_add(touched);
	}
}
