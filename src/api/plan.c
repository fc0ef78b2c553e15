/*
 * plan.c
 *		What moves: plans, diffs and their summary.
 */
#include "../compat.h"

#include "json.h"
#include "result.h"

#include "../ring/diff.h"
#include "../store/values.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(chash_rebalance_plan);
PG_FUNCTION_INFO_V1(chash_epoch_diff);
PG_FUNCTION_INFO_V1(chash_ring_diff);
PG_FUNCTION_INFO_V1(chash_rebalance_summary);

/* A plan with more rows is refused: it would take over 384 MiB. */
#define MAX_PLAN_ROWS 16777216

static void
grow_rows(ChashDiffRows *rows)
{
	if (rows->capacity >= MAX_PLAN_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("plan has more than %d rows", MAX_PLAN_ROWS),
				 errhint("Compare fewer replicas, or rings with fewer points.")));
	rows->capacity = Max(rows->capacity * 2, 64);
	if (rows->rows == NULL)
		rows->rows =
			MemoryContextAllocHuge(CurrentMemoryContext, rows->capacity * sizeof(ChashDiffRow));
	else
		rows->rows = repalloc_huge(rows->rows, rows->capacity * sizeof(ChashDiffRow));
}

static void
compare(const ChashRing *before, const ChashRing *after, int32 replicas, ChashDiffRows *rows)
{
	void *scratch =
		MemoryContextAllocHuge(CurrentMemoryContext,
							   chash_diff_scratch_size(before, after, (uint32) replicas));

	memset(rows, 0, sizeof(*rows));
	rows->grow = grow_rows;
	chash_diff(before, after, (uint32) replicas, scratch, rows);
	pfree(scratch);
}

/* Gives the difference of two rings as the function's rows. */
static void
put_diff(FunctionCallInfo fcinfo, const ChashRing *before, const ChashRing *after, int32 replicas)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ChashNames from_names;
	ChashNames to_names;
	ChashDiffRows rows;

	chash_names_init(&from_names, before);
	chash_names_init(&to_names, after);
	compare(before, after, replicas, &rows);
	for (size_t i = 0; i < rows.count; i++)
	{
		const ChashDiffRow *row = &rows.rows[i];
		Datum values[5];
		bool nulls[5] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int64GetDatum(row->lo);
		values[1] = Int64GetDatum(row->hi);
		values[2] = chash_name(&from_names, row->from, &nulls[2]);
		values[3] = chash_name(&to_names, row->to, &nulls[3]);
		values[4] = Float8GetDatum(chash_ring_share(before, row->lo, row->hi));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

/* The number of replicas that an argument gives, or else the ring's setting. */
static int32
replicas_argument(FunctionCallInfo fcinfo, int argument, const ChashCachedRing *cached)
{
	int32 replicas = PG_ARGISNULL(argument) ? cached->replicas : PG_GETARG_INT32(argument);

	chash_check_replicas(replicas);
	return replicas;
}

/* The ring that would be, were the changes of an argument made. */
static ChashRing *
build_target(FunctionCallInfo fcinfo, const ChashCachedRing *cached, int argument)
{
	ChashDefinition definition;
	uint32 count;
	ChashChange *changes = chash_changes_from_json(PG_GETARG_JSONB_P(argument), &count);

	chash_definition_load_or_fail(chash_catalog(fcinfo->flinfo->fn_oid), cached->name,
								  GetActiveSnapshot(), &definition);
	chash_definition_change(&definition, changes, count);
	chash_definition_assign(&definition);
	return chash_definition_build(&definition);
}

Datum
chash_rebalance_plan(PG_FUNCTION_ARGS)
{
	ChashCachedRing *cached = chash_get_ring(fcinfo, 0, CHASH_NOW);
	int32 replicas = replicas_argument(fcinfo, 2, cached);

	if (!PG_ARGISNULL(3))
		chash_report_pins();
	InitMaterializedSRF(fcinfo, 0);
	if (!PG_ARGISNULL(1))
		put_diff(fcinfo, cached->ring, build_target(fcinfo, cached, 1), replicas);
	return (Datum) 0;
}

Datum
chash_epoch_diff(PG_FUNCTION_ARGS)
{
	ChashCachedRing *now = chash_get_ring(fcinfo, 0, CHASH_NOW);
	int32 replicas = replicas_argument(fcinfo, 3, now);
	int64 to = PG_ARGISNULL(2) ? now->epoch : PG_GETARG_INT64(2);
	int64 from;
	ChashCachedRing *before;
	ChashCachedRing *after;

	/* The checks come in this order, so that to - 1 cannot overflow. */
	chash_check_epoch_began(now->name, to);
	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(1) && to == 1)
		return (Datum) 0; /* there was nothing before that could differ */
	from = PG_ARGISNULL(1) ? to - 1 : PG_GETARG_INT64(1);
	chash_check_epoch_began(now->name, from);

	before = chash_get_ring(fcinfo, 0, from);
	chash_cache_pin(before, CurrentMemoryContext);
	after = chash_get_ring(fcinfo, 0, to);
	put_diff(fcinfo, before->ring, after->ring, replicas);
	return (Datum) 0;
}

Datum
chash_ring_diff(PG_FUNCTION_ARGS)
{
	ChashCachedRing *before = chash_get_ring(fcinfo, 0, CHASH_NOW);
	ChashCachedRing *after;
	int32 replicas;

	chash_cache_pin(before, CurrentMemoryContext);
	after = chash_get_ring(fcinfo, 1, CHASH_NOW);
	replicas = replicas_argument(fcinfo, 2, after);
	if (before->hash != after->hash || before->hash_tags != after->hash_tags)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("rings \"%s\" and \"%s\" hash keys differently", before->name,
						after->name),
				 errdetail("A key has another position on each, so that no range of positions stands for what moves.")));
	InitMaterializedSRF(fcinfo, 0);
	put_diff(fcinfo, before->ring, after->ring, replicas);
	return (Datum) 0;
}

/* Orders rows by their pair of nodes. */
static int
compare_pairs(const void *a, const void *b)
{
	const ChashDiffRow *left = a;
	const ChashDiffRow *right = b;

	if (left->from != right->from)
		return left->from < right->from ? -1 : 1;
	return (left->to > right->to) - (left->to < right->to);
}

/* Gives what a node holds, or null for no node. */
static void
put_share(const double *shares, uint32 node, Datum *value, bool *isnull)
{
	*isnull = node == CHASH_NO_NODE;
	if (!*isnull)
		*value = Float8GetDatum(shares[node]);
}

/* The number that a node of one ring has in another; CHASH_NO_NODE if none. */
static uint32
partner(const ChashRing *ring, uint32 node, const ChashRing *other)
{
	uint32 low = 0;
	uint32 high = other->node_count;

	while (node != CHASH_NO_NODE && low < high)
	{
		uint32 middle = low + (high - low) / 2;
		int order = chash_compare_names(chash_ring_name(other, middle),
										chash_ring_nodes(other)[middle].name_length,
										chash_ring_name(ring, node),
										chash_ring_nodes(ring)[node].name_length);

		if (order == 0)
			return middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return CHASH_NO_NODE;
}

static void
put_summary(FunctionCallInfo fcinfo, const ChashRing *before, const ChashRing *after,
			int32 replicas)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	double *shares_before = chash_shares(before, (uint32) replicas);
	double *shares_after = chash_shares(after, (uint32) replicas);
	ChashNames from_names;
	ChashNames to_names;
	ChashDiffRows rows;
	size_t next;

	chash_names_init(&from_names, before);
	chash_names_init(&to_names, after);
	compare(before, after, replicas, &rows);
	if (rows.count > 0)
		qsort(rows.rows, rows.count, sizeof(ChashDiffRow), compare_pairs);
	for (size_t first = 0; first < rows.count; first = next)
	{
		const ChashDiffRow *row = &rows.rows[first];
		double share = 0;
		Datum values[8];
		bool nulls[8] = {0};

		CHECK_FOR_INTERRUPTS();
		for (next = first; next < rows.count && compare_pairs(row, &rows.rows[next]) == 0; next++)
			share += chash_ring_share(before, rows.rows[next].lo, rows.rows[next].hi);
		values[0] = chash_name(&from_names, row->from, &nulls[0]);
		values[1] = chash_name(&to_names, row->to, &nulls[1]);
		values[2] = Int64GetDatum((int64) (next - first));
		values[3] = Float8GetDatum(share);
		put_share(shares_before, row->from, &values[4], &nulls[4]);
		put_share(shares_after, partner(before, row->from, after), &values[5], &nulls[5]);
		put_share(shares_before, partner(after, row->to, before), &values[6], &nulls[6]);
		put_share(shares_after, row->to, &values[7], &nulls[7]);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

Datum
chash_rebalance_summary(PG_FUNCTION_ARGS)
{
	ChashCachedRing *cached = chash_get_ring(fcinfo, 0, CHASH_NOW);
	int32 replicas = replicas_argument(fcinfo, 2, cached);

	InitMaterializedSRF(fcinfo, 0);
	if (!PG_ARGISNULL(1))
		put_summary(fcinfo, cached->ring, build_target(fcinfo, cached, 1), replicas);
	return (Datum) 0;
}
