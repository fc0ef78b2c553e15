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
 *	   what the ring was before is kept in memory, and its digest is taken away, so
 *	   that nobody takes the ring for settled.
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
 * Two things are remembered from one row to the next, both for the transaction only
 * and both rolled back with subtransactions:
 *
 *	- open_statements: the nest level at which each open statement began.  Without it
 *	  nobody knew when an outer statement is still writing.
 *	- touched: the rings that open statements have touched, and what these were before.
 *	  Without it an epoch could be told only from marks on rows, and those of deleted
 *	  nodes are gone.
 *
 * (A third one, execute.c's, lasts for a statement of chash's own: who fires a trigger.)
 */
#include "change.h"

#include "../cache/cache.h"
#include "../store/subscription.h"
#include "../store/values.h"
#include "difference.h"
#include "execute.h"
#include "present.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "utils/memutils.h"

/* A ring that an open statement has touched. */
typedef struct Touched
{
	char *ring;
	int statement; /* how many were open */
	int level;	   /* nest level of the (sub)transaction */
	ChashTouch touch;
	bool dropped;				  /* meanwhile */
	bool disturbed;				  /* touched again since it was last looked at */
	ChashDefinition before;		  /* settled; the row alone of a replicated ring */
	const ChashDefinition *after; /* what chash has made of it, or NULL */
	MemoryContext context;		  /* holds all of this */
} Touched;

/* Nest levels; lives in TopTransactionContext, as do the next ones. */
static List *open_statements = NIL;

/* Rings touched; of two entries for one ring, the later counts. */
static List *touched_rings = NIL;

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
	return open_statements != NIL;
}

void
chash_change_open(void)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);

	open_statements = lappend_int(open_statements, GetCurrentTransactionNestLevel());
	MemoryContextSwitchTo(caller);
	chash_cache_hold(list_length(open_statements));
}

/* The latest entry of a ring, or NULL. */
static Touched *
find_touched(const char *ring)
{
	for (int i = list_length(touched_rings); i-- > 0;)
	{
		Touched *touched = list_nth(touched_rings, i);

		if (strcmp(touched->ring, ring) == 0)
			return touched;
	}
	return NULL;
}

static Touched *
make_touched(const char *ring, ChashTouch touch)
{
	MemoryContext context =
		AllocSetContextCreate(TopTransactionContext, "chash change", ALLOCSET_SMALL_SIZES);
	Touched *touched = MemoryContextAllocZero(context, sizeof(Touched));

	touched->context = context;
	touched->ring = MemoryContextStrdup(context, ring);
	touched->statement = list_length(open_statements);
	touched->level = GetCurrentTransactionNestLevel();
	touched->touch = touch;
	return touched;
}

static void
add_touched(Touched *touched)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);

	touched_rings = lappend(touched_rings, touched);
	MemoryContextSwitchTo(caller);
}

/* Forgets all entries of a ring that were made for statements from that number on. */
static void
forget_touched(const char *name, int statement)
{
	char *ring = pstrdup(name);
	ListCell *cell;

	foreach(cell, touched_rings)
	{
		Touched *touched = lfirst(cell);

		if (touched->statement < statement || strcmp(touched->ring, ring) != 0)
			continue;
		touched_rings = foreach_delete_current(touched_rings, cell);
		MemoryContextDelete(touched->context);
	}
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

/*
 * Marks the row of a ring, which locks it until the end of the transaction: it has
 * no digest while it is being changed, and another stamp once its rows are others.
 * False if there is no such ring.
 */
static bool
mark(const ChashCatalog *catalog, const char *ring, ChashTouch touch)
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
static Touched *
load_before(const ChashCatalog *catalog, const char *ring, ChashTouch touch)
{
	Touched *touched = make_touched(ring, touch);
	MemoryContext caller = MemoryContextSwitchTo(touched->context);

	if (!chash_change_load_now(catalog, ring, &touched->before))
		elog(ERROR, "ring \"%s\" has vanished while being changed", ring);
	MemoryContextSwitchTo(caller);
	return touched;
}

/* Locks the row of a ring, and keeps what the ring is; NULL if there is no such ring. */
static Touched *
lock_ring(const ChashCatalog *catalog, const char *ring)
{
	ChashParameter parameter = chash_text_parameter(ring);

	if (chash_execute(catalog, "SELECT FROM @chash_rings WHERE ring = $1 FOR NO KEY UPDATE",
					  &parameter, 1) == 0)
		return NULL;
	chash_catalog_check_snapshot(catalog);
	return load_before(catalog, ring, CHASH_TOUCH_CHANGED);
}

const ChashDefinition *
chash_change_touch(const ChashCatalog *catalog, const char *ring, ChashTouch touch)
{
	Touched *touched = find_touched(ring);

	if (touched != NULL && !touched->dropped)
	{
		touched->disturbed = true;
		if (touch > touched->touch)
		{
			/* Rows were put in before; now somebody makes a change. */
			chash_change_check_home(catalog, &touched->before.ring);
			(void) mark(catalog, ring, touch);
			touched->touch = touch;
		}
		return &touched->before;
	}
	if (touch == CHASH_TOUCH_CHANGED)
	{
		touched = lock_ring(catalog, ring);
		if (touched == NULL)
			return NULL;
		chash_change_check_home(catalog, &touched->before.ring);
		(void) mark(catalog, ring, touch);
	}
	else
	{
		if (!mark(catalog, ring, touch))
			return NULL;
		touched = load_before(catalog, ring, touch);
	}
	add_touched(touched);
	return &touched->before;
}

void
chash_change_note_replicated(const char *ring)
{
	Touched *touched;

	if (find_touched(ring) != NULL)
		return;
	touched = make_touched(ring, CHASH_TOUCH_REPLICATED);
	touched->statement = 0;
	add_touched(touched);
}

bool
chash_change_touch_replicated(const ChashCatalog *catalog, const char *ring, bool nodes)
{
	ChashRingRow row;

	if (!chash_change_fetch_now(catalog, ring, &row))
		return false;

	/* The ring's row, with its digest, comes behind the nodes; not always behind history. */
	if (!nodes)
		(void) mark(catalog, ring, CHASH_TOUCH_RESTORED);
	else if (!row.own || row.has_digest)
		(void) mark(catalog, ring, CHASH_TOUCH_REPLICATED);
	chash_change_note_replicated(ring);
	return true;
}

const ChashDefinition *
chash_change_touch_row(const ChashCatalog *catalog, const char *ring)
{
	Touched *touched = find_touched(ring);

	if (touched == NULL || touched->dropped || touched->touch != CHASH_TOUCH_CHANGED)
	{
		chash_catalog_check_snapshot(catalog);
		touched = load_before(catalog, ring, CHASH_TOUCH_CHANGED);
		chash_change_check_home(catalog, &touched->before.ring);
		add_touched(touched);
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
	Touched *old = find_touched(ring);
	Touched *touched;

	/* Only if a statement still has to do with the one of that name that was dropped. */
	if (old == NULL || !old->dropped)
		return;
	touched = load_before(catalog, ring, CHASH_TOUCH_CHANGED);
	touched->statement = old->statement;
	add_touched(touched);
}

void
chash_change_dropped(const ChashCatalog *catalog, const char *ring)
{
	Touched *old = find_touched(ring);

	remove_rows(catalog, ring);
	if (old != NULL && !old->dropped)
	{
		/* An entry of its own, which is rolled back with the drop. */
		Touched *touched = make_touched(ring, CHASH_TOUCH_CHANGED);

		touched->statement = old->statement;
		touched->dropped = true;
		add_touched(touched);
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

/* Completes what was done to a ring; `others`: triggers of the owner may have changed it. */
static void
settle(const ChashCatalog *catalog, Touched *touched, bool others)
{
	const ChashDefinition *before = &touched->before;
	bool known = touched->after != NULL && !touched->disturbed && !others;
	ChashDefinition stored;
	ChashDefinition *after = palloc(sizeof(ChashDefinition));
	bool different = true;

	touched->disturbed = false;
	if (known && touched->touch != CHASH_TOUCH_CHANGED)
		return;
	if (known)
		*after = *touched->after;
	else
	{
		if (!chash_change_load_now(catalog, touched->ring, &stored))
			return;
		chash_difference_check_restored(before, &stored);
		if (touched->touch != CHASH_TOUCH_CHANGED)
			return;
		chash_definition_copy(&stored, after);
		different = chash_difference_complete(before, after);
	}
	after->ring.fingerprint = chash_definition_fingerprint(after);
	different |= strcmp(after->ring.fingerprint, before->ring.fingerprint) != 0;
	if (!different)
	{
		chash_difference_restore_digest(catalog, before);
		return;
	}
	after->ring.epoch = before->ring.epoch + 1;
	if (!known)
		chash_difference_write_nodes(catalog, &stored, after);
	chash_difference_write_ring(catalog, after,
								chash_difference_write_history(catalog, before, after));

	/* Should a trigger of the owner have changed it again meanwhile. */
	touched->after = NULL;
	touched->before = *after;
}

/* Of the rings that statements from that number on have touched, the first by name; or NULL. */
static Touched *
first_touched(int statement)
{
	const Touched *first = NULL;
	ListCell *cell;

	foreach(cell, touched_rings)
	{
		const Touched *touched = lfirst(cell);

		if (touched->statement >= statement &&
			(first == NULL || strcmp(touched->ring, first->ring) < 0))
			first = touched;
	}
	return first == NULL ? NULL : find_touched(first->ring);
}

void
chash_change_close(const ChashCatalog *catalog)
{
	int statement = list_length(open_statements);
	MemoryContext context;
	MemoryContext caller;
	Touched *touched;
	bool others;

	if (touched_rings != NIL && first_touched(statement) != NULL)
	{
		others = chash_catalog_prepare_write(catalog);
		context =
			AllocSetContextCreate(CurrentMemoryContext, "chash settle", ALLOCSET_DEFAULT_SIZES);
		caller = MemoryContextSwitchTo(context);
		while ((touched = first_touched(statement)) != NULL)
		{
			char *ring = touched->ring;

			CHECK_FOR_INTERRUPTS();
			if (touched->dropped)
				settle_dropped(catalog, ring);
			else
				settle(catalog, touched, others);
			if (find_touched(ring) == touched && !touched->disturbed)
				forget_touched(ring, statement);
		}
		MemoryContextSwitchTo(caller);
		MemoryContextDelete(context);
	}
	open_statements = list_truncate(open_statements, Max(statement - 1, 0));
	chash_cache_hold(list_length(open_statements));
}

/* ----------------------------------------------------------------
 * Changes by functions
 * ----------------------------------------------------------------
 */

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
	Touched *touched = find_touched(ring);
	bool first = touched == NULL || touched->dropped;
	ChashDefinition stored;
	ChashDefinition after;
	int64 epoch;

	/* Everything is checked before anything is written. */
	if (first)
		touched = lock_ring(catalog, ring);
	if (touched == NULL)
		chash_report_unknown_ring(ring);
	chash_change_check_home(catalog, &touched->before.ring);
	epoch = touched->before.ring.epoch;
	check_epoch_is(&touched->before.ring, if_epoch);
	if (first)
		stored = touched->before;
	else if (!chash_change_load_now(catalog, ring, &stored))
		chash_report_unknown_ring(ring);
	stored.ring.epoch = epoch;
	chash_definition_copy(&stored, &after);
	chash_definition_change(&after, changes, count);
	if (!chash_difference_complete(&stored, &after))
	{
		if (first)
			MemoryContextDelete(touched->context);
		return epoch;
	}

	chash_change_open();
	if (first)
	{
		touched->statement = list_length(open_statements);
		touched->after = &after;
		add_touched(touched);
		(void) mark(catalog, ring, CHASH_TOUCH_CHANGED);
	}
	else
	{
		/* A part of what the statement that touched it does. */
		(void) chash_change_touch(catalog, ring, CHASH_TOUCH_CHANGED);
	}
	chash_difference_write_nodes(catalog, &stored, &after);
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
	Touched *touched;

	chash_definition_spec(definition, &spec);
	chash_definition_check(definition, &spec);
	definition->ring.fingerprint = chash_definition_fingerprint(definition);
	for (uint32 i = 0; i < definition->count; i++)
		definition->nodes[i].epoch = definition->ring.epoch;

	/* Locked, so that nobody restores rows of that ring after the check. */
	(void) chash_catalog_prepare_write(catalog);
	chash_change_check_new(catalog, definition->ring.ring);

	chash_change_open();
	insert_ring(catalog, definition);
	touched = make_touched(definition->ring.ring, CHASH_TOUCH_RESTORED);
	touched->before = *definition;
	touched->after = definition;
	add_touched(touched);
	chash_difference_write_nodes(catalog, &empty, definition);
	chash_change_close(catalog);
	chash_change_created(catalog, definition->ring.ring);
}

void
chash_change_drop(const ChashCatalog *catalog, const char *ring)
{
	ChashParameter parameter = chash_text_parameter(ring);

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
	if (chash_execute(catalog, "SELECT FROM @chash_rings WHERE ring = $1 FOR NO KEY UPDATE",
					  parameters, 1) == 0 ||
		!chash_change_fetch_now(catalog, ring, &row))
		chash_report_unknown_ring(ring);
	chash_catalog_check_snapshot(catalog);
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
before_end(void)
{
	ListCell *cell;

	foreach(cell, touched_rings)
	{
		Touched *touched = lfirst(cell);

		if (touched->touch == CHASH_TOUCH_CHANGED)
			elog(ERROR, "change of ring \"%s\" is not complete", touched->ring);
		if (touched->touch == CHASH_TOUCH_REPLICATED && IsLogicalWorker())
			check_replicated(chash_catalog_known(), touched->ring);
	}
}

static void
transaction_ended(XactEvent event, void *argument)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			before_end();
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			break;
		default:
			/* Their memory goes with the transaction. */
			open_statements = NIL;
			touched_rings = NIL;
			chash_cache_hold(0);
			break;
	}
}

static void
subtransaction_ended(SubXactEvent event, SubTransactionId subtransaction, SubTransactionId parent,
					 void *argument)
{
	int level = GetCurrentTransactionNestLevel();
	ListCell *cell;

	if (event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	foreach(cell, touched_rings)
	{
		Touched *touched = lfirst(cell);

		if (touched->level < level)
			continue;
		touched->level = level - 1;
		if (event == SUBXACT_EVENT_ABORT_SUB)
		{
			touched_rings = foreach_delete_current(touched_rings, cell);
			MemoryContextDelete(touched->context);
		}
	}
	foreach(cell, open_statements)
	{
		if (lfirst_int(cell) < level)
			continue;
		lfirst_int(cell) = level - 1;
		if (event == SUBXACT_EVENT_ABORT_SUB)
			open_statements = foreach_delete_current(open_statements, cell);
	}
	chash_cache_hold(list_length(open_statements));
}

void
chash_change_init(void)
{
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}
