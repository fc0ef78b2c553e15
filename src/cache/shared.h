/*
 * shared.h
 *		Built rings in shared memory, each once for all backends.
 *
 * Knows nothing of snapshots: cache.c says which ring is wanted, and which may
 * be given to others.
 */
#ifndef CHASH_SHARED_H
#define CHASH_SHARED_H

#include "../compat.h"

#include "../ring/ring.h"
#include "datatype/timestamp.h"
#include "utils/uuid.h"

/*
 * What a built ring was built from.  Stamp and digest say that; but one database
 * can be copied from another, and they are good for one era (see catalog.h).
 */
typedef struct ChashRingKey
{
	pg_uuid_t version; /* stamp of the ring's row */
	pg_uuid_t digest;  /* of the ring's row; zero for past epochs */
	int64 as_of;	   /* CHASH_NOW, or an epoch */
	uint64 era;
	uint64 database; /* OID */
} ChashRingKey;

/* What is told of a shared ring to those who look at the cache. */
typedef struct ChashRingLabel
{
	int64 epoch;
	char fingerprint[CHASH_FINGERPRINT_SIZE]; /* empty for a past epoch */
	uint8 name_length;
	char name[CHASH_MAX_NAME]; /* of the ring, UTF-8 */
} ChashRingLabel;

/* A place in the shared cache. */
typedef struct ChashSharedRing ChashSharedRing;

/* What chash_shared_list tells of a place. */
typedef struct ChashSharedStatus
{
	ChashRingKey key;
	ChashRingLabel label;
	Size bytes; /* 0: it did not fit */
	uint32 points;
	uint32 pins;
	uint64 hits;	  /* times that a backend took it */
	uint64 builds;	  /* times that a backend built it */
	uint64 fallbacks; /* times that a backend had to keep what it built for itself */
	TimestampTz last_used;
} ChashSharedStatus;

/* To be called for a new segment, and by each process that has it. */
extern void chash_shared_format(void *segment, Size size);
extern void chash_shared_init(void *segment);

/* Is there a shared cache? */
extern bool chash_shared_exists(void);

/*
 * Pins a ring and gives it, or NULL if it is not there.  It stays where it is
 * until released.
 */
extern ChashSharedRing *chash_shared_attach(const ChashRingKey *key);

/*
 * Puts a copy of a ring into the cache and pins it; or pins the one that
 * somebody else was faster with.  Gives NULL if there is no room, or somebody
 * is at it just now; who tries later `again` is not counted once more.
 *
 * Versions of the same ring with lower epochs are not wanted any more, and go
 * when their users have gone.
 */
extern ChashSharedRing *chash_shared_publish(const ChashRingKey *key, const ChashRingLabel *label,
											 const ChashRing *ring, bool again);

extern const ChashRing *chash_shared_ring(const ChashSharedRing *shared);

/* Gives a pin back.  Raises no error. */
extern void chash_shared_release(ChashSharedRing *shared);

/*
 * Looks at a few places, others each time, and frees those of databases and
 * rings that are gone; the callback says whether a ring of this database is
 * there.
 */
extern void chash_shared_sweep(bool (*ring_exists)(const char *name, void *argument),
							   void *argument);

/* Empties the cache and its counters, but for what is in use. */
extern void chash_shared_reset(void);

/*
 * Gives what is there, in palloc'd memory; with an empty name, what found no place
 * to be counted at.
 */
extern ChashSharedStatus *chash_shared_list(uint32 *count);

#endif
