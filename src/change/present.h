/*
 * present.h
 *		Rings as of this moment, and what has happened that a snapshot does not see.
 */
#ifndef CHASH_PRESENT_H
#define CHASH_PRESENT_H

#include "../store/definition.h"

/* Reads a ring, or its row alone, as of this moment; false if there is no such ring. */
extern bool chash_change_load_now(const ChashCatalog *catalog, const char *ring,
								  ChashDefinition *definition);
extern bool chash_change_fetch_now(const ChashCatalog *catalog, const char *ring,
								   ChashRingRow *row);

/*
 * Waits for those who are changing rings, and keeps others from it until the
 * end of the transaction: for rows that are restored.
 */
extern void chash_change_await(const ChashCatalog *catalog);

/*
 * Raises a serialization failure if there is a ring after all that only this
 * transaction's snapshot does not see.  To be called after chash_change_await.
 */
extern void chash_change_check_absent(const ChashCatalog *catalog, const char *ring);

/* Raises an error if there are rows of a ring that is about to be created. */
extern void chash_change_check_new(const ChashCatalog *catalog, const char *ring);

/*
 * Raises a serialization failure if, after the row of a ring has been inserted, the
 * snapshot still sees another ring of that name, or rows of it, that has been dropped.
 */
extern void chash_change_check_created(const ChashCatalog *catalog, const char *ring);

/* Raises a serialization failure if TRUNCATE would take rows that the snapshot does not see. */
extern void chash_change_check_truncate(const ChashCatalog *catalog);

#endif
