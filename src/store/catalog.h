/*
 * catalog.h
 *		The extension's tables: where they are, and reading them.
 *
 * Tables are read by OID, under the snapshot that the caller gives.  The caller's
 * search_path and privileges do not matter.
 */
#ifndef CHASH_CATALOG_H
#define CHASH_CATALOG_H

#include "../compat.h"

#include "access/attnum.h"
#include "../ring/spec.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"
#include "utils/uuid.h"

/* Columns, in the order of the CREATE TABLE statements. */
enum
{
	RINGS_RING = 1,
	RINGS_PLACEMENT,
	RINGS_HASH,
	RINGS_VNODES,
	RINGS_PARTITIONS,
	RINGS_HASH_TAGS,
	RINGS_REPLICAS,
	RINGS_EPOCH,
	RINGS_FINGERPRINT,
	RINGS_HISTORY_FROM,
	RINGS_VERSION,
	RINGS_DIGEST,
	RINGS_REPLICATED,
	RINGS_COLUMNS = RINGS_REPLICATED,
	RINGS_OLDER_COLUMNS = RINGS_VERSION /* before 0.3.0 */
};

enum
{
	NODES_RING = 1,
	NODES_NODE,
	NODES_WEIGHT,
	NODES_ZONE,
	NODES_STATE,
	NODES_TOKENS,
	NODES_HELD_PARTITIONS,
	NODES_INFO,
	NODES_EPOCH,
	NODES_COLUMNS = NODES_EPOCH
};

enum
{
	HISTORY_RING = 1,
	HISTORY_NODE,
	HISTORY_FROM_EPOCH,
	HISTORY_TO_EPOCH,
	HISTORY_WEIGHT,
	HISTORY_ZONE,
	HISTORY_TOKENS,
	HISTORY_HELD_PARTITIONS,
	HISTORY_COLUMNS = HISTORY_HELD_PARTITIONS
};

/* Room for the columns of any of the tables. */
#define CHASH_MAX_COLUMNS ((int) RINGS_COLUMNS)

StaticAssertDecl(CHASH_MAX_COLUMNS >= (int) NODES_COLUMNS &&
					 CHASH_MAX_COLUMNS >= (int) HISTORY_COLUMNS,
				 "CHASH_MAX_COLUMNS has no room for all columns");

/* As many triggers has the extension's script made. */
#define CHASH_TRIGGERS 13

/* The tables, and the triggers that make what happens to them known. */
#define CHASH_TABLES 3
#define CHASH_OBJECTS (CHASH_TABLES + CHASH_TRIGGERS)

/*
 * The extension's tables in this database, and whether the rows of chash_rings
 * tell of every change of them.  Two things change rows silently: TRUNCATE and
 * rewriting ALTERs, which older snapshots see too, and users who disable the
 * triggers.  So what is built from the tables is good for one era: another one
 * begins when a table gets a new file or a trigger is altered.
 */
typedef struct ChashCatalog
{
	Oid function; /* by which it was found */
	Oid rings;
	Oid nodes;
	Oid history;
	uint64 era;
	bool guarded; /* all triggers are there, and fire always */
	int object_count;
	TransactionId written[CHASH_OBJECTS]; /* who wrote the catalog rows, tables first */
} ChashCatalog;

/* A row of chash_rings.  Strings are in the database's encoding. */
typedef struct ChashRingRow
{
	char *ring;
	ChashPlacement placement;
	const ChashHash *hash;
	uint32 vnodes;	   /* 0 with other placements */
	uint32 partitions; /* 0 with other placements */
	bool hash_tags;
	int32 replicas;
	int64 epoch;
	int64 history_from;
	char *fingerprint;
	pg_uuid_t version; /* never the same for two histories of the ring */
	bool has_digest;   /* not while a change is being made */
	pg_uuid_t digest;  /* see chash_definition_digest */
	bool replicated;   /* came by logical replication */
	bool own;		   /* written by this transaction */
} ChashRingRow;

/* Called with each row of a scan, its columns deformed. */
typedef void (*ChashRowCallback)(Datum *values, bool *nulls, void *argument);

/* Registers the callback that notices when the tables change their shape or OID. */
extern void chash_catalog_init(void);

/*
 * Finds the extension's tables, by any function of the extension: they are in
 * the schema that it is in.  The result holds until the next call.
 */
extern const ChashCatalog *chash_catalog(Oid function);

/*
 * Locks the tables as their writers do, and checks that they can be written: they
 * are still there and of this version, and nobody but their owners, and superusers,
 * has put triggers on them, which would run with the rights of chash's owner.
 * Tells whether there are such triggers of the owners.
 */
extern bool chash_catalog_prepare_write(const ChashCatalog *catalog);

/* Raises a serialization failure if a table is newer than a snapshot, which misses its rows then. */
extern void chash_catalog_check_readable(const ChashCatalog *catalog, Snapshot snapshot);

/* The same for who is about to write, by the transaction's snapshot. */
extern void chash_catalog_check_snapshot(const ChashCatalog *catalog);

/*
 * Does a ring's row that the snapshot sees say all about the rows that it sees?
 * Not while triggers are disabled, nor for snapshots taken before they were enabled
 * or before a table got a new file.
 */
extern bool chash_catalog_reliable(const ChashCatalog *catalog, Snapshot snapshot);

/*
 * Checks that a table has the columns that the extension's script gave it, no
 * more and no fewer; false if that was the script of an older version.
 */
extern bool chash_catalog_check_columns(const ChashCatalog *catalog, Relation table);

/* The name of the extension's schema, quoted; an error if it is not there any more. */
extern const char *chash_catalog_schema(const ChashCatalog *catalog);

/* What chash_catalog gave last. */
extern const ChashCatalog *chash_catalog_known(void);

/* Are all triggers there, as far as is known without looking? */
extern bool chash_catalog_is_guarded(void);

/*
 * Counts the invalidations that have come for the tables; whatever has been
 * read from them before the count changed should be read again.
 */
extern uint64 chash_catalog_invalidations(void);

/*
 * Reads the row of a ring; false if there is none.  Keeps an AccessShareLock
 * on the table until the end of the transaction, as a query would.
 */
extern bool chash_catalog_fetch_ring(const ChashCatalog *catalog, const char *ring,
									 Snapshot snapshot, ChashRingRow *row);

/* Is there a row of that ring, whatever may be in it? */
extern bool chash_catalog_has_ring(const ChashCatalog *catalog, const char *ring,
								   Snapshot snapshot);

/* Calls back with each of a ring's rows in chash_nodes or chash_node_history. */
extern void chash_catalog_scan(const ChashCatalog *catalog, Oid table, const char *ring,
							   Snapshot snapshot, ChashRowCallback callback, void *argument);

/* The error for tables that the present version does not write. */
pg_noreturn extern void chash_report_older_script(void);

/* The error for a ring that is not there. */
pg_noreturn extern void chash_report_unknown_ring(const char *ring);

#endif
