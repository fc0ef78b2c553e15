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
 * 17 brought a registry of dynamic shared memory (commit 8b2bcf3f2), so that
 * shared memory can be had without preloading.
 */
#if PG_VERSION_NUM >= 170000
#define CHASH_HAVE_DSM_REGISTRY 1
#else
#define CHASH_HAVE_DSM_REGISTRY 0
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
