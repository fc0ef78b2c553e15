/*
 * lookup.c
 *		Where a key lives.
 *
 * Everything here runs once per row of somebody's query.  The ring is
 * remembered in fn_extra, and whether it is still right is checked at each
 * call: fn_extra can outlive the statement (PL/pgSQL keeps it for simple
 * expressions), and the name of the ring can be a column.
 */
#include "../compat.h"

#include "../ring/keys.h"
#include "../ring/replicas.h"
#include "../cache/cache.h"
#include "../store/subscription.h"
#include "../store/values.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/supportnodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

/* For a caller whose map is out of date, and a ring that is behind its caller. */
#define ERRCODE_CHASH_STALE_ROUTE MAKE_SQLSTATE('R', 'T', '0', '0', '1')
#define ERRCODE_CHASH_RING_BEHIND MAKE_SQLSTATE('R', 'T', '0', '0', '2')

/* The bytes of a key that are hashed. */
typedef struct Key
{
	const char *bytes;
	size_t length;
	char buffer[CHASH_UUID_TEXT];
} Key;

/* What a call remembers for the next one. */
typedef struct Memory
{
	ChashCachedRing *cached;
	uint64 generation;	/* of the cache, when `cached` was got */
	bool constant_name; /* the ring's name is the same at every call */
	int64 as_of;
	char *name; /* of the ring */
	size_t name_length;
	ChashWalk *walk;	  /* on `cached`, or NULL */
	uint32 *nodes;		  /* room for the walk's result */
	TupleDesc descriptor; /* of the result, if it is a row */
} Memory;

/* As PG_GETARG_TEXT_PP, but without a call where there is nothing to do. */
static inline struct varlena *
get_varlena(Datum datum)
{
	struct varlena *value = (struct varlena *) DatumGetPointer(datum);

	if (unlikely(VARATT_IS_COMPRESSED(value) || VARATT_IS_EXTERNAL(value)))
		value = pg_detoast_datum_packed(value);
	return value;
}

static inline void
text_key(Key *key, const struct varlena *value)
{
	/* A backend's database and its encoding never change. */
	static int encoding = -1;

	if (unlikely(encoding < 0))
		encoding = GetDatabaseEncoding();
	key->bytes = VARDATA_ANY(value);
	key->length = VARSIZE_ANY_EXHDR(value);
	if (unlikely(encoding != PG_UTF8))
		key->bytes = chash_to_utf8(key->bytes, key->length, &key->length);
}

static inline void
bytea_key(Key *key, const struct varlena *value)
{
	key->bytes = VARDATA_ANY(value);
	key->length = VARSIZE_ANY_EXHDR(value);
}

static inline void
bigint_key(Key *key, int64 value)
{
	key->bytes = key->buffer;
	key->length = chash_bigint_text(key->buffer, value);
}

static inline void
uuid_key(Key *key, const pg_uuid_t *value)
{
	chash_uuid_text(key->buffer, value->data);
	key->bytes = key->buffer;
	key->length = CHASH_UUID_TEXT;
}

/*
 * Defines the four SQL functions of a family, one for each type of key, which
 * all go on to family_of_key.
 */
#define KEY_FUNCTION(family, type, from_datum)               \
	PG_FUNCTION_INFO_V1(family##_##type);                    \
	Datum family##_##type(PG_FUNCTION_ARGS)                  \
	{                                                        \
		Key key;                                             \
                                                             \
		if (unlikely(PG_ARGISNULL(0)))                       \
			PG_RETURN_NULL();                                \
		type##_key(&key, from_datum(fcinfo->args[0].value)); \
		return family##_of_key(fcinfo, &key);                \
	}                                                        \
	extern Datum family##_##type(PG_FUNCTION_ARGS)

#define KEY_FUNCTIONS(family)                    \
	KEY_FUNCTION(family, text, get_varlena);     \
	KEY_FUNCTION(family, bytea, get_varlena);    \
	KEY_FUNCTION(family, bigint, DatumGetInt64); \
	KEY_FUNCTION(family, uuid, DatumGetUUIDP)

/* Is an argument of the call a constant of the query? */
static bool
argument_is_constant(const FmgrInfo *function, int argument)
{
	const FuncExpr *call = (const FuncExpr *) function->fn_expr;

	return call != NULL && IsA(call, FuncExpr) && argument < list_length(call->args) &&
		   IsA(list_nth(call->args, argument), Const);
}

static Memory *
remember_ring(FunctionCallInfo fcinfo, int argument, int64 as_of)
{
	FmgrInfo *function = fcinfo->flinfo;
	Memory *memory = function->fn_extra;
	text *name = PG_GETARG_TEXT_PP(argument);
	char *ring = text_to_cstring(name);

	if (memory == NULL)
	{
		memory = MemoryContextAllocZero(function->fn_mcxt, sizeof(Memory));
		memory->constant_name = argument_is_constant(function, argument);
		function->fn_extra = memory;
	}

	/* Until all is in place again, the next call must not trust this. */
	memory->generation = 0;
	memory->cached = chash_cache_get(function->fn_oid, ring, as_of, false);
	if (memory->walk != NULL)
	{
		pfree(memory->walk);
		pfree(memory->nodes);
		memory->walk = NULL;
	}
	if (memory->name == NULL || memory->name_length != VARSIZE_ANY_EXHDR(name) ||
		memcmp(memory->name, ring, memory->name_length) != 0)
	{
		if (memory->name != NULL)
			pfree(memory->name);
		memory->name = MemoryContextStrdup(function->fn_mcxt, ring);
		memory->name_length = VARSIZE_ANY_EXHDR(name);
	}
	memory->as_of = as_of;
	memory->generation = chash_cache_generation;
	pfree(ring);
	return memory;
}

static inline bool
same_name(const Memory *memory, const text *name)
{
	return memory->name_length == VARSIZE_ANY_EXHDR(name) &&
		   memcmp(memory->name, VARDATA_ANY(name), memory->name_length) == 0;
}

/* The ring that an argument of the call names, as the active snapshot sees it. */
static inline Memory *
recall_ring(FunctionCallInfo fcinfo, int argument, int64 as_of)
{
	Memory *memory = fcinfo->flinfo->fn_extra;

	if (likely(memory != NULL && chash_cache_current(memory->cached, memory->generation) &&
			   memory->as_of == as_of &&
			   (memory->constant_name || same_name(memory, PG_GETARG_TEXT_PP(argument)))))
		return memory;
	return remember_ring(fcinfo, argument, as_of);
}

static inline int64
key_position(const ChashCachedRing *cached, const Key *key)
{
	const char *bytes = key->bytes;
	size_t length = key->length;

	if (cached->hash_tags)
		chash_hash_tag(&bytes, &length);
	return cached->hash->position(bytes, length);
}

static void
report_no_node(const ChashCachedRing *cached)
{
	if (cached->ring->holder_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ring \"%s\" has no node with a weight above zero",
						chash_clip(cached->name)),
				 cached->as_of != CHASH_NOW ?
				 errdetail("It had none in epoch %lld.", (long long) cached->as_of) : 0,
				 cached->as_of == CHASH_NOW ?
				 errhint("Add one with chash_add_node.") : 0));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("all nodes of ring \"%s\" are marked down", chash_clip(cached->name)),
			 errhint("Mark one as up with chash_mark_up.")));
}

static inline uint32
live_owner(const ChashCachedRing *cached, int64 position)
{
	uint32 node = chash_ring_live_owner(cached->ring, position);

	if (unlikely(node == CHASH_NO_NODE))
		report_no_node(cached);
	return node;
}

/* ----------------------------------------------------------------
 * The functions, each for all types of keys
 * ----------------------------------------------------------------
 */

static inline Datum
chash_node_of_key(FunctionCallInfo fcinfo, const Key *key)
{
	ChashCachedRing *cached = recall_ring(fcinfo, 1, CHASH_NOW)->cached;

	return chash_cache_name(cached, live_owner(cached, key_position(cached, key)));
}

KEY_FUNCTIONS(chash_node);

static inline Datum
chash_position_of_key(FunctionCallInfo fcinfo, const Key *key)
{
	PG_RETURN_INT64(key_position(recall_ring(fcinfo, 1, CHASH_NOW)->cached, key));
}

KEY_FUNCTIONS(chash_position);

PG_FUNCTION_INFO_V1(chash_node_at);

Datum
chash_node_at(PG_FUNCTION_ARGS)
{
	int64 position = PG_GETARG_INT64(0);
	ChashCachedRing *cached = recall_ring(fcinfo, 1, CHASH_NOW)->cached;

	if (!chash_hash_covers(cached->hash, position))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("position %lld is out of range", (long long) position),
				 errdetail("Positions of ring \"%s\" are from %lld to %lld.",
						   chash_clip(cached->name), (long long) cached->ring->lowest, (long long) cached->ring->highest)));
	return chash_cache_name(cached, live_owner(cached, position));
}

/* The names of nodes as a text[]. */
static Datum
name_array(ChashCachedRing *cached, const uint32 *nodes, uint32 count)
{
	Size size = ARR_OVERHEAD_NONULLS(1);
	ArrayType *array;
	char *element;

	CHECK_FOR_INTERRUPTS();
	for (uint32 i = 0; i < count; i++)
		size += INTALIGN(VARSIZE(DatumGetPointer(chash_cache_name(cached, nodes[i]))));
	array = palloc0(size);
	SET_VARSIZE(array, size);
	array->ndim = 1;
	array->elemtype = TEXTOID;
	ARR_DIMS(array)[0] = (int) count;
	ARR_LBOUND(array)[0] = 1;
	element = ARR_DATA_PTR(array);
	for (uint32 i = 0; i < count; i++)
	{
		const text *name = (const text *) DatumGetPointer(chash_cache_name(cached, nodes[i]));

		memcpy(element, name, VARSIZE(name));
		element += INTALIGN(VARSIZE(name));
	}
	return PointerGetDatum(array);
}

static inline Datum
first_nodes(FunctionCallInfo fcinfo, const Key *key, int64 n)
{
	Memory *memory = recall_ring(fcinfo, 2, CHASH_NOW);
	const ChashRing *ring = memory->cached->ring;
	uint32 wanted = (uint32) Min(Max(n, 1), (int64) ring->holder_count);
	uint32 count;

	if (n < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of replicas %lld is out of range", (long long) n),
				 errhint("Ask for at least one.")));
	if (memory->walk == NULL || memory->walk->limit < wanted)
	{
		if (memory->walk != NULL)
		{
			pfree(memory->walk);
			pfree(memory->nodes);
			memory->walk = NULL;
		}
		memory->nodes =
			MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, Max(wanted, 1) * sizeof(uint32));
		memory->walk =
			MemoryContextAllocHuge(fcinfo->flinfo->fn_mcxt, chash_walk_size(ring, wanted));
		chash_walk_init(memory->walk, ring, wanted, true);
	}
	count = chash_walk_from(memory->walk, key_position(memory->cached, key), wanted, memory->nodes);
	if (unlikely(count == 0))
		report_no_node(memory->cached);
	return name_array(memory->cached, memory->nodes, count);
}

/* Up to version 0.2, n is an integer. */
static inline Datum
chash_replicas_of_key(FunctionCallInfo fcinfo, const Key *key)
{
	return first_nodes(fcinfo, key, PG_GETARG_INT32(1));
}

KEY_FUNCTIONS(chash_replicas);

static inline Datum
chash_first_nodes_of_key(FunctionCallInfo fcinfo, const Key *key)
{
	return first_nodes(fcinfo, key, PG_GETARG_INT64(1));
}

KEY_FUNCTIONS(chash_first_nodes);

static inline Datum
chash_route_of_key(FunctionCallInfo fcinfo, const Key *key)
{
	Memory *memory = recall_ring(fcinfo, 1, CHASH_NOW);
	ChashCachedRing *cached = memory->cached;
	int64 position = key_position(cached, key);
	Datum values[5] = {0};
	bool nulls[5] = {false, false, false, true, true};

	if (memory->descriptor == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		if (get_call_result_type(fcinfo, NULL, &memory->descriptor) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		memory->descriptor = BlessTupleDesc(memory->descriptor);
		MemoryContextSwitchTo(caller);
	}
	values[0] = chash_cache_name(cached, live_owner(cached, position));
	values[1] = Int64GetDatum(position);
	values[2] = Int64GetDatum(cached->epoch);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(memory->descriptor, values, nulls)));
}

KEY_FUNCTIONS(chash_route);

static inline Datum
chash_node_as_of_of_key(FunctionCallInfo fcinfo, const Key *key)
{
	int64 epoch = PG_GETARG_INT64(1);
	ChashCachedRing *cached;
	uint32 node;

	if (unlikely(epoch < 1))
		chash_check_epoch_began(chash_clip(text_to_cstring(PG_GETARG_TEXT_PP(2))), epoch);
	cached = recall_ring(fcinfo, 2, epoch)->cached;
	node = chash_ring_owner(cached->ring, key_position(cached, key));
	if (unlikely(node == CHASH_NO_NODE))
		report_no_node(cached);
	return chash_cache_name(cached, node);
}

KEY_FUNCTIONS(chash_node_as_of);

/*
 * A lookup answers what the tables say.  A check vouches for it, and so refuses a ring
 * whose nodes are not those that its row stands for.
 */
static void
check_proven(const ChashCachedRing *cached)
{
	if (likely(cached->proven))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("routes of ring \"%s\" cannot be checked: its nodes are not those that its row was written for",
					chash_clip(cached->name)),
			 errdetail("Rows were written while triggers of chash's tables did not fire, or the snapshot of this transaction has parts of two versions of the ring."),
			 errhint("Repeat the transaction; if that does not help, compare chash_fingerprint with chash_rings.fingerprint, and restore the ring.")));
}

/* What a ring's epoch is by now, whatever the caller's snapshot says; 0 if it is gone. */
static int64
present_epoch(const ChashCatalog *catalog, const char *ring)
{
	ChashRingRow row;

	/* Not the latest snapshot: a parallel query may not take one. */
	return chash_catalog_fetch_ring(catalog, ring, SnapshotSelf, &row) ? row.epoch : 0;
}

/* The caller's map is of an epoch that the ring has not come to. */
static void
report_epoch_ahead(Oid function, const ChashCachedRing *cached, int64 epoch)
{
	const ChashCatalog *catalog = chash_catalog(function);
	bool replica = RecoveryInProgress() || chash_has_subscription(catalog);

	if (replica || present_epoch(catalog, cached->name) >= epoch)
		ereport(ERROR,
				(errcode(ERRCODE_CHASH_RING_BEHIND),
				 errmsg("ring \"%s\" is at epoch %lld, behind the caller's %lld",
						chash_clip(cached->name), (long long) cached->epoch, (long long) epoch),
				 replica ? errhint("Wait for replication to catch up, or ask the coordinator.") :
				 errhint("This transaction's snapshot is older than the caller's map: repeat the transaction.")));

	/* Where the ring is changed, an epoch that it has not come to is not one of its own. */
	ereport(ERROR,
			(errcode(ERRCODE_CHASH_STALE_ROUTE),
			 errmsg("ring \"%s\" is at epoch %lld, and never was at the caller's %lld",
					chash_clip(cached->name), (long long) cached->epoch, (long long) epoch),
			 errdetail("It was dropped and made anew, or restored, after the caller got its map; or the change that made that epoch was rolled back."),
			 errhint("Ask chash_route again, and go to that node.")));
}

static inline Datum
chash_check_route_of_key(FunctionCallInfo fcinfo, const Key *key)
{
	text *expected;
	int64 epoch;
	ChashCachedRing *cached;
	text *owner;

	/* NULL must fail: a check that accepts a missing route checks nothing. */
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("node, epoch and ring of a route to check cannot be null"),
				 errhint("Ask chash_route first.")));
	expected = PG_GETARG_TEXT_PP(1);
	epoch = PG_GETARG_INT64(2);
	cached = recall_ring(fcinfo, 3, CHASH_NOW)->cached;
	check_proven(cached);
	if (unlikely(epoch < 1))
		chash_check_epoch_began(chash_clip(cached->name), epoch);
	if (unlikely(epoch > cached->epoch))
		report_epoch_ahead(fcinfo->flinfo->fn_oid, cached, epoch);
	owner = DatumGetTextPP(chash_cache_name(cached, live_owner(cached, key_position(cached, key))));
	if (VARSIZE_ANY_EXHDR(owner) != VARSIZE_ANY_EXHDR(expected) ||
		memcmp(VARDATA_ANY(owner), VARDATA_ANY(expected), VARSIZE_ANY_EXHDR(owner)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_CHASH_STALE_ROUTE),
				 errmsg("key does not live on node \"%s\" of ring \"%s\"",
						chash_clip(text_to_cstring(expected)), chash_clip(cached->name)),
				 errdetail("In epoch %lld it lives on node \"%s\"; the caller's map is of epoch %lld.",
						   (long long) cached->epoch, chash_clip(text_to_cstring(owner)),
						   (long long) epoch),
				 errhint("Ask chash_route again, and go to that node.")));
	PG_RETURN_VOID();
}

KEY_FUNCTIONS(chash_check_route);

/* ----------------------------------------------------------------
 * Without a ring
 * ----------------------------------------------------------------
 */

static const ChashHash *
find_hash(FunctionCallInfo fcinfo)
{
	const ChashHash *hash = fcinfo->flinfo->fn_extra;
	char *name;

	if (hash != NULL)
		return hash;
	name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	chash_check_hash(name);
	hash = chash_hash_by_name(name);
	if (argument_is_constant(fcinfo->flinfo, 1))
		fcinfo->flinfo->fn_extra = unconstify(ChashHash *, hash);
	return hash;
}

static inline Datum
chash_hash_of_key(FunctionCallInfo fcinfo, const Key *key)
{
	PG_RETURN_INT64(find_hash(fcinfo)->position(key->bytes, key->length));
}

KEY_FUNCTIONS(chash_hash);

/*
 * Planner support: takes the collation out of a call, which depends on nothing that
 * has one.  With the hash left out, only a text key brings a collation; with the hash
 * written out, that does.  So an index on the one would not serve the other.
 */
PG_FUNCTION_INFO_V1(chash_hash_support);

Datum
chash_hash_support(PG_FUNCTION_ARGS)
{
	const SupportRequestSimplify *request = (SupportRequestSimplify *) PG_GETARG_POINTER(0);
	FuncExpr *call;

	if (!IsA(request, SupportRequestSimplify) || !OidIsValid(request->fcall->inputcollid))
		PG_RETURN_POINTER(NULL);
	call = makeNode(FuncExpr);
	*call = *request->fcall;
	call->inputcollid = InvalidOid;
	PG_RETURN_POINTER(call);
}

PG_FUNCTION_INFO_V1(chash_hash_tag_sql);

Datum
chash_hash_tag_sql(PG_FUNCTION_ARGS)
{
	text *key = PG_GETARG_TEXT_PP(0); /* or a bytea */
	const char *bytes = VARDATA_ANY(key);
	size_t length = VARSIZE_ANY_EXHDR(key);

	chash_hash_tag(&bytes, &length);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(bytes, (int) length));
}
