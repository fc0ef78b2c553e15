/*
 * statements.c
 *		What is remembered from one row of a statement to the next.
 *
 * All of it lasts for the transaction only.  What a subtransaction has added goes when
 * the subtransaction is rolled back.
 */
#include "statements.h"

#include "../cache/cache.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

typedef struct Statement
{
	int level;			/* nest level of the (sub)transaction in which it was opened */
	dlist_head touched; /* rings, in the order in which they were added */
} Statement;

/* The outermost first; in TopTransactionContext, like all of this. */
static List *open_statements = NIL;

/* Rings touched by none: replicated ones. */
static dlist_head touched_by_none = DLIST_STATIC_INIT(touched_by_none);

/* By name: a row must find its ring fast where one statement touches many. */
typedef struct Named
{
	const char *ring; /* of its latest entry */
	ChashTouched *latest;
} Named;

static HTAB *touched_by_name = NULL;

int
chash_statements_open(void)
{
	return list_length(open_statements);
}

void
chash_statements_push(void)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
	Statement *statement = palloc(sizeof(Statement));

	statement->level = GetCurrentTransactionNestLevel();
	dlist_init(&statement->touched);
	open_statements = lappend(open_statements, statement);
	MemoryContextSwitchTo(caller);
	chash_cache_hold(list_length(open_statements));
}

void
chash_statements_pop(void)
{
	if (open_statements != NIL)
	{
		pfree(llast(open_statements));
		open_statements = list_delete_last(open_statements);
	}
	chash_cache_hold(list_length(open_statements));
}

static uint32
hash_name(const void *key, Size size)
{
	const char *name = *(const char *const *) key;

	return hash_bytes((const unsigned char *) name, (int) strlen(name));
}

static int
match_names(const void *a, const void *b, Size size)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static void
make_table(void)
{
	HASHCTL control = {
		.keysize = sizeof(char *),
		.entrysize = sizeof(Named),
		.hash = hash_name,
		.match = match_names,
		.hcxt = TopTransactionContext,
	};

	touched_by_name = hash_create("chash touched rings", 16, &control,
								  HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

ChashTouched *
chash_touched_make(const char *ring, ChashTouch touch, int statement)
{
	MemoryContext context =
		AllocSetContextCreate(TopTransactionContext, "chash change", ALLOCSET_SMALL_SIZES);
	ChashTouched *touched = MemoryContextAllocZero(context, sizeof(ChashTouched));

	touched->context = context;
	touched->ring = MemoryContextStrdup(context, ring);
	touched->statement = statement;
	touched->level = GetCurrentTransactionNestLevel();
	touched->touch = touch;
	return touched;
}

/* Makes an entry the one that is found by its name; `named` is there already, or new. */
static void
name_latest(ChashTouched *touched)
{
	Named *named;

	(void) hash_search(touched_by_name, &touched->ring, HASH_REMOVE, NULL);
	named = hash_search(touched_by_name, &touched->ring, HASH_ENTER, NULL);
	named->latest = touched;
}

/* Where the rings are that a statement has touched. */
static dlist_head *
touched_by(int statement)
{
	if (statement == 0)
		return &touched_by_none;
	return &((Statement *) list_nth(open_statements, statement - 1))->touched;
}

void
chash_touched_add(ChashTouched *touched)
{
	touched->earlier = chash_touched_find(touched->ring);
	if (touched_by_name == NULL)
		make_table();
	name_latest(touched);
	dlist_push_tail(touched_by(touched->statement), &touched->link);
}

ChashTouched *
chash_touched_find(const char *ring)
{
	Named *named;

	if (touched_by_name == NULL)
		return NULL;
	named = hash_search(touched_by_name, &ring, HASH_FIND, NULL);
	return named == NULL ? NULL : named->latest;
}

ChashTouched *
chash_touched_held(const char *ring)
{
	ChashTouched *touched = chash_touched_find(ring);

	if (touched == NULL || touched->dropped || touched->touch == CHASH_TOUCH_REPLICATED)
		return NULL;
	return touched;
}

/* Removes the latest entry of a ring. */
static void
remove_latest(ChashTouched *touched)
{
	if (touched->earlier != NULL)
		name_latest(touched->earlier);
	else
		(void) hash_search(touched_by_name, &touched->ring, HASH_REMOVE, NULL);
	dlist_delete(&touched->link);
	MemoryContextDelete(touched->context);
}

void
chash_touched_forget(const char *name, int statement)
{
	char *ring = pstrdup(name); /* it may be that of an entry */
	ChashTouched *touched;

	/* Those for outer statements come first. */
	while ((touched = chash_touched_find(ring)) != NULL && touched->statement >= statement)
		remove_latest(touched);
	pfree(ring);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

char **
chash_touched_rings(int statement, uint32 *count)
{
	dlist_head *touched_rings = touched_by(statement);
	dlist_iter iter;
	Size found = 0;
	char **rings;

	*count = 0;
	if (dlist_is_empty(touched_rings))
		return NULL;
	rings = palloc_array(char *, hash_get_num_entries(touched_by_name));
	dlist_foreach(iter, touched_rings)
	{
		const ChashTouched *touched = dlist_container(ChashTouched, link, iter.cur);

		if (chash_touched_find(touched->ring) == touched)
			rings[found++] = pstrdup(touched->ring);
	}
	if (found > 1)
		qsort(rings, found, sizeof(char *), compare_names);
	*count = (uint32) found;
	return rings;
}

static void
transaction_ended(XactEvent event, void *argument)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE ||
		event == XACT_EVENT_PARALLEL_PRE_COMMIT)
		return;

	/* The memory goes with the transaction. */
	open_statements = NIL;
	touched_by_name = NULL;
	dlist_init(&touched_by_none);
	chash_cache_hold(0);
}

/* Takes the rings that a subtransaction has added, which are the last ones. */
static void
end_touched(dlist_head *touched_rings, int level, bool aborted)
{
	dlist_node *node = dlist_is_empty(touched_rings) ? NULL : dlist_tail_node(touched_rings);

	while (node != NULL)
	{
		ChashTouched *touched = dlist_container(ChashTouched, link, node);

		if (touched->level < level)
			break;
		node = dlist_has_prev(touched_rings, node) ? dlist_prev_node(touched_rings, node) : NULL;
		if (aborted)
			remove_latest(touched);
		else
			touched->level = level - 1;
	}
}

static void
subtransaction_ended(SubXactEvent event, SubTransactionId subtransaction, SubTransactionId parent,
					 void *argument)
{
	int level = GetCurrentTransactionNestLevel();
	bool aborted = event == SUBXACT_EVENT_ABORT_SUB;

	if (event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	for (int i = list_length(open_statements); i-- > 0;)
	{
		Statement *statement = list_nth(open_statements, i);

		end_touched(&statement->touched, level, aborted);
		if (statement->level < level)
			continue;
		if (aborted)
			open_statements = list_delete_nth_cell(open_statements, i);
		else
			statement->level = level - 1;
	}
	end_touched(&touched_by_none, level, aborted);
	chash_cache_hold(list_length(open_statements));
}

void
chash_statements_init(void)
{
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}
