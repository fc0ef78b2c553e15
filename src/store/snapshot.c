/*
 * snapshot.c
 *		The snapshot that a function reads the tables under.
 */
#include "snapshot.h"

#include "utils/snapmgr.h"

bool
chash_snapshot_begin(void)
{
	if (ActiveSnapshotSet())
		return false;
	PushActiveSnapshot(GetTransactionSnapshot());
	return true;
}

void
chash_snapshot_end(bool taken)
{
	if (taken)
		PopActiveSnapshot();
}
