/*
 * change.h
 *		Changing rings: every write goes through here.
 *
 * A change of a ring's nodes, by a function or by direct DML, goes like this:
 *
 *	1. BEFORE ROW trigger: chash_ring_touch locks the ring's row and gives it a
 *	   new stamp before the first of its nodes changes; the node's row is
 *	   checked, and marked with the epoch to come.
 *	2. The row changes; AFTER ROW trigger: what it was like goes into the
 *	   history.
 *	3. AFTER STATEMENT trigger: chash_ring_settle completes the change: owners
 *	   of partitions, the whole checked, fingerprint, epoch, another stamp.
 *	   Functions that need several statements hold this step back until they
 *	   are through, so that they make one epoch.
 */
#ifndef CHASH_CHANGE_H
#define CHASH_CHANGE_H

#include "../store/definition.h"

/*
 * Is chash itself writing the rows of this ring?  Then triggers let pass what a
 * user may not write, and settling is held back.
 */
extern bool chash_is_changing(const char *ring);

/* For AFTER STATEMENT triggers: all rows of a statement are there now. */
extern void chash_statement_ended(void);

extern void chash_change_init(void);

/* Is session_replication_role replica, as it is where changes are replicated? */
extern bool chash_is_replica(void);

/*
 * Locks the row of a ring until the end of the transaction, and replaces its
 * stamp unless nobody can have seen the present one.  False if there is no
 * such ring.
 */
extern bool chash_ring_touch(const ChashCatalog *catalog, const char *ring);

/* Reads the row of a ring as of this moment; false if there is no such ring. */
extern bool chash_ring_fetch_now(const ChashCatalog *catalog, const char *ring, ChashRingRow *row);

/* Reads a ring as of this moment; false if there is no such ring. */
extern bool chash_ring_load_now(const ChashCatalog *catalog, const char *ring,
								ChashDefinition *definition);

/* Completes a change of a ring's nodes, if there is one to complete. */
extern void chash_ring_settle(const ChashCatalog *catalog, const char *ring);

/* Makes changes of a ring's nodes as one epoch, and returns the epoch. */
extern int64 chash_ring_change(const ChashCatalog *catalog, const char *ring,
							   const ChashChange *changes, uint32 count);

/* Creates a ring with its nodes, at the epoch that it has, and returns that. */
extern int64 chash_ring_create(const ChashCatalog *catalog, ChashDefinition *definition);

/*
 * Raises a serialization failure if there is a ring after all that only this
 * transaction's snapshot does not see.  To be called after chash_ring_await.
 */
extern void chash_ring_check_absent(const ChashCatalog *catalog, const char *ring);

/* Raises an error if there are rows of a ring that is about to be created. */
extern void chash_ring_check_new(const ChashCatalog *catalog, const char *ring);

/* Deletes the nodes and the history of a ring that has been deleted. */
extern void chash_ring_remove_rows(const ChashCatalog *catalog, const char *ring);

/*
 * Waits for those who are changing rings, and keeps others from it until the
 * end of the transaction: for rows that are restored.
 */
extern void chash_ring_await(const ChashCatalog *catalog);

extern void chash_ring_drop(const ChashCatalog *catalog, const char *ring);

/* Forgets history; returns how many epochs were forgotten. */
extern int64 chash_ring_prune(const ChashCatalog *catalog, const char *ring, int64 keep);

/*
 * Executes a statement with up to nine parameters, by SPI; each "@" in it
 * stands for the schema of the extension.  SPI must be connected.  Returns the
 * number of rows.
 */
typedef struct ChashParameter
{
	Oid type;
	Datum value;
	bool isnull;
} ChashParameter;

extern uint64 chash_execute(const ChashCatalog *catalog, const char *statement,
							const ChashParameter *parameters, int count);

/* The same as chash's own writing of a ring. */
extern uint64 chash_execute_own(const ChashCatalog *catalog, const char *ring,
								const char *statement, const ChashParameter *parameters, int count);

extern ChashParameter chash_text_parameter(const char *string);
extern ChashParameter chash_bigint_parameter(int64 value);

#endif
