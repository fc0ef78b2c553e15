/*
 * cache.c
 *		Built rings, and which of them a snapshot sees.
 *
 * A lookup must answer as a query over the tables would under the snapshot of
 * the calling statement.  So it is the snapshot that is asked, not a message:
 *
 * - Every row of chash_rings says what the ring is: by a random stamp, its column
 *   `version`, which no other ring ever had, and by the digest of all that a built
 *   ring holds.  While a statement is changing the ring there is no digest.
 *
 * - Built rings are kept by stamp and digest, and a ring is kept only if the nodes
 *   that it was built from have the digest that the row promised.  So nothing that is
 *   kept can be a mixture of versions, whatever made the snapshot see one: nodes of a
 *   dropped ring, a truncated or rewritten table, a dump that is half restored.
 *
 * - The first lookup under a snapshot reads the ring's row under that snapshot,
 *   which takes about a microsecond, and uses the built ring with the stamp and digest
 *   found there, or builds one from rows read under the same snapshot.
 *
 * - Further lookups skip the look if their snapshot sees the same.  Within
 *   a transaction, two snapshots with the same xmin, xmax, running transactions
 *   and command counter see the same of what others did.  (Their running
 *   subtransactions need not be compared: one whose transaction runs in both
 *   is invisible in both.  In recovery, where subtransactions are all there is,
 *   numbers do: below one xmax they can only become fewer.)
 *
 * - What the transaction did itself is covered by the command counter, but for
 *   two cases.  A subtransaction that is rolled back spoils the mark.  And a
 *   statement may still be writing rows while functions that it calls look at
 *   them, each under the same command counter: until it ends, every lookup takes
 *   a look.
 *
 * What follows from that, event by event:
 *
 * commit by another		seen by the first statement whose snapshot has it,
 *							however late invalidation messages come: they are
 *							sent after the commit has become visible
 * REPEATABLE READ			the snapshot keeps showing the old digest; the next
 *							transaction's snapshot shows the new one
 * own change				the command counter moves, the row has a new digest
 * ROLLBACK, ROLLBACK TO	the old digest is back, and with it what was built
 *							for it
 * half-done change			has no digest, and what is built from it is not kept
 * two-phase commit,		nothing special: rows become visible, or not
 * hot standby, replication
 * PL/pgSQL loops			compare the snapshot at each call, whatever fn_extra
 *							has kept
 * parallel query			a worker has the leader's snapshot and transaction,
 *							and builds its own
 * DROP EXTENSION			the tables' OIDs are found again (catalog.c)
 * mixture of versions		is built for each statement, with a warning: lookups
 *							say what the tables say, and chash_check_route refuses
 *
 * Past epochs are kept by the stamp and the epoch: the stamp is replaced whenever
 * something changes that past epochs are built from, but not when a node is only marked
 * down.  It is also replaced when rows are restored or replicated.
 *
 * A ring's row does not tell of two things: TRUNCATE, under an older snapshot, and
 * what somebody does to rows while the triggers are disabled.  Either begins a new
 * era (see catalog.h): rings are kept by era too, and where the rows of chash_rings
 * cannot be relied on nothing is kept.  PostgreSQL's relcache invalidations say when
 * to look for a new era, and every look at the tables accepts those that have been
 * sent; their callback may run at any moment, also while a ring is being built, and
 * only counts.
 *
 * Where there is a shared cache (shared.c), built rings are in it, each once for
 * all backends; a backend then keeps only the names for itself.  A ring is given
 * to others only if the row that names it is another transaction's, thus committed,
 * and under the same conditions under which it is kept at all.  It is pinned from
 * its first use in a transaction to the end of that.  What the shared cache has no
 * room for stays with the backend that built it.
 *
 * Rings are freed, and move to the shared cache, only inside chash_cache_get, and
 * never while pinned by chash_cache_pin.
 */
#include "cache.h"

#include "../store/definition.h"
#include "names.h"
#include "../store/snapshot.h"
#include "../store/values.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* How long to wait before a ring that found no room is offered again, in milliseconds. */
#define SHARE_INTERVAL 1000

/* Rings that one statement can use in turn, however large they are. */
#define RINGS_IN_USE 8

ChashSnapshotMark chash_snapshot_mark;
TransactionId *chash_snapshot_running = NULL;
uint64 chash_snapshot_serial = 1;
uint64 chash_cache_generation = 1;

/* How much memory a backend's built rings may take, in kilobytes. */
static int local_cache_size = 65536;

static MemoryContext cache_context = NULL;
static dlist_head cached_rings = DLIST_STATIC_INIT(cached_rings);

/* The count of invalidations that the mark knows of. */
static uint64 invalidations_seen = 0;

/* Cached rings that are pinned in the shared cache. */
static uint32 attached_count = 0;

/* Room at chash_snapshot_running. */
static uint32 running_capacity = 0;

/* How many statements are writing chash's tables. */
static int writing_statements = 0;

/* No snapshot has xmax 0. */
static void
spoil_snapshot_mark(void)
{
	chash_snapshot_mark.xmax = InvalidTransactionId;
	chash_snapshot_serial++;
}

void
chash_cache_hold(int statements)
{
	writing_statements = statements;
	spoil_snapshot_mark();
}

/* Gives the pin in the shared cache back. */
static void
detach(ChashCachedRing *cached)
{
	ChashSharedRing *shared = cached->shared;

	if (shared == NULL)
		return;
	cached->ring = NULL;
	cached->shared = NULL;
	attached_count--;
	chash_shared_release(shared);
}

static void
detach_all(void)
{
	dlist_iter iter;

	if (attached_count == 0)
		return;
	dlist_foreach(iter, &cached_rings)
		detach(dlist_container(ChashCachedRing, link, iter.cur));
}

static void
backend_exits(int code, Datum argument)
{
	detach_all();
}

/* To be called before the first pin is taken. */
static void
prepare_exit(void)
{
	static bool prepared = false;

	/* Not on_shmem_exit: by then dynamic shared memory is gone. */
	if (!prepared)
		before_shmem_exit(backend_exits, (Datum) 0);
	prepared = true;
}

/* Takes over a pin in the shared cache. */
static void
attach(ChashCachedRing *cached, ChashSharedRing *shared)
{
	cached->shared = shared;
	cached->ring = chash_shared_ring(shared);
	attached_count++;
}

static void
transaction_ended(XactEvent event, void *argument)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			/*
			 * Also what chash_cache_pin keeps: nobody uses that any more, though after
			 * an error the memory context that it was pinned for may still be there.
			 */
			detach_all();
			break;
		default:
			break;
	}
	spoil_snapshot_mark();
}

static void
subtransaction_ended(SubXactEvent event, SubTransactionId subtransaction, SubTransactionId parent,
					 void *argument)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		spoil_snapshot_mark();
}

void
chash_cache_init(void)
{
	DefineCustomIntVariable("chash.local_cache_size",
							"Memory that the built rings of one session may take.",
							"The rings in use are kept even if they are larger.", &local_cache_size,
							65536, 0, MAX_KILOBYTES, PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	cache_context = AllocSetContextCreate(TopMemoryContext, "chash rings", ALLOCSET_SMALL_SIZES);
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}

Datum
chash_cache_make_name(ChashCachedRing *cached, uint32 node)
{
	cached->names[node] = chash_lasting_name(chash_ring_name(cached->ring, node),
											 chash_ring_nodes(cached->ring)[node].name_length);
	return cached->names[node];
}

static void
forget(ChashCachedRing *cached)
{
	detach(cached);
	dlist_delete(&cached->link);
	chash_cache_generation++;
	MemoryContextDelete(cached->context);
}

/* Are these built from the same version of a ring, or from the same one's history? */
static bool
same_version(const ChashCachedRing *a, const ChashCachedRing *b)
{
	return memcmp(&a->key.version, &b->key.version, sizeof(pg_uuid_t)) == 0 &&
		   memcmp(&a->key.digest, &b->key.digest, sizeof(pg_uuid_t)) == 0;
}

/*
 * Makes room after `latest` was added: of the same ring, one other version may
 * stay for those who change back and forth between two snapshots; of all, what
 * was used longest ago has to go, but not those few that the present statement
 * goes back and forth between.
 */
static void
make_room(const ChashCachedRing *latest)
{
	dlist_mutable_iter iter;
	const ChashCachedRing *other = NULL;
	Size size = 0;
	int number = 0;

	dlist_foreach_modify(iter, &cached_rings)
	{
		ChashCachedRing *cached = dlist_container(ChashCachedRing, link, iter.cur);
		bool useless = !cached->kept || cached->key.era != latest->key.era;
		bool in_use = cached->confirmed == chash_snapshot_serial && number < RINGS_IN_USE;

		number++;
		if (!useless && strcmp(cached->name, latest->name) == 0 &&
			(cached->as_of == CHASH_NOW) == (latest->as_of == CHASH_NOW) &&
			!same_version(cached, latest))
		{
			if (other == NULL)
				other = cached;
			useless = !same_version(cached, other);
		}
		size += cached->size;
		if (cached == latest || cached->pins > 0 || in_use)
			continue;
		if (useless || size > (Size) local_cache_size * 1024)
		{
			size -= cached->size;
			forget(cached);
		}
	}
}

/* After an invalidation, every lookup has to look at the tables. */
static void
notice_invalidations(void)
{
	if (invalidations_seen == chash_catalog_invalidations())
		return;
	invalidations_seen = chash_catalog_invalidations();
	spoil_snapshot_mark();
}

/*
 * Is a statement of this transaction perhaps writing rows just now?  With triggers
 * disabled nobody tells.
 */
static bool
rows_are_on_their_way(void)
{
	return writing_statements > 0 ||
		   (!chash_catalog_is_guarded() && TransactionIdIsValid(GetCurrentTransactionIdIfAny()));
}

/* Notes the active snapshot, with a new serial number if it may see other things. */
static void
note_snapshot(Snapshot snapshot)
{
	if (chash_snapshot_same())
		return;
	spoil_snapshot_mark();
	if (rows_are_on_their_way())
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

/* Finds a cached ring; one that is confirmed, or one with that key. */
static ChashCachedRing *
find(const char *name, int64 as_of, const ChashRingKey *key)
{
	dlist_iter iter;

	dlist_foreach(iter, &cached_rings)
	{
		ChashCachedRing *cached = dlist_container(ChashCachedRing, link, iter.cur);

		if (cached->as_of != as_of || strcmp(cached->name, name) != 0)
			continue;
		if (key == NULL ? cached->confirmed == chash_snapshot_serial
						: cached->kept && memcmp(&cached->key, key, sizeof(*key)) == 0)
			return cached;
	}
	return NULL;
}

/*
 * Makes an entry for a ring that is still to be built.  Until it is linked, its
 * memory hangs below the caller's, so that an error leaves nothing behind.
 */
static ChashCachedRing *
make_entry(const ChashRingRow *row, const ChashRingKey *key)
{
	MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "chash ring", ALLOCSET_SMALL_SIZES);
	ChashCachedRing *cached = MemoryContextAllocZero(context, sizeof(ChashCachedRing));

	cached->context = context;
	cached->name = MemoryContextStrdup(context, row->ring);
	cached->key = *key;
	cached->as_of = key->as_of;
	cached->hash = row->hash;
	cached->hash_tags = row->hash_tags;
	cached->replicas = row->replicas;
	cached->epoch = key->as_of != CHASH_NOW ? key->as_of : row->epoch;
	cached->proven = true;
	return cached;
}

static void
link_entry(ChashCachedRing *cached)
{
	MemoryContextSetParent(cached->context, cache_context);
	dlist_push_head(&cached_rings, &cached->link);
}

/* Makes room for the names of a ring's nodes, when there is the ring. */
static void
complete(ChashCachedRing *cached)
{
	if (cached->names == NULL)
		cached->names = MemoryContextAllocZero(cached->context,
											   Max(cached->ring->node_count, 1) * sizeof(Datum));
	cached->size = MemoryContextMemAllocated(cached->context, true);
}

static void
build(ChashCachedRing *cached, const ChashCatalog *catalog, Snapshot snapshot)
{
	MemoryContext working =
		AllocSetContextCreate(CurrentMemoryContext, "chash build", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(working);
	ChashDefinition definition;
	const ChashRing *ring;

	if (!chash_definition_load(catalog, cached->name, snapshot, cached->as_of, &definition))
		elog(ERROR, "ring \"%s\" has vanished while being read", cached->name);
	cached->proven = cached->as_of != CHASH_NOW || chash_definition_proven(&definition);
	ring = chash_definition_build(&definition);
	cached->memory = MemoryContextAllocHuge(cached->context, ring->size + PG_CACHE_LINE_SIZE);
	cached->ring = memcpy((void *) CACHELINEALIGN(cached->memory), ring, ring->size);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(working);
}

static bool
ring_exists(const char *name, void *argument)
{
	return chash_catalog_has_ring(argument, name, GetActiveSnapshot());
}

/* Says why everything is slow. */
static void
warn_of_triggers(void)
{
	static uint64 warned_at = 0;

	if (warned_at == invalidations_seen)
		return;
	warned_at = invalidations_seen;
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("triggers of chash's tables do not all fire always"),
			 errdetail("Nothing tells when rings change, so they are built again for each statement."),
			 errhint("Use ALTER TABLE ... ENABLE ALWAYS TRIGGER on each of them.")));
}

static void
warn_of_mixture(const char *ring)
{
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("nodes of ring \"%s\" do not match the ring's fingerprint", ring),
			 errdetail("They were restored, replicated or changed only in part. Lookups follow the nodes as they are."),
			 errhint("Restore or replicate chash_rings and chash_nodes together.")));
}

/* Gives a ring that this backend has built to the others. */
static void
share(ChashCachedRing *cached, const ChashCatalog *catalog, const ChashRingRow *row)
{
	ChashRingLabel label = {0};
	ChashSharedRing *shared;
	size_t length;
	const char *name = chash_to_utf8(row->ring, strlen(row->ring), &length);

	/* A name as long as that has come in while triggers were disabled. */
	if (length > CHASH_MAX_NAME)
		return;
	label.epoch = cached->epoch;
	if (cached->as_of == CHASH_NOW)
		strlcpy(label.fingerprint, row->fingerprint, sizeof(label.fingerprint));
	label.name_length = (uint8) length;
	memcpy(label.name, name, label.name_length);
	chash_shared_sweep(ring_exists, unconstify(ChashCatalog *, catalog));
	shared = chash_shared_publish(&cached->key, &label, cached->ring, cached->share_at != 0);
	if (shared == NULL)
	{
		cached->share_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SHARE_INTERVAL);
		return;
	}
	attach(cached, shared);
	cached->share_at = 0;
	chash_cache_generation++;
	pfree(cached->memory);
	cached->memory = NULL;
}

/* chash_cache_get, where there is an active snapshot. */
static ChashCachedRing *
get_seen(Oid function, const char *name, int64 as_of, bool missing_ok)
{
	Snapshot snapshot = GetActiveSnapshot();
	ChashCachedRing *cached;
	ChashCachedRing *made = NULL;
	ChashSharedRing *shared = NULL;
	const ChashCatalog *catalog;
	ChashRingRow row;
	ChashRingKey key = {.as_of = as_of, .database = MyDatabaseId};
	bool unsettled;
	bool keep;

	notice_invalidations();
	note_snapshot(snapshot);
	cached = find(name, as_of, NULL);
	if (cached != NULL)
		return cached;

	/*
	 * Whoever has looked keeps TRUNCATE waiting, as one who has read the tables
	 * does; and whoever has waited for it knows of it now.
	 */
	catalog = chash_catalog(function);
	LockRelationOid(catalog->rings, AccessShareLock);
	LockRelationOid(catalog->nodes, AccessShareLock);
	if (as_of != CHASH_NOW)
		LockRelationOid(catalog->history, AccessShareLock);

	/*
	 * The locks bring the messages only when they are new to the transaction; and
	 * whoever alters triggers does not wait for them.
	 */
	AcceptInvalidationMessages();
	catalog = chash_catalog(function);
	notice_invalidations();
	note_snapshot(snapshot);
	if (!chash_catalog_fetch_ring(catalog, name, snapshot, &row))
	{
		if (missing_ok)
			return NULL;
		chash_report_unknown_ring(name);
	}

	if (as_of != CHASH_NOW)
	{
		/* No digest would tell of rows that are missing. */
		chash_check_recorded(&row, as_of);
		chash_catalog_check_readable(catalog, snapshot);
	}

	key.version = row.version;
	if (as_of == CHASH_NOW && row.has_digest)
		key.digest = row.digest;
	key.era = catalog->era;

	/* History may come row by row, under one stamp. */
	unsettled = row.own && (!row.has_digest || as_of != CHASH_NOW);
	keep = chash_catalog_reliable(catalog, snapshot) && !unsettled;
	cached = keep ? find(name, as_of, &key) : NULL;
	if (cached == NULL)
	{
		made = make_entry(&row, &key);
		made->kept = keep;
		cached = made;
	}
	else
		dlist_move_head(&cached_rings, &cached->link);

	prepare_exit();
	if (cached->ring == NULL && keep && !row.own)
		shared = chash_shared_attach(&key);
	if (shared == NULL && cached->ring == NULL)
	{
		if (!catalog->guarded)
			warn_of_triggers();
		build(cached, catalog, snapshot);
		cached->kept &= cached->proven;
		if (!cached->proven && !row.own && catalog->guarded)
			warn_of_mixture(row.ring);
		cached->proven |= row.own;
	}
	if (made != NULL)
		link_entry(made);
	if (shared != NULL)
		attach(cached, shared);
	else if (cached->shared == NULL && cached->kept && !row.own && cached->pins == 0 &&
			 cached->share_at <= GetCurrentStatementStartTimestamp())
		share(cached, catalog, &row);
	complete(cached);
	make_room(cached);
	cached->confirmed = chash_snapshot_serial;
	return cached;
}

ChashCachedRing *
chash_cache_get(Oid function, const char *name, int64 as_of, bool missing_ok)
{
	bool taken = chash_snapshot_begin();
	ChashCachedRing *cached = get_seen(function, name, as_of, missing_ok);

	chash_snapshot_end(taken);
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
