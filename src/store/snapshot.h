/*
 * snapshot.h
 *		The snapshot that a function reads the tables under.
 */
#ifndef CHASH_SNAPSHOT_H
#define CHASH_SNAPSHOT_H

#include "../compat.h"

/*
 * Sees to it that there is an active snapshot until chash_snapshot_end, which is
 * given the result.  An error in between needs no chash_snapshot_end.
 *
 * Nearly always the caller's statement has one.  But PL/pgSQL checks the constraints
 * of a domain without, and nothing says that nobody else does.
 */
extern bool chash_snapshot_begin(void);
extern void chash_snapshot_end(bool taken);

#endif
