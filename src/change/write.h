/*
 * write.h
 *		Writing the difference of two versions of a ring.
 */
#ifndef CHASH_WRITE_H
#define CHASH_WRITE_H

#include "change.h"

/* A stamp that was never used before. */
extern void chash_change_new_version(pg_uuid_t *version);

/*
 * Marks the row of a ring: it has no digest while it is being changed, and another stamp
 * once its rows are others.  False if there is no such ring.
 */
extern bool chash_write_mark(const ChashCatalog *catalog, const char *ring, ChashTouch touch);

/* Deletes nodes and history of a ring that is not there any more. */
extern void chash_write_removal(const ChashCatalog *catalog, const char *ring);

/* Makes rows of chash_nodes, which are as `stored`, what `after` says. */
extern void chash_write_nodes(const ChashCatalog *catalog, const ChashDefinition *stored,
							  const ChashDefinition *after);

/*
 * Records what nodes were like that are not so any more.  Tells whether anything
 * differs that past epochs are built from.
 */
extern bool chash_write_history(const ChashCatalog *catalog, const ChashDefinition *before,
								const ChashDefinition *after);

/* Writes the ring's row, and with it that the ring is settled. */
extern void chash_write_ring(const ChashCatalog *catalog, const ChashDefinition *after,
							 bool new_version);

/* Puts back the digest that a touch took away, where nothing differs after all. */
extern void chash_write_old_digest(const ChashCatalog *catalog, const ChashDefinition *before);

#endif
