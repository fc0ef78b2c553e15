/*
 * write.h
 *		Writing the difference of two versions of a ring.
 */
#ifndef CHASH_WRITE_H
#define CHASH_WRITE_H

#include "../store/definition.h"

/* A stamp that was never used before. */
extern void chash_change_new_version(pg_uuid_t *version);

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
