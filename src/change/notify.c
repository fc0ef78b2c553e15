/*
 * notify.c
 *		NOTIFY chash for every committed change.
 *
 * PostgreSQL refuses to PREPARE a transaction that has executed NOTIFY.  So
 * that rings can be changed under two-phase commit, the notices are kept here,
 * with the subtransaction they belong to, and handed over just before COMMIT.
 * PREPARE TRANSACTION drops them: what it commits later is not announced.
 */
#include "notify.h"

#include "access/xact.h"
#include "commands/async.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/json.h"
#include "utils/memutils.h"

typedef struct Notice
{
	SubTransactionId subtransaction;
	char *payload;
} Notice;

/* Lives in TopTransactionContext, in the order of the changes. */
static List *notices = NIL;

void
chash_notify(const char *ring, int64 epoch)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
	Notice *notice = palloc(sizeof(Notice));
	StringInfoData payload;

	initStringInfo(&payload);
	appendStringInfoString(&payload, "{\"ring\": ");
	escape_json(&payload, ring);
	if (epoch > 0)
		appendStringInfo(&payload, ", \"epoch\": %lld}", (long long) epoch);
	else
		appendStringInfoString(&payload, ", \"epoch\": null}");
	notice->subtransaction = GetCurrentSubTransactionId();
	notice->payload = payload.data;
	notices = lappend(notices, notice);
	MemoryContextSwitchTo(caller);
}

static void
transaction_ended(XactEvent event, void *argument)
{
	ListCell *cell;

	if (event == XACT_EVENT_PRE_COMMIT)
	{
		foreach(cell, notices)
			Async_Notify("chash", ((Notice *) lfirst(cell))->payload);
	}
	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE)
		notices = NIL;
}

static void
subtransaction_ended(SubXactEvent event, SubTransactionId subtransaction, SubTransactionId parent,
					 void *argument)
{
	ListCell *cell;

	if (event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	foreach(cell, notices)
	{
		Notice *notice = lfirst(cell);

		if (notice->subtransaction != subtransaction)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			notice->subtransaction = parent;
		else
			notices = foreach_delete_current(notices, cell);
	}
}

void
chash_notify_init(void)
{
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}
