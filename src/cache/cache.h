/*
 * cache.h
 *		Built rings: the one way to get a ring for reading.
 *
 * cache.c says which version of a ring a caller gets, and why.
 */
#ifndef CHASH_CACHE_H
#define CHASH_CACHE_H

#include "../store/definition.h"
#include "shared.h"

#include "../ring/ring.h"
#include "lib/ilist.h"
#include "utils/palloc.h"
#include "utils/snapmgr.h"

/* A version of a ring, built.  Read-only for everybody but cache.c. */
typedef struct ChashCachedRing
{
	dlist_node link;		 /* most recently used first */
	MemoryContext context;	 /* holds all of this, but for a shared ring */
	uint64 confirmed;		 /* serial of the snapshot that saw this version */
	const ChashRing *ring;	 /* NULL from the end of a transaction to the next use */
	ChashSharedRing *shared; /* where the ring is pinned, or NULL if it is this backend's own */
	void *memory;			 /* of a ring of its own, to be freed */
	const ChashHash *hash;
	bool hash_tags;
	int32 replicas;
	int64 epoch;  /* of the ring; with as_of, that one */
	Datum *names; /* text of each node's name, 0 until wanted */
	char *name;	  /* of the ring */
	int64 as_of;  /* CHASH_NOW, or an epoch */
	bool kept;	  /* others with the same key may have it */
	bool proven;  /* its nodes are those that the ring's row speaks of */
	ChashRingKey key;
	TimestampTz share_at; /* when to try again to share it */
	int pins;
	Size size; /* bytes in all, without a shared ring */
} ChashCachedRing;

/*
 * What two snapshots of one transaction must have in common to see the same;
 * their running transactions stand beside it.
 */
typedef struct ChashSnapshotMark
{
	TransactionId xmin;
	TransactionId xmax;
	uint32 xcnt;
	int32 subxcnt;
	CommandId curcid;
	bool suboverflowed;
	bool takenDuringRecovery;
} ChashSnapshotMark;

/* The snapshot of the latest look at the tables, and its serial number. */
extern ChashSnapshotMark chash_snapshot_mark;
extern TransactionId *chash_snapshot_running;
extern uint64 chash_snapshot_serial;

/* Counts the times that cached rings were freed, or went to another place. */
extern uint64 chash_cache_generation;

extern void chash_cache_init(void);

/*
 * Gives the version of a ring that the active snapshot sees; with as_of, what
 * the ring was in that epoch, instead of CHASH_NOW.  Raises an error if there is no such ring or
 * epoch, or returns NULL if there is no such ring and missing_ok.
 *
 * The result holds until the next call of this function, or longer if pinned.
 */
extern ChashCachedRing *chash_cache_get(Oid function, const char *name, int64 as_of,
										bool missing_ok);

/*
 * Tells how many statements, one called by the other, are writing chash's tables:
 * while there is any, nothing that is read can be relied on for longer than a call.
 */
extern void chash_cache_hold(int statements);

/* Keeps a cached ring until the memory context is reset or deleted. */
extern void chash_cache_pin(ChashCachedRing *cached, MemoryContext context);

/* The name of a node as a text, which lives as long as the backend. */
extern Datum chash_cache_make_name(ChashCachedRing *cached, uint32 node);

static inline Datum
chash_cache_name(ChashCachedRing *cached, uint32 node)
{
	Datum name = cached->names[node];

	return likely(name != (Datum) 0) ? name : chash_cache_make_name(cached, node);
}

/* Does the active snapshot see the same as that of the latest look? */
static inline bool
chash_snapshot_same(void)
{
	Snapshot snapshot = ActiveSnapshotSet() ? GetActiveSnapshot() : NULL;

	return snapshot != NULL && snapshot->xmax == chash_snapshot_mark.xmax &&
		   snapshot->curcid == chash_snapshot_mark.curcid &&
		   snapshot->xcnt == chash_snapshot_mark.xcnt &&
		   snapshot->subxcnt == chash_snapshot_mark.subxcnt &&
		   snapshot->xmin == chash_snapshot_mark.xmin &&
		   snapshot->suboverflowed == chash_snapshot_mark.suboverflowed &&
		   snapshot->takenDuringRecovery == chash_snapshot_mark.takenDuringRecovery &&
		   (snapshot->xcnt == 0 || memcmp(snapshot->xip, chash_snapshot_running,
										  snapshot->xcnt * sizeof(TransactionId)) == 0);
}

/*
 * May a pointer to a cached ring that was got at `generation` still be used,
 * and is it what chash_cache_get would give now?
 */
static inline bool
chash_cache_current(const ChashCachedRing *cached, uint64 generation)
{
	return generation == chash_cache_generation && cached->confirmed == chash_snapshot_serial &&
		   chash_snapshot_same();
}

#endif
