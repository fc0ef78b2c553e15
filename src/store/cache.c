/*
 * cache.c
 *		Built rings, and which of them a snapshot sees.
 *
 * A lookup must answer as a query over the tables would under the snapshot of
 * the calling statement.  So it is the snapshot that is asked, not a message:
 *
 * - Every row of chash_rings has a stamp, its column `version`: a random UUID
 *   that triggers replace before the first row of a ring changes and again
 *   when the change is complete (see change.c).  No stamp is used twice, so
 *   an epoch 6 that was rolled back and another epoch 6 never meet.
 *
 * - Built rings are kept by name and stamp.  The first lookup under a snapshot
 *   reads the ring's row under that snapshot, which takes about a microsecond,
 *   and uses the built ring with the stamp found there, or builds one from rows
 *   read under the same snapshot.
 *
 * - Further lookups under a snapshot that sees the same skip the look.  Within
 *   a transaction, two snapshots with the same xmin, xmax, running transactions
 *   and command counter see the same of what others did.  (Their running
 *   subtransactions need not be compared: one whose transaction runs in both
 *   is invisible in both.  In recovery, where subtransactions are all there is,
 *   numbers do: below one xmax they can only become fewer.)
 *
 * - What the transaction did itself is covered by the command counter, but for
 *   two cases.  A subtransaction that is rolled back spoils the mark.  And a
 *   statement may still be writing rows while functions that it calls look at
 *   them, each under the same command counter: from the first BEFORE ROW
 *   trigger to the end of the statement every lookup takes a look, and what it
 *   builds from a stamp that it has not seen before is not kept.  Nor is what is
 *   built later under a snapshot that was taken meanwhile (by a cursor).
 *
 * What follows from that, event by event:
 *
 * commit by another		seen by the first statement whose snapshot has it,
 *							however late invalidation messages come: they are
 *							sent after the commit has become visible
 * REPEATABLE READ			the snapshot keeps showing the old stamp; the next
 *							transaction's snapshot shows the new one
 * own change				the command counter moves, the row has a new stamp
 * ROLLBACK, ROLLBACK TO	the old stamp is back, and with it what was built
 *							for it; what was built for the lost stamp is never
 *							asked for again
 * half-done change			has a stamp of its own, and what is built from it is
 *							not kept
 * two-phase commit,		nothing special: rows become visible, or not
 * hot standby, replication
 * PL/pgSQL loops			compare the snapshot at each call, whatever fn_extra
 *							has kept
 * parallel query			a worker has the leader's snapshot and transaction,
 *							and builds its own
 * DROP EXTENSION			the tables' OIDs are found again (catalog.c)
 *
 * Relcache invalidations of the tables are needed for two things only: TRUNCATE,
 * which no snapshot is safe from, and tables whose triggers are switched off
 * (pg_restore --disable-triggers), so that a stamp stays while rows change;
 * what is built meanwhile is not kept.  They make everything unpinned be thrown
 * away at the next look, not at once: their callback may run at any moment, also
 * while a ring is being built.
 *
 * Built rings are freed only inside chash_cache_get, never while pinned.  Names
 * of nodes, which lookups return as they are, live as long as the backend: they
 * can be in anybody's hands.  There are only as many as the backend has met nodes.
 */
#include "cache.h"

#include "definition.h"
#include "values.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

ChashSnapshotMark chash_snapshot_mark;
TransactionId *chash_snapshot_running = NULL;
uint64 chash_snapshot_serial = 1;
uint64 chash_cache_generation = 1;
uint64 chash_cache_looks = 0;
int chash_local_cache_size = 65536;

static MemoryContext cache_context = NULL;
static dlist_head cached_rings = DLIST_STATIC_INIT(cached_rings);

/* The count of invalidations up to which the cache has been cleaned. */
static uint64 cleaned_at = 0;

/* Room at chash_snapshot_running. */
static uint32 running_capacity = 0;

/* Are rows on their way into a table, and since which subtransaction level? */
static bool holding = false;
static int holding_level = 0;

/*
 * Snapshots of this transaction up to that command may have been taken while
 * rows were on their way; 0: none.
 */
static CommandId noisy_until = 0;

/* All node names that were ever returned, by their text. */
static HTAB *known_names = NULL;

/* No snapshot has xmax 0. */
static void
spoil_snapshot_mark(void)
{
	chash_snapshot_mark.xmax = InvalidTransactionId;
	chash_snapshot_serial++;
}

void
chash_cache_hold(void)
{
	int level = GetCurrentTransactionNestLevel();

	if (!holding || level < holding_level)
		holding_level = level;
	holding = true;
	spoil_snapshot_mark();
}

void
chash_cache_release(void)
{
	holding = false;

	/* Using the command counter up makes the snapshots from now on differ. */
	noisy_until = GetCurrentCommandId(true);
	spoil_snapshot_mark();
}

static void
transaction_ended(XactEvent event, void *argument)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
	{
		holding = false;
		noisy_until = 0;
	}
	spoil_snapshot_mark();
}

static void
subtransaction_ended(SubXactEvent event, SubTransactionId subtransaction, SubTransactionId parent,
					 void *argument)
{
	int level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		/* The statement that was writing has failed, unless it is an outer one. */
		if (holding_level >= level)
			holding = false;
		spoil_snapshot_mark();
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB && holding_level >= level)
		holding_level = level - 1;
}

static uint32
hash_name(const void *key, Size size)
{
	const text *name = *(const text *const *) key;

	return hash_bytes((const unsigned char *) VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
}

static int
match_names(const void *a, const void *b, Size size)
{
	const text *left = *(const text *const *) a;
	const text *right = *(const text *const *) b;

	if (VARSIZE_ANY_EXHDR(left) != VARSIZE_ANY_EXHDR(right))
		return 1;
	return memcmp(VARDATA_ANY(left), VARDATA_ANY(right), VARSIZE_ANY_EXHDR(left));
}

void
chash_cache_init(void)
{
	HASHCTL control = {
		.keysize = sizeof(text *),
		.entrysize = sizeof(text *),
		.hash = hash_name,
		.match = match_names,
	};

	cache_context = AllocSetContextCreate(TopMemoryContext, "chash rings", ALLOCSET_SMALL_SIZES);
	control.hcxt = cache_context;
	known_names = hash_create("chash node names", 64, &control,
							  HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}

Datum
chash_cache_make_name(ChashCachedRing *cached, uint32 node)
{
	const ChashRingNode *entry = &chash_ring_nodes(cached->ring)[node];
	text *name =
		cstring_to_text(chash_from_utf8(chash_ring_name(cached->ring, node), entry->name_length));
	text **known = hash_search(known_names, &name, HASH_FIND, NULL);

	if (known == NULL)
	{
		text *kept = MemoryContextAlloc(cache_context, VARSIZE(name));

		memcpy(kept, name, VARSIZE(name));
		known = hash_search(known_names, &kept, HASH_ENTER, NULL);
	}
	cached->names[node] = PointerGetDatum(*known);
	return cached->names[node];
}

static void
forget(ChashCachedRing *cached)
{
	dlist_delete(&cached->link);
	chash_cache_generation++;
	MemoryContextDelete(cached->context);
}

/* Frees what invalidations have made doubtful. */
static void
clean(void)
{
	dlist_mutable_iter iter;
	uint64 now = chash_catalog_invalidations();

	if (cleaned_at == now)
		return;
	dlist_foreach_modify(iter, &cached_rings)
	{
		ChashCachedRing *cached = dlist_container(ChashCachedRing, link, iter.cur);

		if (cached->pins == 0)
			forget(cached);
		else
			memset(&cached->version, 0, sizeof(cached->version)); /* nobody's stamp */
	}
	cleaned_at = now;
	spoil_snapshot_mark();
}

/*
 * Makes room after `latest` was built: of the same ring, one other version may
 * stay for those who change back and forth between two snapshots; of all, what
 * was used longest ago has to go.
 */
static void
make_room(const ChashCachedRing *latest)
{
	dlist_mutable_iter iter;
	pg_uuid_t kept = latest->version;
	const pg_uuid_t nobody = {{0}};
	bool one_kept = false;
	Size size = 0;

	dlist_foreach_modify(iter, &cached_rings)
	{
		ChashCachedRing *cached = dlist_container(ChashCachedRing, link, iter.cur);
		bool useless = memcmp(&cached->version, &nobody, sizeof(pg_uuid_t)) == 0;

		if (strcmp(cached->name, latest->name) == 0 &&
			memcmp(&cached->version, &latest->version, sizeof(pg_uuid_t)) != 0)
		{
			useless |= one_kept && memcmp(&cached->version, &kept, sizeof(pg_uuid_t)) != 0;
			if (!one_kept && !useless)
			{
				kept = cached->version;
				one_kept = true;
			}
		}
		size += cached->size;
		if (cached == latest || cached->pins > 0)
			continue;
		if (useless || size > (Size) chash_local_cache_size * 1024)
		{
			size -= cached->size;
			forget(cached);
		}
	}
}

/* Notes the active snapshot, with a new serial number if it may see other things. */
static void
note_snapshot(Snapshot snapshot)
{
	if (chash_snapshot_same())
		return;
	spoil_snapshot_mark();
	if (holding)
		return;
	if (snapshot->xcnt > running_capacity)
	{
		if (chash_snapshot_running == NULL)
			chash_snapshot_running =
				MemoryContextAlloc(cache_context, snapshot->xcnt * sizeof(TransactionId));
		else
			chash_snapshot_running =
				repalloc(chash_snapshot_running, snapshot->xcnt * sizeof(TransactionId));
		running_capacity = snapshot->xcnt;
	}
	if (snapshot->xcnt > 0)
		memcpy(chash_snapshot_running, snapshot->xip, snapshot->xcnt * sizeof(TransactionId));
	chash_snapshot_mark.xmin = snapshot->xmin;
	chash_snapshot_mark.xmax = snapshot->xmax;
	chash_snapshot_mark.xcnt = snapshot->xcnt;
	chash_snapshot_mark.subxcnt = snapshot->subxcnt;
	chash_snapshot_mark.curcid = snapshot->curcid;
	chash_snapshot_mark.suboverflowed = snapshot->suboverflowed;
	chash_snapshot_mark.takenDuringRecovery = snapshot->takenDuringRecovery;
}

/* Finds a cached ring; one that is confirmed, or one with that stamp. */
static ChashCachedRing *
find(const char *name, int64 as_of, const pg_uuid_t *version)
{
	dlist_iter iter;

	dlist_foreach(iter, &cached_rings)
	{
		ChashCachedRing *cached = dlist_container(ChashCachedRing, link, iter.cur);

		if (cached->as_of != as_of || strcmp(cached->name, name) != 0)
			continue;
		if (version == NULL ? cached->confirmed == chash_snapshot_serial
							: memcmp(&cached->version, version, sizeof(pg_uuid_t)) == 0)
			return cached;
	}
	return NULL;
}

/*
 * Builds a version of a ring.  Its memory hangs below the caller's until all
 * is done, so that an error leaves nothing behind.
 */
static ChashCachedRing *
build(const ChashCatalog *catalog, const char *name, int64 as_of, Snapshot snapshot)
{
	MemoryContext working =
		AllocSetContextCreate(CurrentMemoryContext, "chash build", ALLOCSET_DEFAULT_SIZES);
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "chash ring", ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(working);
	ChashDefinition definition;
	ChashCachedRing *cached;
	const ChashRing *ring;

	if (!chash_definition_load(catalog, name, snapshot, as_of, &definition))
		elog(ERROR, "ring \"%s\" has vanished while being read", name);
	MemoryContextSwitchTo(context);
	cached = palloc0(sizeof(ChashCachedRing));
	cached->context = context;
	cached->name = pstrdup(name);
	cached->as_of = as_of;
	cached->version = definition.ring.version;
	cached->hash = definition.ring.hash;
	cached->hash_tags = definition.ring.hash_tags;
	cached->replicas = definition.ring.replicas;
	cached->epoch = as_of != CHASH_NOW ? as_of : definition.ring.epoch;

	MemoryContextSwitchTo(working);
	ring = chash_definition_build(&definition);
	MemoryContextSwitchTo(context);
	cached->names = palloc0_array(Datum, Max(ring->node_count, 1));
	cached->ring = memcpy(MemoryContextAllocHuge(context, ring->size), ring, ring->size);
	cached->size = MemoryContextMemAllocated(context, true);

	MemoryContextSwitchTo(caller);
	MemoryContextDelete(working);
	MemoryContextSetParent(context, cache_context);
	dlist_push_head(&cached_rings, &cached->link);
	return cached;
}

ChashCachedRing *
chash_cache_get(Oid function, const char *name, int64 as_of, bool missing_ok)
{
	Snapshot snapshot = GetActiveSnapshot();
	ChashCachedRing *cached;
	const ChashCatalog *catalog;
	ChashRingRow row;

	clean();
	note_snapshot(snapshot);
	cached = find(name, as_of, NULL);
	if (cached != NULL)
		return cached;

	/*
	 * Whoever has looked keeps TRUNCATE waiting, as one who has read the tables
	 * does; and whoever has waited for it knows of it now.
	 */
	chash_cache_looks++;
	catalog = chash_catalog(function);
	LockRelationOid(catalog->rings, AccessShareLock);
	LockRelationOid(catalog->nodes, AccessShareLock);
	if (as_of != CHASH_NOW)
		LockRelationOid(catalog->history, AccessShareLock);
	clean();
	note_snapshot(snapshot);

	catalog = chash_catalog(function);
	if (!chash_catalog_fetch_ring(catalog, name, snapshot, &row))
	{
		if (missing_ok)
			return NULL;
		chash_report_unknown_ring(name);
	}
	cached = find(name, as_of, &row.version);
	if (cached == NULL)
	{
		cached = build(catalog, name, as_of, snapshot);
		if (holding || (noisy_until != 0 && snapshot->curcid <= noisy_until) ||
			!chash_catalog_triggers_enabled(catalog))
			memset(&cached->version, 0, sizeof(cached->version)); /* nobody's stamp */
		make_room(cached);
	}
	else
		dlist_move_head(&cached_rings, &cached->link);
	cached->confirmed = chash_snapshot_serial;
	return cached;
}

static void
unpin(void *argument)
{
	((ChashCachedRing *) argument)->pins--;
}

void
chash_cache_pin(ChashCachedRing *cached, MemoryContext context)
{
	MemoryContextCallback *callback = MemoryContextAlloc(context, sizeof(MemoryContextCallback));

	callback->func = unpin;
	callback->arg = cached;
	MemoryContextRegisterResetCallback(context, callback);
	cached->pins++;
}
