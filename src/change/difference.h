/*
 * difference.h
 *		What two versions of a ring differ by, and writing it.
 */
#ifndef CHASH_DIFFERENCE_H
#define CHASH_DIFFERENCE_H

#include "../store/definition.h"

/* A stamp that was never used before. */
extern void chash_change_new_version(pg_uuid_t *version);

/*
 * Completes what a ring is to be: partitions get their owners, nodes that are not as
 * before get the next epoch, and the whole is checked.  Tells whether there is a
 * difference at all.
 */
extern bool chash_difference_complete(const ChashDefinition *before, ChashDefinition *after);

/* Only gives nodes that are not as before the next epoch: the rest comes at the end. */
extern bool chash_difference_mark(const ChashDefinition *before, ChashDefinition *after);

/* Makes rows of chash_nodes, which are as `stored`, what `after` says. */
extern void chash_difference_write_nodes(const ChashCatalog *catalog, const ChashDefinition *stored,
										 const ChashDefinition *after);

/*
 * Records what nodes were like that are not so any more.  Tells whether anything
 * differs that past epochs are built from.
 */
extern bool chash_difference_write_history(const ChashCatalog *catalog,
										   const ChashDefinition *before,
										   const ChashDefinition *after);

/* Writes the ring's row, and with it that the ring is settled. */
extern void chash_difference_write_ring(const ChashCatalog *catalog, const ChashDefinition *after,
										bool new_version);

/* Puts back the digest that a touch took away, where nothing differs after all. */
extern void chash_difference_restore_digest(const ChashCatalog *catalog,
											const ChashDefinition *before);

/* Raises an error if nodes with epochs of their own were put into a complete ring. */
extern void chash_difference_check_restored(const ChashDefinition *before,
											const ChashDefinition *now);

#endif
