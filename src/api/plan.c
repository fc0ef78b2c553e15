/*
 * plan.c
 *		What moves: plans, diffs and their summary.
 */
#include "../compat.h"

#include "json.h"
#include "result.h"

#include "../ring/diff.h"
#include "../ring/partitions.h"
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

/* Gives the difference of two rings as the function's rows; tells whether there are any. */
static bool
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
	return rows.count > 0;
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
	ChashSpec before;
	ChashSpec after;
	uint32 count;
	ChashChange *changes = chash_changes_from_json(PG_GETARG_JSONB_P(argument), &count);

	chash_definition_load_or_fail(chash_catalog(fcinfo->flinfo->fn_oid), cached->name,
								  GetActiveSnapshot(), &definition);
	chash_definition_spec(&definition, &before);
	chash_definition_change(&definition, changes, count);
	chash_definition_spec(&definition, &after);
	if (!chash_partitions_same_weights(&before, &after) || !chash_definition_is_dealt(&definition))
		chash_definition_assign(&definition);
	pfree(before.nodes);
	pfree(after.nodes);
	return chash_definition_build(&definition);
}

/* An empty plan says why it is empty. */
static void
report_empty(const ChashCachedRing *cached, bool changes)
{
	ereport(NOTICE,
			(errmsg("nothing of ring \"%s\" would move", cached->name),
			 changes ? errdetail("The changes leave all owners and replicas as they are.") :
			 errdetail("No changes are given, and no migration is open."),
			 changes ? 0 : errhint("Ask what would move with changes => '{...}'.")));
}

/*
 * The ring that the first argument names.  Who leaves the name out, and gives
 * changes in its place, is told so even if no ring can have such a name.
 */
static ChashCachedRing *
plan_ring(FunctionCallInfo fcinfo)
{
	if (!PG_ARGISNULL(0))
	{
		const char *name = text_to_cstring(PG_GETARG_TEXT_PP(0));

		if (name[0] == '{' && (strlen(name) > CHASH_MAX_NAME || strpbrk(name, "\n\r\t") != NULL))
			chash_report_unknown_ring(name);
	}
	return chash_get_ring(fcinfo, 0, CHASH_NOW);
}

Datum
chash_rebalance_plan(PG_FUNCTION_ARGS)
{
	ChashCachedRing *cached = plan_ring(fcinfo);
	int32 replicas = replicas_argument(fcinfo, 2, cached);

	if (!PG_ARGISNULL(3))
		chash_report_pins();
	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(1) ||
		!put_diff(fcinfo, cached->ring, build_target(fcinfo, cached, 1), replicas))
		report_empty(cached, !PG_ARGISNULL(1));
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
	(void) put_diff(fcinfo, before->ring, after->ring, replicas);
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
				 errdetail("A key has a different position on each, so no range of positions can say what moves.")));
	InitMaterializedSRF(fcinfo, 0);
	(void) put_diff(fcinfo, before->ring, after->ring, replicas);
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
	if (node == CHASH_NO_NODE)
		return CHASH_NO_NODE;
	return chash_ring_find_node(other, chash_ring_name(ring, node),
								chash_ring_nodes(ring)[node].name_length);
}

/* Sorts the rows of a plan, of which there can be millions, by their pair of nodes. */
static void
sort_rows(ChashDiffRows *rows)
{
	void *scratch =
		MemoryContextAllocHuge(CurrentMemoryContext,
							   Max(chash_sort_scratch_size(rows->count, sizeof(ChashDiffRow)), 1));

	chash_sort(rows->rows, rows->count, sizeof(ChashDiffRow), compare_pairs, scratch);
	pfree(scratch);
}

/* Gives the difference of two rings, summed up; tells whether there is any. */
static bool
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
	sort_rows(&rows);
	for (size_t first = 0; first < rows.count; first = next)
	{
		const ChashDiffRow *row = &rows.rows[first];
		double share = 0;
		Datum values[8];
		bool nulls[8] = {0};

		for (next = first; next < rows.count && compare_pairs(row, &rows.rows[next]) == 0; next++)
		{
			CHECK_FOR_INTERRUPTS();
			share += chash_ring_share(before, rows.rows[next].lo, rows.rows[next].hi);
		}
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
	return rows.count > 0;
}

Datum
chash_rebalance_summary(PG_FUNCTION_ARGS)
{
	ChashCachedRing *cached = plan_ring(fcinfo);
	int32 replicas = replicas_argument(fcinfo, 2, cached);

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(1) ||
		!put_summary(fcinfo, cached->ring, build_target(fcinfo, cached, 1), replicas))
		report_empty(cached, !PG_ARGISNULL(1));
	return (Datum) 0;
}
