/*
 * catalog.c
 *		The extension's tables: where they are, and reading them.
 */
#include "catalog.h"

#include "values.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

static ChashCatalog known_catalog;
static uint64 invalidations = 0;

/* The count of invalidations at which known_catalog was found; 0: never. */
static uint64 known_at = 0;

/*
 * May run at any moment: touches nothing but the counter.  Until it is known
 * which tables matter, all do.
 */
static void
relation_invalidated(Datum argument, Oid relation)
{
	if (known_at != invalidations || relation == InvalidOid || relation == known_catalog.rings ||
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

/* Finds a table, and adds what its file and its triggers are at present to the era. */
static Oid
find_table(ChashCatalog *catalog, Relation triggers, const char *name, Oid schema)
{
	HeapTuple tuple = SearchSysCache2(RELNAMENSP, CStringGetDatum(name), ObjectIdGetDatum(schema));
	Oid table;
	ScanKeyData key;
	SysScanDesc scan;
	struct
	{
		Oid object;
		uint32 version; /* of it */
		uint32 state;
	} part;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table %s of the extension \"chash\" is missing", name)));
	table = ((Form_pg_class) GETSTRUCT(tuple))->oid;
	part.object = table;
	part.version = ((Form_pg_class) GETSTRUCT(tuple))->relfilenode;
	part.state = 0;
	ReleaseSysCache(tuple);
	catalog->era = hash_bytes_extended((const unsigned char *) &part, sizeof(part), catalog->era);

	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(triggers, TriggerRelidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);

		if (strncmp(NameStr(trigger->tgname), "chash_", 6) != 0)
			continue;
		part.object = trigger->oid;
		part.version = HeapTupleHeaderGetRawXmin(tuple->t_data);
		part.state = trigger->tgenabled;
		catalog->era =
			hash_bytes_extended((const unsigned char *) &part, sizeof(part), catalog->era);
		catalog->guarded &= trigger->tgenabled == TRIGGER_FIRES_ALWAYS;
		if (catalog->trigger_count < CHASH_TRIGGERS)
			catalog->trigger_xids[catalog->trigger_count++] = HeapTupleHeaderGetXmin(tuple->t_data);
		else
			catalog->guarded = false;
	}
	systable_endscan(scan);
	return table;
}

static void
find_catalog(Oid function, ChashCatalog *catalog)
{
	Oid schema = get_func_namespace(function);
	Relation triggers;

	if (!OidIsValid(schema))
		elog(ERROR, "cache lookup failed for function %u", function);
	memset(catalog, 0, sizeof(*catalog));
	catalog->guarded = true;
	triggers = table_open(TriggerRelationId, AccessShareLock);
	catalog->rings = find_table(catalog, triggers, "chash_rings", schema);
	catalog->nodes = find_table(catalog, triggers, "chash_nodes", schema);
	catalog->history = find_table(catalog, triggers, "chash_node_history", schema);
	table_close(triggers, AccessShareLock);
	catalog->guarded &= catalog->trigger_count == CHASH_TRIGGERS;
}

const ChashCatalog *
chash_catalog(Oid function)
{
	/* Invalidations that come while it is being read make it be read again. */
	while (known_at != invalidations)
	{
		uint64 now = invalidations;
		ChashCatalog catalog;

		find_catalog(function, &catalog);

		known_catalog = catalog;
		known_at = now;
	}
	return &known_catalog;
}

bool
chash_catalog_reliable(const ChashCatalog *catalog, Snapshot snapshot)
{
	if (!catalog->guarded)
		return false;

	/*
	 * Whoever enables triggers waits for those who write the tables.  So who
	 * sees the triggers as they are now sees what was written without them.
	 */
	for (int i = 0; i < catalog->trigger_count; i++)
	{
		TransactionId xid = catalog->trigger_xids[i];

		if (!TransactionIdIsNormal(xid) || (i > 0 && xid == catalog->trigger_xids[i - 1]))
			continue;
		if (XidInMVCCSnapshot(xid, snapshot) || TransactionIdIsCurrentTransactionId(xid))
			return false;
	}
	return true;
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
	static const Oid rings[] = {TEXTOID, TEXTOID, TEXTOID, INT4OID, INT4OID, BOOLOID,
								INT4OID, INT8OID, TEXTOID, INT8OID, UUIDOID};
	static const Oid nodes[] = {TEXTOID,	  TEXTOID,		NUMERICOID, TEXTOID, TEXTOID,
								INT8ARRAYOID, INT4ARRAYOID, JSONBOID,	INT8OID};
	static const Oid history[] = {TEXTOID,	  TEXTOID, INT8OID,		 INT8OID,
								  NUMERICOID, TEXTOID, INT8ARRAYOID, INT4ARRAYOID};
	TupleDesc descriptor = RelationGetDescr(table);
	Oid oid = RelationGetRelid(table);
	const Oid *types = oid == catalog->rings ? rings : oid == catalog->nodes ? nodes : history;
	int columns = oid == catalog->rings	  ? (int) lengthof(rings)
				  : oid == catalog->nodes ? (int) lengthof(nodes)
										  : (int) lengthof(history);
	bool right = descriptor->natts == columns;

	StaticAssertStmt(lengthof(rings) == RINGS_COLUMNS && lengthof(nodes) == NODES_COLUMNS &&
						 lengthof(history) == HISTORY_COLUMNS,
					 "columns and their types differ in number");
	for (int i = 0; i < columns && right; i++)
		right = !TupleDescAttr(descriptor, i)->attisdropped &&
				TupleDescAttr(descriptor, i)->atttypid == types[i];
	if (!right)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" does not have the columns that chash gave it",
						RelationGetRelationName(table)),
				 errhint("Do not alter tables of the extension; keep what you want to add in a table of your own.")));
}

static Oid
function_owner(Oid function)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner;
}

static void
check_triggers(Relation table)
{
	TriggerDesc *triggers;

	if (table->trigdesc == NULL)
		return;

	/* A copy, since the lookups below can make PostgreSQL build another one. */
	triggers = CopyTriggerDesc(table->trigdesc);
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		Oid owner = function_owner(triggers->triggers[i].tgfoid);

		/* Nobody knows whose a WHEN clause is. */
		if (triggers->triggers[i].tgqual != NULL ||
			(owner != table->rd_rel->relowner && !superuser_arg(owner)))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("trigger \"%s\" on table \"%s\" is not the table owner's, or has a WHEN clause",
							triggers->triggers[i].tgname, RelationGetRelationName(table)),
					 errdetail("It would run with the rights of the extension's owner."),
					 errhint("Drop it, and grant nobody TRIGGER on tables of the extension.")));
	}
	FreeTriggerDesc(triggers);
}

void
chash_catalog_check_triggers(const ChashCatalog *catalog)
{
	const Oid tables[] = {catalog->rings, catalog->nodes, catalog->history};

	for (int i = 0; i < (int) lengthof(tables); i++)
	{
		/* As a writer does, which CREATE TRIGGER has to wait for. */
		Relation table = table_open(tables[i], RowExclusiveLock);

		check_triggers(table);
		table_close(table, NoLock);
	}
}

/* Starts a scan by the first column of the table's primary key, a text. */
static SysScanDesc
begin_scan(Relation table, const char *ring, Snapshot snapshot)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(ring));
	return systable_beginscan(table, RelationGetPrimaryKeyIndex(table, false), true, snapshot, 1,
							  &key);
}

bool
chash_catalog_has_ring(const ChashCatalog *catalog, const char *ring, Snapshot snapshot)
{
	Relation table = table_open(catalog->rings, AccessShareLock);
	SysScanDesc scan = begin_scan(table, ring, snapshot);
	bool found = HeapTupleIsValid(systable_getnext(scan));

	systable_endscan(scan);
	table_close(table, NoLock);
	return found;
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
		row->own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
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
