/*
 * compat.h
 *		Every difference between PostgreSQL versions that chash meets, each
 *		with its reason.  No other file tests PG_VERSION_NUM.
 */
#ifndef CHASH_COMPAT_H
#define CHASH_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "chash needs PostgreSQL 15 or later"
#endif

/*
 * 17 brought a registry of dynamic shared memory (commit 8b2bcf3f2), so that
 * shared memory can be had without preloading.
 */
#if PG_VERSION_NUM >= 170000
#define CHASH_HAVE_DSM_REGISTRY 1
#else
#define CHASH_HAVE_DSM_REGISTRY 0
#endif

/*
 * 19 builds jsonb in a JsonbInState, which the result is left in;
 * pushJsonbValue used to return it, and to take the list of parse states alone.
 */
#if PG_VERSION_NUM < 190000
#include "utils/jsonb.h"

typedef struct JsonbInState
{
	JsonbValue *result;
	JsonbParseState *parseState;
} JsonbInState;

static inline void
chash_push_jsonb_value(JsonbInState *state, JsonbIteratorToken token, JsonbValue *value)
{
	state->result = pushJsonbValue(&state->parseState, token, value);
}

#define pushJsonbValue chash_push_jsonb_value
#endif

/*
 * 19 passes an argument on to the function that initializes a named segment of
 * dynamic shared memory.
 */
#if PG_VERSION_NUM >= 190000
#define CHASH_INIT_SEGMENT_PARAMETERS void *address, void *argument
#else
#define CHASH_INIT_SEGMENT_PARAMETERS void *address
#if CHASH_HAVE_DSM_REGISTRY
#include "storage/dsm_registry.h"
#endif
#define GetNamedDSMSegment(name, size, init, found, argument) \
	GetNamedDSMSegment(name, size, init, found)
#endif

/*
 * 19 takes the name of a tranche of locks where its number is allocated, and lets
 * all backends know it; before, each of them had to register it.
 */
#if PG_VERSION_NUM >= 190000
#define LWLockRegisterTranche(tranche, name) ((void) 0)
#else
#include "storage/lwlock.h"
#define LWLockNewTrancheId(name) LWLockNewTrancheId()
#endif

/*
 * 19's headers for settings and for set-returning functions no longer include
 * what these take.
 */
#if PG_VERSION_NUM >= 190000
#include <limits.h>

#include "utils/tuplestore.h"
#endif

/*
 * 18 brought PG_MODULE_MAGIC_EXT, by which pg_get_loaded_modules() can tell
 * name and version (commit 9324c8c58).
 */
#if PG_VERSION_NUM >= 180000
#define CHASH_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "chash", .version = CHASH_VERSION)
#else
#define CHASH_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/*
 * 18 put pg_noreturn, in front of a declaration, in the place of
 * pg_attribute_noreturn() behind it.
 */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/*
 * 18 lets RelationGetPrimaryKeyIndex find deferrable keys too, if told so;
 * before it never did.
 */
#if PG_VERSION_NUM < 180000
#include "utils/relcache.h"
#define RelationGetPrimaryKeyIndex(relation, deferrable_ok) RelationGetPrimaryKeyIndex(relation)
#endif

/*
 * 16 moved the varlena macros from postgres.h to varatt.h (commit d952373a9).
 */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/*
 * 16 brought palloc_array (commit 2016055a9), which later minor releases of 15
 * check for overflow; earlier ones do not have it.
 */
#ifndef palloc_array
#include "storage/shmem.h"
#define palloc_array(type, count) ((type *) palloc(mul_size(sizeof(type), count)))
#define palloc0_array(type, count) ((type *) palloc0(mul_size(sizeof(type), count)))
#endif

#endif
