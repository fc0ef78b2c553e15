/*
 * shared.c
 *		Built rings in shared memory, each once for all backends.
 *
 *	+--------+-------------+-------------+---------+------------------+
 *	| header | chain heads | map         | places  | pages            |
 *	|        | [2^n]       | [a bit for  | [count] |                  |
 *	|        |             |  each page] |         |                  |
 *	+--------+-------------+-------------+---------+------------------+
 *
 * A place says what is in some run of pages: the block of a built ring, which
 * never changes.  It is found by its key through chains of a hash table, and
 * holds its counters.  Places are in one of these states:
 *
 * FREE		of no use
 * FILLING	somebody is copying a block to its pages; nobody else may have it
 * READY	anybody may pin it, as long as it is in its chain
 * DOOMED	not in a chain any more: goes with its last pin
 * REFUSED	has no pages, since there was no room; keeps count of how often, and
 *			keeps others from trying the same until `retry_at`
 *
 * One lock guards all that.  Who pins a ring holds it shared for some dozen
 * instructions, once a transaction; who publishes one holds it exclusively for
 * two moments, before and after copying.  Nobody holds it while building, and
 * what needs the catalogs is done without it.
 *
 * Pins are counted up under the shared lock and down without any.  Pages are
 * freed under the exclusive lock when there is no pin.  A backend gives its pins
 * back when its transaction ends, and when it exits; if it is killed, the server
 * makes new shared memory.
 *
 * Room is made at the expense of what was used longest ago, but for what was
 * used within the last second: were more wanted at once than there is room for,
 * all would be built again and again.  A block needs pages in a row.  So it is
 * found out first whether there would be such a run, and then only what lies in
 * it goes.  What finds no room is kept by the backend that built it.
 */
#include "shared.h"

#include "pages.h"
#include "segment.h"
#include "../store/values.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* One place for so many bytes. */
#define BYTES_PER_PLACE 8192

/* Places that a sweep looks at. */
#define SWEEP 16

/* For how long used rings stay, and refused ones are not tried again; in milliseconds. */
#define GRACE 1000

#define NO_PLACE UINT32_MAX

/* The wait event of the lock. */
#define TRANCHE "ChashCache"

typedef enum State
{
	FREE,
	FILLING,
	READY,
	DOOMED,
	REFUSED
} State;

struct ChashSharedRing
{
	State state;
	uint32 next; /* in its chain, or among the free ones */
	ChashRingKey key;
	ChashRingLabel label;
	Size first_page;
	Size page_count;
	uint32 points;
	pg_atomic_uint32 pins;
	pg_atomic_uint64 hits;
	pg_atomic_uint64 last_used; /* TimestampTz */
	uint64 builds;
	uint64 fallbacks;
	TimestampTz retry_at;
};

/* What is logged once. */
typedef enum Cause
{
	TOO_LARGE,
	NO_ROOM,
	CAUSES
} Cause;

typedef struct Cache
{
	LWLock lock;
	uint64 size; /* of the segment */
	uint64 map_offset;
	uint64 places_offset;
	uint64 pages_offset;
	Size page_count;
	uint32 place_count;
	uint32 chain_count; /* a power of two */
	uint32 free_places; /* the first one */
	uint32 hand;		/* the place that the next sweep begins with */
	bool logged[CAUSES];
	uint64 unplaced; /* fallbacks that there was no place to count at */
	uint32 chains[FLEXIBLE_ARRAY_MEMBER];
} Cache;

/* ----------------------------------------------------------------
 * The segment
 * ----------------------------------------------------------------
 */

/* The cache, once this process has the segment. */
static Cache *cache = NULL;

static inline ChashSharedRing *
places(const Cache *of)
{
	return (ChashSharedRing *) ((char *) of + of->places_offset);
}

/* Bits are set for pages that are taken. */
static inline uint64 *
map(const Cache *of)
{
	return (uint64 *) ((char *) of + of->map_offset);
}

void
chash_shared_format(void *segment, Size size)
{
	Cache *made = segment;
	uint32 count = (uint32) Min(size / BYTES_PER_PLACE, PG_UINT16_MAX);
	uint32 chain_count = pg_nextpower2_32(count);

	/* Somewhat more than can be needed. */
	Size map_size = chash_pages_map_size(size / CHASH_PAGE_SIZE);

	made->size = size;
	made->place_count = count;
	made->chain_count = chain_count;
	made->map_offset = MAXALIGN(offsetof(Cache, chains) + chain_count * sizeof(uint32));
	made->places_offset = made->map_offset + map_size;
	made->pages_offset =
		CHASH_PAGE_SIZE * chash_page_count(made->places_offset + count * sizeof(ChashSharedRing));
	made->page_count = (size - made->pages_offset) / CHASH_PAGE_SIZE;
	chash_pages_init(map(made), made->page_count);
	LWLockInitialize(&made->lock, LWLockNewTrancheId(TRANCHE));
	made->hand = 0;
	made->unplaced = 0;
	for (int cause = 0; cause < CAUSES; cause++)
		made->logged[cause] = false;
	for (uint32 i = 0; i < chain_count; i++)
		made->chains[i] = NO_PLACE;

	made->free_places = NO_PLACE;
	for (uint32 i = count; i-- > 0;)
	{
		ChashSharedRing *place = &places(made)[i];

		place->state = FREE;
		place->next = made->free_places;
		pg_atomic_init_u32(&place->pins, 0);
		pg_atomic_init_u64(&place->hits, 0);
		pg_atomic_init_u64(&place->last_used, 0);
		made->free_places = i;
	}
}

void
chash_shared_init(void *segment)
{
	cache = segment;
	LWLockRegisterTranche(cache->lock.tranche, TRANCHE);
}

bool
chash_shared_exists(void)
{
	return chash_segment() != NULL;
}

/* ----------------------------------------------------------------
 * Places; the lock is held for all of this
 * ----------------------------------------------------------------
 */

static inline uint32 *
chain_of(const ChashRingKey *key)
{
	uint32 hash = hash_bytes((const unsigned char *) key, sizeof(*key));

	return &cache->chains[hash & (cache->chain_count - 1)];
}

static ChashSharedRing *
find(const ChashRingKey *key)
{
	uint32 i = *chain_of(key);

	while (i != NO_PLACE)
	{
		ChashSharedRing *place = &places(cache)[i];

		if (memcmp(&place->key, key, sizeof(*key)) == 0)
			return place;
		i = place->next;
	}
	return NULL;
}

static void
unchain(ChashSharedRing *place)
{
	uint32 *link = chain_of(&place->key);

	while (&places(cache)[*link] != place)
		link = &places(cache)[*link].next;
	*link = place->next;
}

static void
free_pages(ChashSharedRing *place)
{
	chash_pages_give_back(map(cache), place->first_page, place->page_count);
	place->page_count = 0;
}

static void
free_place(ChashSharedRing *place)
{
	free_pages(place);
	place->state = FREE;
	place->next = cache->free_places;
	cache->free_places = (uint32) (place - places(cache));
}

/* Lets nobody have a ring any more, and frees it if nobody has it. */
static void
doom(ChashSharedRing *place)
{
	unchain(place);
	place->state = DOOMED;

	/* Either this sees the last pin gone, or who gives it back sees this. */
	pg_memory_barrier();
	if (pg_atomic_read_u32(&place->pins) == 0)
		free_place(place);
}

static void
pin(ChashSharedRing *place, TimestampTz now)
{
	pg_atomic_fetch_add_u32(&place->pins, 1);
	pg_atomic_write_u64(&place->last_used, (uint64) now);
}

/* May this ring go, so that another one has its room? */
static bool
may_go(ChashSharedRing *place, TimestampTz now)
{
	return place->state == READY && pg_atomic_read_u32(&place->pins) == 0 &&
		   TimestampDifferenceExceeds((TimestampTz) pg_atomic_read_u64(&place->last_used), now,
									  GRACE);
}

static int
compare_use(const void *a, const void *b)
{
	ChashSharedRing *left = *(ChashSharedRing *const *) a;
	ChashSharedRing *right = *(ChashSharedRing *const *) b;
	uint64 left_used = pg_atomic_read_u64(&left->last_used);
	uint64 right_used = pg_atomic_read_u64(&right->last_used);

	return left_used < right_used ? -1 : left_used > right_used;
}

/*
 * How far up the list does it take to go until there is a run of free pages?  Gives
 * the number of rings, of which the last one completes the run; 0 if even all of
 * them would not do.
 */
static uint32
try_rings(ChashSharedRing *const *list, uint32 count, Size pages, Size *first, Size *end)
{
	uint32 tried = 0;
	bool fits = false;

	while (tried < count && !fits)
	{
		const ChashSharedRing *place = list[tried++];

		chash_pages_give_back(map(cache), place->first_page, place->page_count);
		chash_pages_run(map(cache), cache->page_count, place->first_page, first, end);
		fits = *end - *first >= pages;
	}
	for (uint32 i = 0; i < tried; i++)
		chash_pages_take_again(map(cache), list[i]->first_page, list[i]->page_count);
	return fits ? tried : 0;
}

/*
 * Frees as many rings as it takes to have a run of free pages, or none if that
 * would not do.  The list has those that may go, what was used longest ago first.
 */
static bool
evict(ChashSharedRing *const *list, uint32 count, Size pages)
{
	Size first;
	Size end;
	Size last;
	uint32 tried = try_rings(list, count, pages, &first, &end);

	if (tried == 0)
		return false;

	/* The run without the last one is too short; so that is in what remains of it. */
	last = list[tried - 1]->first_page;
	doom(list[tried - 1]);
	for (uint32 i = tried - 1; i-- > 0;)
	{
		Size from = list[i]->first_page;
		Size to = from + list[i]->page_count;

		if (to <= first || from >= end)
			continue;

		/* What was used last is the first to stay, if the run can do without. */
		if (to <= last && end - to >= pages)
			first = to;
		else if (from > last && from - first >= pages)
			end = from;
		else
			doom(list[i]);
	}
	return true;
}

/*
 * Takes a run of pages, if need be at the expense of other rings; false if there is
 * no room.  The list has space for all places.
 */
static bool
take_pages(Size pages, ChashSharedRing **list, TimestampTz now, Size *first)
{
	uint32 count = 0;

	if (pages > cache->page_count)
		return false;
	if (chash_pages_take(map(cache), cache->page_count, pages, first))
		return true;
	for (uint32 i = 0; i < cache->place_count; i++)
	{
		if (may_go(&places(cache)[i], now))
			list[count++] = &places(cache)[i];
	}
	qsort(list, count, sizeof(*list), compare_use);
	return evict(list, count, pages) &&
		   chash_pages_take(map(cache), cache->page_count, pages, first);
}

/* Frees a place, no matter which, of what may go; what was used longest ago first. */
static void
free_oldest(TimestampTz now)
{
	ChashSharedRing *oldest = NULL;

	for (uint32 i = 0; i < cache->place_count; i++)
	{
		ChashSharedRing *place = &places(cache)[i];

		if (may_go(place, now) && (oldest == NULL || compare_use(&place, &oldest) < 0))
			oldest = place;
	}
	if (oldest != NULL)
		doom(oldest);
}

/*
 * Finds a free place, if need be one that only keeps count of what did not fit; for
 * a ring that fits, also at the expense of another one.
 */
static ChashSharedRing *
take_place(bool fits, TimestampTz now)
{
	ChashSharedRing *place;

	for (uint32 i = 0; cache->free_places == NO_PLACE && i < cache->place_count; i++)
	{
		place = &places(cache)[i];
		if (place->state == REFUSED && place->retry_at <= now)
			doom(place);
	}
	if (cache->free_places == NO_PLACE && fits)
		free_oldest(now);
	if (cache->free_places == NO_PLACE)
		return NULL;
	place = &places(cache)[cache->free_places];
	cache->free_places = place->next;
	return place;
}

/* Adds a place for a key, without pages. */
static ChashSharedRing *
add_place(const ChashRingKey *key, const ChashRingLabel *label, bool fits, TimestampTz now)
{
	ChashSharedRing *place = take_place(fits, now);
	uint32 *chain = chain_of(key);

	if (place == NULL)
		return NULL;
	place->state = REFUSED;
	place->key = *key;
	place->label = *label;
	place->first_page = 0;
	place->page_count = 0;
	place->points = 0;
	pg_atomic_write_u32(&place->pins, 0);
	pg_atomic_write_u64(&place->hits, 0);
	pg_atomic_write_u64(&place->last_used, (uint64) now);
	place->builds = 0;
	place->fallbacks = 0;
	place->retry_at = 0;
	place->next = *chain;
	*chain = (uint32) (place - places(cache));
	return place;
}

/* Dooms older versions of the ring in a place. */
static void
supersede(const ChashSharedRing *latest)
{
	for (uint32 i = 0; i < cache->place_count; i++)
	{
		ChashSharedRing *place = &places(cache)[i];

		if ((place->state == READY || place->state == REFUSED) && place != latest &&
			place->key.database == latest->key.database && place->key.as_of == latest->key.as_of &&
			place->label.epoch < latest->label.epoch &&
			place->label.name_length == latest->label.name_length &&
			memcmp(place->label.name, latest->label.name, latest->label.name_length) == 0)
			doom(place);
	}
}

/* ----------------------------------------------------------------
 * What others call
 * ----------------------------------------------------------------
 */

const ChashRing *
chash_shared_ring(const ChashSharedRing *shared)
{
	return (const ChashRing *) ((char *) cache + cache->pages_offset +
								CHASH_PAGE_SIZE * shared->first_page);
}

ChashSharedRing *
chash_shared_attach(const ChashRingKey *key)
{
	TimestampTz now;
	ChashSharedRing *place;

	if (!chash_shared_exists())
		return NULL;
	now = GetCurrentTimestamp();
	LWLockAcquire(&cache->lock, LW_SHARED);
	place = find(key);
	if (place != NULL && place->state == READY)
	{
		pin(place, now);
		pg_atomic_fetch_add_u64(&place->hits, 1);
	}
	else
		place = NULL;
	LWLockRelease(&cache->lock);
	return place;
}

void
chash_shared_release(ChashSharedRing *shared)
{
	if (pg_atomic_sub_fetch_u32(&shared->pins, 1) > 0 || shared->state != DOOMED)
		return;

	/* The last one to leave; unless somebody else has thought so too. */
	LWLockAcquire(&cache->lock, LW_EXCLUSIVE);
	if (shared->state == DOOMED && pg_atomic_read_u32(&shared->pins) == 0)
		free_place(shared);
	LWLockRelease(&cache->lock);
}

static void
log_refusal(Cause cause, const ChashRingLabel *label, Size size)
{
	char *name = chash_from_utf8(label->name, label->name_length);

	if (cause == TOO_LARGE)
		ereport(LOG,
				(errmsg("ring \"%s\" is too large for the shared cache of chash", name),
				 errdetail("It takes %zu kB, and there are %zu kB. Sessions build it for themselves.",
						   size / 1024, cache->page_count * CHASH_PAGE_SIZE / 1024),
				 errhint("Raise \"chash.cache_size\".")));
	else
		ereport(LOG,
				(errmsg("no room for ring \"%s\" in the shared cache of chash", name),
				 errdetail("Rings that are in use, or were within the last second, fill it. Sessions build for themselves what finds no room."),
				 errhint("Raise \"chash.cache_size\".")));
	pfree(name);
}

ChashSharedRing *
chash_shared_publish(const ChashRingKey *key, const ChashRingLabel *label, const ChashRing *ring,
					 bool again)
{
	TimestampTz now;
	Size pages = chash_page_count(ring->size);
	Size first_page = 0;
	ChashSharedRing **list;
	ChashSharedRing *place;
	bool fits = false;
	bool filling = false;
	bool log = false;
	Cause cause = NO_ROOM;

	if (!chash_shared_exists())
		return NULL;
	list = palloc_array(ChashSharedRing *, cache->place_count);
	now = GetCurrentTimestamp();
	LWLockAcquire(&cache->lock, LW_EXCLUSIVE);
	place = find(key);
	if (place == NULL || (place->state == REFUSED && place->retry_at <= now))
		fits = take_pages(pages, list, now, &first_page);
	if (place == NULL)
		place = add_place(key, label, fits, now);
	if (fits && place == NULL)
		chash_pages_give_back(map(cache), first_page, pages);
	if (place != NULL && (!again || place->builds == 0))
		place->builds++;
	if (place != NULL && place->state == READY)
		pin(place, now);
	else if (place != NULL && fits)
	{
		place->state = FILLING;
		place->first_page = first_page;
		place->page_count = pages;
		place->points = ring->point_count;
		pin(place, now);
		filling = true;
	}
	else
	{
		if (place == NULL || place->state == REFUSED)
		{
			if (pages > cache->page_count)
				cause = TOO_LARGE;
			log = !cache->logged[cause];
			cache->logged[cause] = true;
		}
		if (place == NULL && !again)
			cache->unplaced++;
		if (place != NULL && place->state == REFUSED)
		{
			if (!again || place->fallbacks == 0)
				place->fallbacks++;
			if (place->retry_at <= now)
				place->retry_at = TimestampTzPlusMilliseconds(now, GRACE);
		}
		place = NULL;
	}
	LWLockRelease(&cache->lock);
	pfree(list);

	if (log)
		log_refusal(cause, label, ring->size);
	if (!filling)
		return place;

	/* Nothing can go wrong here, and nobody else sees the place. */
	memcpy(unconstify(ChashRing *, chash_shared_ring(place)), ring, ring->size);
	LWLockAcquire(&cache->lock, LW_EXCLUSIVE);
	place->state = READY;
	supersede(place);
	LWLockRelease(&cache->lock);
	return place;
}

void
chash_shared_sweep(bool (*ring_exists)(const char *name, void *argument), void *argument)
{
	struct
	{
		uint32 place;
		ChashRingKey key;
		ChashRingLabel label;
	} seen[SWEEP];
	int count = 0;

	if (!chash_shared_exists())
		return;
	LWLockAcquire(&cache->lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < cache->place_count && count < SWEEP; i++)
	{
		const ChashSharedRing *place = &places(cache)[cache->hand];

		if (place->state == READY || place->state == REFUSED)
		{
			seen[count].place = cache->hand;
			seen[count].key = place->key;
			seen[count].label = place->label;
			count++;
		}
		cache->hand = (cache->hand + 1) % cache->place_count;
	}
	LWLockRelease(&cache->lock);

	for (int i = 0; i < count; i++)
	{
		ChashSharedRing *place = &places(cache)[seen[i].place];
		bool exists;

		if (seen[i].key.database != MyDatabaseId)
			exists =
				SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum((Oid) seen[i].key.database));
		else
			exists = ring_exists(chash_from_utf8(seen[i].label.name, seen[i].label.name_length),
								 argument);
		if (exists)
			continue;
		LWLockAcquire(&cache->lock, LW_EXCLUSIVE);
		if ((place->state == READY || place->state == REFUSED) &&
			memcmp(&place->key, &seen[i].key, sizeof(ChashRingKey)) == 0)
			doom(place);
		LWLockRelease(&cache->lock);
	}
}

void
chash_shared_reset(void)
{
	if (!chash_shared_exists())
		return;
	LWLockAcquire(&cache->lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < cache->place_count; i++)
	{
		ChashSharedRing *place = &places(cache)[i];

		if (place->state == READY || place->state == REFUSED)
			doom(place);
	}
	for (int cause = 0; cause < CAUSES; cause++)
		cache->logged[cause] = false;
	cache->unplaced = 0;
	LWLockRelease(&cache->lock);
}

ChashSharedStatus *
chash_shared_list(uint32 *count)
{
	ChashSharedStatus *list;

	*count = 0;
	if (!chash_shared_exists())
		return NULL;
	list = palloc_array(ChashSharedStatus, cache->place_count + 1);
	LWLockAcquire(&cache->lock, LW_SHARED);
	for (uint32 i = 0; i < cache->place_count; i++)
	{
		ChashSharedRing *place = &places(cache)[i];
		ChashSharedStatus *status = &list[*count];

		if (place->state == FREE)
			continue;
		status->key = place->key;
		status->label = place->label;
		status->bytes = place->page_count * CHASH_PAGE_SIZE;
		status->points = place->points;
		status->pins = pg_atomic_read_u32(&place->pins);
		status->hits = pg_atomic_read_u64(&place->hits);
		status->builds = place->builds;
		status->fallbacks = place->fallbacks;
		status->last_used = (TimestampTz) pg_atomic_read_u64(&place->last_used);
		(*count)++;
	}
	if (cache->unplaced > 0)
	{
		ChashSharedStatus *status = &list[(*count)++];

		memset(status, 0, sizeof(*status));
		status->builds = cache->unplaced;
		status->fallbacks = cache->unplaced;
	}
	LWLockRelease(&cache->lock);
	return list;
}
