/*
 * segment.c
 *		The piece of shared memory that shared rings are kept in.
 *
 * There is at most one for a server.  It is never made larger or smaller, and
 * goes when the server stops or recovers from the crash of a process.
 *
 * - With chash in shared_preload_libraries it is a part of the server's main
 *   shared memory, reserved when the server starts.
 *
 * - Without, PostgreSQL 17 and later have a registry of dynamic shared memory.
 *   What is registered is only an anchor, a few bytes: the registry does not
 *   forgive a segment that could not be had, nor one whose size has changed.  The
 *   first backend that needs it makes the segment and writes its handle there.
 *
 * - Otherwise there is none.
 *
 * A lookup must not fail for want of shared memory.  So errors on the way to it
 * are caught, and it is tried again after a while.
 */
#include "segment.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

/* Names change with the layout of what is in the segment. */
#define SEGMENT_NAME "chash cache 2"

/* How long to wait after a failure, in milliseconds. */
#define RETRY_INTERVAL 60000

int chash_cache_size = 16384;

static void *segment = NULL;
static bool preloaded = false;
static ChashSegmentFormat format_segment = NULL;
static ChashSegmentAttach attach_segment = NULL;
static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

static Size
segment_size(void)
{
	return (Size) Max(chash_cache_size, CHASH_SMALLEST_SEGMENT) * 1024;
}

/* ----------------------------------------------------------------
 * In main shared memory
 * ----------------------------------------------------------------
 */

static void
request_segment(void)
{
	if (previous_request_hook != NULL)
		previous_request_hook();
	if (chash_cache_size > 0)
		RequestAddinShmemSpace(segment_size());
}

static void
start_segment(void)
{
	bool found;

	if (previous_startup_hook != NULL)
		previous_startup_hook();
	if (chash_cache_size == 0)
		return;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	segment = ShmemInitStruct(SEGMENT_NAME, segment_size(), &found);
	if (!found)
		format_segment(segment, segment_size());
	LWLockRelease(AddinShmemInitLock);
	attach_segment(segment);
}

void
chash_segment_init(ChashSegmentFormat format, ChashSegmentAttach attach)
{
	format_segment = format;
	attach_segment = attach;
	DefineCustomIntVariable(
		"chash.cache_size", "Shared memory for built rings.",
		"Each version of a ring is kept once for all sessions. 0: each session keeps its own.",
		&chash_cache_size, 16384, 0, MAX_KILOBYTES,
		process_shared_preload_libraries_in_progress ? PGC_POSTMASTER : PGC_SIGHUP, GUC_UNIT_KB,
		NULL, NULL, NULL);
	preloaded = process_shared_preload_libraries_in_progress;
	if (!preloaded)
		return;
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_segment;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_segment;
}

/* ----------------------------------------------------------------
 * In dynamic shared memory
 * ----------------------------------------------------------------
 */

#if CHASH_HAVE_DSM_REGISTRY

#include "storage/dsm_registry.h"

/* What is registered. */
typedef struct Anchor
{
	pg_atomic_uint32 handle;   /* of the segment, or DSM_HANDLE_INVALID */
	pg_atomic_uint64 retry_at; /* do not try to make it before that time */
	pg_atomic_flag logged;	   /* a failure */
} Anchor;

static Anchor *anchor = NULL;

static void
init_anchor(CHASH_INIT_SEGMENT_PARAMETERS)
{
	Anchor *made = address;

	pg_atomic_init_u32(&made->handle, DSM_HANDLE_INVALID);
	pg_atomic_init_u64(&made->retry_at, 0);
	pg_atomic_init_flag(&made->logged);
}

/* Lets nobody make the segment for so many milliseconds. */
static void
put_off(int milliseconds)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), milliseconds);

	pg_atomic_write_u64(&anchor->retry_at, (uint64) until);
}

/* Gives NULL if somebody else is at it, or has failed lately. */
static dsm_segment *
make_segment(void)
{
	uint32 handle = DSM_HANDLE_INVALID;
	dsm_segment *made;

	if ((TimestampTz) pg_atomic_read_u64(&anchor->retry_at) > GetCurrentTimestamp())
		return NULL;
	put_off(RETRY_INTERVAL);
	made = dsm_create(segment_size(), 0);
	format_segment(dsm_segment_address(made), segment_size());
	dsm_pin_segment(made);
	if (!pg_atomic_compare_exchange_u32(&anchor->handle, &handle, dsm_segment_handle(made)))
	{
		/* Somebody else was faster. */
		dsm_unpin_segment(dsm_segment_handle(made));
		dsm_detach(made);
		made = dsm_attach(handle);
	}
	return made;
}

static dsm_segment *
find_segment(void)
{
	bool found;
	uint32 handle;

	anchor = GetNamedDSMSegment(SEGMENT_NAME, sizeof(Anchor), init_anchor, &found, NULL);
	handle = pg_atomic_read_u32(&anchor->handle);
	return handle != DSM_HANDLE_INVALID ? dsm_attach(handle) : make_segment();
}

/* Says once what is wrong; in each session, if even the anchor could not be had. */
static void
log_failure(const ErrorData *error)
{
	static bool logged = false;

	if (logged || (anchor != NULL && !pg_atomic_test_set_flag(&anchor->logged)))
		return;
	logged = true;
	ereport(LOG,
			(errmsg("could not get shared memory for built rings: %s", error->message),
			 errdetail("Sessions build rings for themselves, and it is tried again every minute."),
			 errhint("Lower \"chash.cache_size\", or add \"chash\" to \"shared_preload_libraries\".")));
}

void *
chash_segment(void)
{
	static TimestampTz retry_at = 0;
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	if (segment != NULL || chash_cache_size == 0 || retry_at > GetCurrentStatementStartTimestamp())
		return segment;

	/* Without an owner, the mapping stays until the backend ends. */
	CurrentResourceOwner = NULL;
	PG_TRY();
	{
		dsm_segment *found = find_segment();

		if (found != NULL)
			segment = dsm_segment_address(found);
	}
	PG_CATCH();
	{
		ErrorData *error;

		/* Nothing but the registry can have left a lock behind. */
		LWLockReleaseAll();
		CurrentResourceOwner = owner;
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), RETRY_INTERVAL);
		log_failure(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	CurrentResourceOwner = owner;
	if (segment != NULL)
		attach_segment(segment);
	return segment;
}

bool
chash_segment_needs_preload(void)
{
	return false;
}

#else

void *
chash_segment(void)
{
	return segment;
}

bool
chash_segment_needs_preload(void)
{
	return !preloaded;
}

#endif
