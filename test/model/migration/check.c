/*
 * check.c
 *		The checks: the complete protocol holds, and each broken one is caught.
 *
 * Output in the Test Anything Protocol.  Of a protocol that is caught, the shortest
 * way there is printed: per step the rows of k0 and k1 on each shard, the owner of
 * the range, the state of the move.
 *
 *	migration		all that the test suite runs, half a minute
 *	migration full	the complete protocol with larger casts, some minutes
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"
#include "protocol.h"

typedef struct Broken
{
	const char *name;
	Variant variant;
	int wrong; /* what must be found */
	Cast cast;
} Broken;

static const Cast casts[] = {
	{"writer, direct writer and reader", .writer = 1, .direct = 1, .reader = 1},
	{"writer and direct writer, with a revert", .writer = 1, .direct = 1, .reverts = 1,
	 .elsewhere = true},
	{"writer and reader, with a revert", .writer = 1, .reader = 1, .reverts = 1, .elsewhere = true},
	{"direct writer and reader, with a revert", .direct = 1, .reader = 1, .reverts = 1},
	{"a key changes its shard, with a revert", .writer = 1, .direct = 1, .reverts = 1,
	 .elsewhere = true, .apart = true},
	{NULL},
};

static const Cast larger_casts[] = {
	{"writer, direct writer and reader, with a revert", .writer = 1, .direct = 1, .reader = 1,
	 .reverts = 1, .elsewhere = true},
	{"the same, a key changes its shard", .writer = 1, .direct = 1, .reader = 1, .reverts = 1,
	 .elsewhere = true, .apart = true},
	{"writer twice, and a reader", .writer = 2, .reader = 1, .elsewhere = true},
	{"writer twice, and a direct writer, with a revert", .writer = 2, .direct = 1, .reverts = 1,
	 .elsewhere = true},
	{"writer, and a direct writer twice, with a revert", .writer = 1, .direct = 2, .reverts = 1,
	 .elsewhere = true},
	{NULL},
};

/* The cast is the smallest that shows what is wrong. */
static const Broken broken[] = {
	/* 1 */
	{"claim left out", NO_CLAIM, WRONG_OWNER_ROWS, {0}},
	/* 2 */
	{"close left out", NO_CLOSE, WRONG_OWNER_ROWS, {.writer = 1}},
	/* 3 */
	{"source not drained", NO_DRAIN, WRONG_OWNER_ROWS, {.direct = 1}},
	{"target not drained", NO_DRAIN_OF_TARGET, WRONG_OWNER_ROWS, {0}},
	{"drain does not give way, a writer is elsewhere",
	 DRAIN_UNBOUNDED,
	 WRONG_STUCK,
	 {.writer = 1, .elsewhere = true}},
	/* 4 */
	{"target not cleared", NO_CLEAR, WRONG_OWNER_ROWS, {0}},
	/* 5 */
	{"copy with a snapshot older than the drain", EARLY_SNAPSHOT, WRONG_OWNER_ROWS, {.direct = 1}},
	{"copy and delete in one transaction", ONE_TRANSACTION, WRONG_OWNER_ROWS, {0}},
	/* 7 */
	{"no wait before the cutover: a reader", NO_WAIT, WRONG_READ, {.reader = 1}},
	{"no wait before the cutover: a writer", NO_WAIT, WRONG_ERROR, {.writer = 1}},
	/* 8 */
	{"cutover not durable", CUTOVER_NOT_DURABLE, WRONG_OWNER_ROWS, {.writer = 1}},
	/* 10 */
	{"no wait before the source is cleaned", NO_WAIT_OLD, WRONG_READ, {.reader = 1}},
	/* giving way */
	{"gives way to pending always", GIVE_WAY_IS_PENDING, WRONG_STRAY_ROWS, {0}},
	/* the way back */
	{"revert without copying back",
	 REVERT_WITHOUT_COPY,
	 WRONG_OWNER_ROWS,
	 {.direct = 1, .reverts = 1}},
	{"revert without waiting first", NO_WAIT_FIRST, WRONG_READ, {.reader = 1, .reverts = 1}},
	{"revert under a live worker", REVERT_UNDER_WORKER, WRONG_OWNER_ROWS, {.reverts = 1}},
	{"pending before the way back is cleaned", BACK_IS_PENDING, WRONG_STRAY_ROWS, {.reverts = 1}},
	/* writers and readers */
	{"writer looks before it has the lock", LOOK_FIRST, WRONG_OWNER_ROWS, {.writer = 1}},
	{"direct writer looks before it has the lock", LOOK_FIRST, WRONG_OWNER_ROWS, {.direct = 1}},
	{"UPDATE without condition", NO_CONDITION, WRONG_LOST, {.writer = 1, .direct = 1}},
	{"direct writer does not check its session", NO_CHECK, WRONG_OWNER_ROWS, {.direct = 1}},
	{"view without a filter", NO_FILTER, WRONG_READ, {.reader = 1}},
	{NULL},
};

static const char *const what[] = {
	[FINE] = "nothing wrong",
	[WRONG_OWNER_ROWS] = "the owner has not the rows that were committed",
	[WRONG_STRAY_ROWS] = "rows where none should be",
	[WRONG_READ] = "a reader misses a committed row, or sees it twice",
	[WRONG_LOST] = "a write onto a row that its writer has not seen",
	[WRONG_ERROR] = "an error because of the move",
	[WRONG_STUCK] = "the migration cannot end any more",
};

static int tests;
static int failures;

static void
report(bool ok, const char *kind, const char *name, Result result)
{
	failures += !ok;
	printf("%s %d - %s, %s: %u states, %s", ok ? "ok" : "not ok", ++tests, kind, name,
		   result.states, what[result.wrong]);
	if (result.wrong != FINE)
		printf(" (%u steps)", result.steps);
	printf("\n");
	fflush(stdout);
}

static void
must_hold(Variant which, const char *kind, const Cast *list)
{
	variant = which;
	for (; list->name != NULL; list++)
	{
		Result result;

		cast = *list;
		result = explore(FINE, "# ");
		report(result.wrong == FINE, kind, list->name, result);
	}
}

static void
must_be_caught(void)
{
	for (const Broken *b = broken; b->name != NULL; b++)
	{
		Result result;

		variant = b->variant;
		cast = b->cast;
		result = explore(b->wrong, "# ");
		report(result.wrong == b->wrong, "caught", b->name, result);
	}
}

int
main(int argc, char **argv)
{
	if (argc == 1)
	{
		must_be_caught();
		must_hold(COMPLETE, "complete protocol", casts);
		must_hold(SKIP_WAITING, "without waiting for those who wait", casts + 1);
	}
	else if (argc == 2 && strcmp(argv[1], "full") == 0)
	{
		must_hold(COMPLETE, "complete protocol", larger_casts);
		must_hold(SKIP_WAITING, "without waiting for those who wait", larger_casts);
	}
	else
	{
		fprintf(stderr, "usage: %s [full]\n", argv[0]);
		return 2;
	}
	printf("1..%d\n", tests);
	return failures != 0;
}
