/*
 * inspect.c
 *		Functions that show what a ring is made of.
 */
#include "../compat.h"

#include "result.h"

#include "../ring/ranges.h"
#include "../store/snapshot.h"
#include "../store/values.h"

#include <math.h>

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

/* Characters of chash_balance's bar for a ratio of 1, and at most. */
#define BAR_UNIT 20
#define BAR_LIMIT 60

PG_FUNCTION_INFO_V1(chash_fingerprint);
PG_FUNCTION_INFO_V1(chash_points);
PG_FUNCTION_INFO_V1(chash_ranges);
PG_FUNCTION_INFO_V1(chash_balance);
PG_FUNCTION_INFO_V1(chash_rows_support);

static void
load_definition(FunctionCallInfo fcinfo, ChashDefinition *definition)
{
	char *name = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	bool taken;

	chash_check_name("ring", name);
	taken = chash_snapshot_begin();
	chash_definition_load_or_fail(chash_catalog(fcinfo->flinfo->fn_oid), name, GetActiveSnapshot(),
								  definition);
	chash_snapshot_end(taken);
}

Datum
chash_fingerprint(PG_FUNCTION_ARGS)
{
	ChashDefinition definition;

	load_definition(fcinfo, &definition);
	PG_RETURN_TEXT_P(cstring_to_text(chash_definition_fingerprint(&definition)));
}

Datum
chash_points(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const ChashRing *ring = chash_get_ring(fcinfo, 0, CHASH_NOW)->ring;
	ChashNames names;

	InitMaterializedSRF(fcinfo, 0);
	chash_names_init(&names, ring);
	for (uint32 point = 0; point < ring->point_count; point++)
	{
		Datum values[2];
		bool nulls[2] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int64GetDatum(chash_point_position(ring, point));
		values[1] = chash_name(&names, chash_point_owner(ring, point), &nulls[1]);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* The number of a node that an argument names; an error if there is none. */
static uint32
node_argument(FunctionCallInfo fcinfo, int argument, const ChashCachedRing *cached)
{
	char *name = text_to_cstring(PG_GETARG_TEXT_PP(argument));
	size_t length;
	const char *utf8 = chash_to_utf8(name, strlen(name), &length);
	uint32 node = chash_ring_find_node(cached->ring, utf8, length);

	if (node == CHASH_NO_NODE)
		chash_report_unknown_node(cached->name, name);
	return node;
}

Datum
chash_ranges(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ChashCachedRing *cached = chash_get_ring(fcinfo, 0, CHASH_NOW);
	uint32 only = PG_ARGISNULL(1) ? CHASH_NO_NODE : node_argument(fcinfo, 1, cached);
	ChashRangeCursor cursor = {0};
	ChashRange range;
	ChashNames names;

	InitMaterializedSRF(fcinfo, 0);
	chash_names_init(&names, cached->ring);
	while (chash_ranges_next(cached->ring, &cursor, &range))
	{
		Datum values[4];
		bool nulls[4] = {0};

		CHECK_FOR_INTERRUPTS();
		if (only != CHASH_NO_NODE && range.node != only)
			continue;
		values[0] = Int64GetDatum(range.lo);
		values[1] = Int64GetDatum(range.hi);
		values[2] = chash_name(&names, range.node, &nulls[2]);
		values[3] = Float8GetDatum(chash_ring_share(cached->ring, range.lo, range.hi));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static Datum
make_bar(double ratio)
{
	int length = (int) Min(rint(ratio * BAR_UNIT), BAR_LIMIT);
	char *bar = palloc((Size) length + 1);

	memset(bar, '#', (size_t) length);
	bar[length] = '\0';
	return CStringGetTextDatum(bar);
}

Datum
chash_balance(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ChashDefinition definition;
	const ChashRing *ring;
	double *shares;
	int64 total = 0;

	/* Of what the tables say, built anew, so that one fits the other. */
	load_definition(fcinfo, &definition);
	ring = chash_definition_build(&definition);
	shares = chash_shares(ring, 1);
	InitMaterializedSRF(fcinfo, 0);
	for (uint32 i = 0; i < definition.count; i++)
		total += definition.nodes[i].spec.weight;
	for (uint32 i = 0; i < definition.count; i++)
	{
		const ChashNode *node = &definition.nodes[i];
		double expected = total > 0 ? (double) node->spec.weight / (double) total : 0;
		Datum values[8];
		bool nulls[8] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = CStringGetTextDatum(node->name);
		values[1] = NumericGetDatum(chash_weight_to_numeric(node->spec.weight));
		nulls[2] = node->zone == NULL;
		if (node->zone != NULL)
			values[2] = CStringGetTextDatum(node->zone);
		values[3] = Int64GetDatum(chash_ring_nodes(ring)[i].point_count);
		values[4] = Float8GetDatum(shares[i]);
		values[5] = Float8GetDatum(expected);
		nulls[6] = nulls[7] = expected == 0;
		if (expected > 0)
		{
			values[6] = Float8GetDatum(shares[i] / expected);
			values[7] = make_bar(shares[i] / expected);
		}
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 * Planner support
 * ----------------------------------------------------------------
 */

static double
count_ranges(const ChashRing *ring)
{
	ChashRangeCursor cursor = {0};
	ChashRange range;
	double count = 0;

	while (chash_ranges_next(ring, &cursor, &range))
		count++;
	return count;
}

/* An argument of the call if it is a constant that is not null. */
static const Const *
constant_argument(const FuncExpr *call, int argument)
{
	const Const *constant;

	if (argument >= list_length(call->args))
		return NULL;
	constant = list_nth(call->args, argument);
	return IsA(constant, Const) && !constant->constisnull ? constant : NULL;
}

/*
 * How many rows a call gives.  Points, ranges and nodes are counted.  A plan
 * has about as many ranges as a node per node that changes.
 */
static double
estimate_rows(const char *function, const FuncExpr *call, const ChashRing *ring)
{
	double nodes = Max(ring->node_count, 1);
	double changes = 1;

	if (strcmp(function, "chash_points") == 0)
		return ring->point_count;
	if (strcmp(function, "chash_balance") == 0)
		return ring->node_count;
	if (strcmp(function, "chash_ranges") == 0)
		return count_ranges(ring) / (constant_argument(call, 1) != NULL ? nodes : 1);

	if (strcmp(function, "chash_rebalance_plan") == 0 ||
		strcmp(function, "chash_rebalance_summary") == 0)
	{
		const Const *given = constant_argument(call, 1);

		if (given != NULL)
			changes = JB_ROOT_COUNT(DatumGetJsonbP(given->constvalue));
	}
	if (strcmp(function, "chash_rebalance_summary") == 0)
		return changes * nodes;
	return changes * count_ranges(ring) / nodes;
}

Datum
chash_rows_support(PG_FUNCTION_ARGS)
{
	SupportRequestRows *request = (SupportRequestRows *) PG_GETARG_POINTER(0);
	const FuncExpr *call;
	const Const *name;
	const char *function;
	const ChashCachedRing *cached;

	if (!IsA(request, SupportRequestRows))
		PG_RETURN_POINTER(NULL);
	call = (const FuncExpr *) request->node;
	if (!IsA(call, FuncExpr) || !ActiveSnapshotSet())
		PG_RETURN_POINTER(NULL);
	name = constant_argument(call, 0);
	if (name == NULL)
		PG_RETURN_POINTER(NULL);
	cached =
		chash_cache_get(request->funcid, TextDatumGetCString(name->constvalue), CHASH_NOW, true);
	if (cached == NULL)
		PG_RETURN_POINTER(NULL);

	/* Nothing keeps others from dropping a function that is about to be called. */
	function = get_func_name(request->funcid);
	if (function == NULL)
		PG_RETURN_POINTER(NULL);
	request->rows = clamp_row_est(estimate_rows(function, call, cached->ring));
	PG_RETURN_POINTER(request);
}
