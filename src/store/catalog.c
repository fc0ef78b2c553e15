/*
 * catalog.c
 *		The extension's tables: where they are, and reading them.
 */
#include "catalog.h"

#include "values.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

static ChashCatalog known_catalog;
static uint64 invalidations = 0;

/* The count of invalidations at which known_catalog was found; 0: never. */
static uint64 known_at = 0;

/* May run at any moment: touches nothing but the counter. */
static void
relation_invalidated(Datum argument, Oid relation)
{
	if (relation == InvalidOid || relation == known_catalog.rings ||
		relation == known_catalog.nodes || relation == known_catalog.history)
		invalidations++;
}

void
chash_catalog_init(void)
{
	invalidations = 1;
	CacheRegisterRelcacheCallback(relation_invalidated, (Datum) 0);
}

uint64
chash_catalog_invalidations(void)
{
	return invalidations;
}

static Oid
find_table(const char *name, Oid schema)
{
	Oid table = get_relname_relid(name, schema);

	if (!OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table %s of the extension \"chash\" is missing", name)));
	return table;
}

const ChashCatalog *
chash_catalog(Oid function)
{
	while (known_at != invalidations)
	{
		uint64 now = invalidations;
		Oid schema = get_func_namespace(function);

		if (!OidIsValid(schema))
			elog(ERROR, "cache lookup failed for function %u", function);
		known_catalog.rings = find_table("chash_rings", schema);
		known_catalog.nodes = find_table("chash_nodes", schema);
		known_catalog.history = find_table("chash_node_history", schema);
		known_at = now;
	}
	return &known_catalog;
}

void
chash_report_unknown_ring(const char *ring)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("ring \"%s\" does not exist", chash_clip(ring)),
			 errhint("Create it with chash_create_ring; table chash_rings lists those that exist.")));
}

void
chash_catalog_check_columns(const ChashCatalog *catalog, Relation table)
{
	Oid oid = RelationGetRelid(table);
	int columns = oid == catalog->rings	  ? (int) RINGS_COLUMNS
				  : oid == catalog->nodes ? (int) NODES_COLUMNS
										  : (int) HISTORY_COLUMNS;

	if (RelationGetDescr(table)->natts != columns)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" does not have the columns that chash gave it",
						RelationGetRelationName(table)),
				 errhint("Do not alter tables of the extension; keep what you want to add in a table of your own.")));
}

/* Starts a scan by the first column of the table's primary key, a text. */
static SysScanDesc
begin_scan(Relation table, const char *ring, Snapshot snapshot)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(ring));
	return systable_beginscan(table, RelationGetPrimaryKeyIndex(table), true, snapshot, 1, &key);
}

bool
chash_catalog_fetch_ring(const ChashCatalog *catalog, const char *ring, Snapshot snapshot,
						 ChashRingRow *row)
{
	Relation table = table_open(catalog->rings, AccessShareLock);
	SysScanDesc scan;
	HeapTuple tuple;

	chash_catalog_check_columns(catalog, table);
	scan = begin_scan(table, ring, snapshot);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Datum values[RINGS_COLUMNS];
		bool nulls[RINGS_COLUMNS];
		char *hash;
		char *placement;

		heap_deform_tuple(tuple, RelationGetDescr(table), values, nulls);
		placement = TextDatumGetCString(values[RINGS_PLACEMENT - 1]);
		hash = TextDatumGetCString(values[RINGS_HASH - 1]);
		row->ring = pstrdup(ring);
		row->hash = chash_hash_by_name(hash);
		if (row->hash == NULL || !chash_placement_by_name(placement, &row->placement))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("ring \"%s\" has placement \"%s\" and hash \"%s\", which this version of chash does not know",
							ring, placement, hash)));
		row->vnodes = nulls[RINGS_VNODES - 1] ? 0 : DatumGetInt32(values[RINGS_VNODES - 1]);
		row->partitions =
			nulls[RINGS_PARTITIONS - 1] ? 0 : DatumGetInt32(values[RINGS_PARTITIONS - 1]);
		if (row->placement == CHASH_PARTITIONS &&
			(row->partitions == 0 || (row->partitions & (row->partitions - 1)) != 0))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("ring \"%s\" has a number of partitions that is not a power of two",
							ring)));
		row->hash_tags = DatumGetBool(values[RINGS_HASH_TAGS - 1]);
		row->replicas = DatumGetInt32(values[RINGS_REPLICAS - 1]);
		row->epoch = DatumGetInt64(values[RINGS_EPOCH - 1]);
		row->history_from = DatumGetInt64(values[RINGS_HISTORY_FROM - 1]);
		row->fingerprint = TextDatumGetCString(values[RINGS_FINGERPRINT - 1]);
		row->version = *DatumGetUUIDP(values[RINGS_VERSION - 1]);
	}
	systable_endscan(scan);
	table_close(table, NoLock);
	return HeapTupleIsValid(tuple);
}

void
chash_catalog_scan(const ChashCatalog *catalog, Oid table_oid, const char *ring, Snapshot snapshot,
				   ChashRowCallback callback, void *argument)
{
	Relation table = table_open(table_oid, AccessShareLock);
	SysScanDesc scan;
	HeapTuple tuple;

	chash_catalog_check_columns(catalog, table);
	scan = begin_scan(table, ring, snapshot);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Datum values[CHASH_MAX_COLUMNS];
		bool nulls[CHASH_MAX_COLUMNS];

		CHECK_FOR_INTERRUPTS();
		heap_deform_tuple(tuple, RelationGetDescr(table), values, nulls);
		callback(values, nulls, argument);
	}
	systable_endscan(scan);
	table_close(table, NoLock);
}
