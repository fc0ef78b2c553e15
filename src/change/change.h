/*
 * change.h
 *		The road of a change: every change of a ring takes it.
 *
 * settle.c opens with how it runs.  Nothing here checks privileges: SQL has done that.
 */
#ifndef CHASH_CHANGE_H
#define CHASH_CHANGE_H

#include "../store/definition.h"

/* Why a statement touches a ring. */
typedef enum ChashTouch
{
	CHASH_TOUCH_RESTORED,	/* rows that have their epochs are put in */
	CHASH_TOUCH_REPLICATED, /* the same by logical replication */
	CHASH_TOUCH_CHANGED		/* somebody changes it */
} ChashTouch;

extern void chash_change_init(void);

/* Is session_replication_role replica, as it is where changes are replicated? */
extern bool chash_is_replica(void);

/*
 * A statement begins to write one of the tables, or chash to write a change of its
 * own; and ends, upon which the rings that it touched first are settled.
 */
extern void chash_change_open(void);
extern void chash_change_close(const ChashCatalog *catalog);

/* Is a statement writing the tables?  Logical replication writes rows without one. */
extern bool chash_change_is_open(void);

/*
 * Before a row of a ring changes: locks the ring, and gives what it was before the
 * statement; NULL if there is no such ring.
 */
extern const ChashDefinition *chash_change_touch(const ChashCatalog *catalog, const char *ring,
												 ChashTouch touch);

/*
 * Before a row that logical replication writes; `nodes`: of chash_nodes.  False if
 * there is no such ring.
 */
extern bool chash_change_touch_replicated(const ChashCatalog *catalog, const char *ring,
										  bool nodes);

/* For the ring's own row: what was replicated is looked at before the commit. */
extern void chash_change_note_replicated(const char *ring);

/* The same before the ring's own row is updated, which has been locked already. */
extern const ChashDefinition *chash_change_touch_row(const ChashCatalog *catalog, const char *ring);

/* After a row of chash_rings has been inserted, or deleted, by others than chash_change_create. */
extern void chash_change_created(const ChashCatalog *catalog, const char *ring);
extern void chash_change_dropped(const ChashCatalog *catalog, const char *ring);

/* Raises an error if changes of a ring belong elsewhere: it comes by subscription. */
extern void chash_change_check_home(const ChashCatalog *catalog, const ChashRingRow *ring);

/*
 * Makes changes of a ring's nodes as one epoch, and returns it; the present one if
 * nothing differs.  With if_epoch, raises an error unless the ring is at that epoch.
 */
extern int64 chash_change_nodes(const ChashCatalog *catalog, const char *ring,
								const ChashChange *changes, uint32 count, const int64 *if_epoch);

/* Creates a ring with its nodes, at the epoch that it has. */
extern void chash_change_create(const ChashCatalog *catalog, ChashDefinition *definition);

extern void chash_change_drop(const ChashCatalog *catalog, const char *ring);

/* Forgets history; returns how many epochs were forgotten. */
extern int64 chash_change_prune(const ChashCatalog *catalog, const char *ring, int64 keep);

#endif
