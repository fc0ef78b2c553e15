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

const ChashCatalog *
chash_catalog_known(void)
{
	return &known_catalog;
}

bool
chash_catalog_is_guarded(void)
{
	return known_at == invalidations && known_catalog.guarded;
}

uint64
chash_catalog_invalidations(void)
{
	return invalidations;
}

/* Another session can drop the extension while this one is about to use it. */
pg_noreturn static void report_dropped(void);

static void
report_dropped(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("the tables of the extension \"chash\" are not there any more")));
}

/* Finds a table, and adds what its file and its triggers are at present to the era. */
static Oid
find_table(ChashCatalog *catalog, int number, Relation triggers, const char *name, Oid schema)
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
	catalog->written[number] = HeapTupleHeaderGetXmin(tuple->t_data);
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
		if (catalog->object_count < CHASH_OBJECTS)
			catalog->written[catalog->object_count++] = HeapTupleHeaderGetXmin(tuple->t_data);
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
		report_dropped();
	memset(catalog, 0, sizeof(*catalog));
	catalog->function = function;
	catalog->guarded = true;
	catalog->object_count = CHASH_TABLES;
	triggers = table_open(TriggerRelationId, AccessShareLock);
	catalog->rings = find_table(catalog, 0, triggers, "chash_rings", schema);
	catalog->nodes = find_table(catalog, 1, triggers, "chash_nodes", schema);
	catalog->history = find_table(catalog, 2, triggers, "chash_node_history", schema);
	table_close(triggers, AccessShareLock);
	catalog->guarded &= catalog->object_count == CHASH_OBJECTS;
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

/* Is what a transaction has written in a catalog newer than a snapshot? */
static bool
is_newer(TransactionId xid, Snapshot snapshot)
{
	return TransactionIdIsNormal(xid) && !TransactionIdIsCurrentTransactionId(xid) &&
		   XidInMVCCSnapshot(xid, snapshot);
}

bool
chash_catalog_reliable(const ChashCatalog *catalog, Snapshot snapshot)
{
	if (!catalog->guarded)
		return false;

	/*
	 * Whoever enables triggers, or gives a table a new file, waits for those who
	 * write the tables.  So who sees the catalogs as they are now sees what was
	 * written before.
	 */
	for (int i = 0; i < catalog->object_count; i++)
	{
		TransactionId xid = catalog->written[i];

		if (i > 0 && xid == catalog->written[i - 1])
			continue;
		if (is_newer(xid, snapshot) || TransactionIdIsCurrentTransactionId(xid))
			return false;
	}
	return true;
}

void
chash_catalog_check_readable(const ChashCatalog *catalog, Snapshot snapshot)
{
	for (int i = 0; i < CHASH_TABLES; i++)
	{
		if (is_newer(catalog->written[i], snapshot))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("tables of chash have been altered or truncated since the transaction began"),
					 errhint("Repeat the transaction.")));
	}
}

void
chash_catalog_check_snapshot(const ChashCatalog *catalog)
{
	if (!IsolationUsesXactSnapshot())
		return;

	/* The tables are locked only now, and can be others than when they were found. */
	(void) chash_catalog_prepare_write(catalog);
	chash_catalog_check_readable(chash_catalog(catalog->function), GetTransactionSnapshot());
}

const char *
chash_catalog_schema(const ChashCatalog *catalog)
{
	char *name = get_namespace_name(get_rel_namespace(catalog->rings));

	if (name == NULL)
		report_dropped();
	return quote_identifier(name);
}

void
chash_report_unknown_ring(const char *ring)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("ring \"%s\" does not exist", chash_clip(ring)),
			 ring[0] == '{' || ring[0] == '[' ?
			 errhint("This looks like JSON: name the argument, as in changes => '{...}'.") :
			 errhint("Create it with chash_create_ring; table chash_rings lists those that exist.")));
}

bool
chash_catalog_check_columns(const ChashCatalog *catalog, Relation table)
{
	static const Oid rings[] = {TEXTOID, TEXTOID, TEXTOID, INT4OID, INT4OID, BOOLOID, INT4OID,
								INT8OID, TEXTOID, INT8OID, UUIDOID, UUIDOID, BOOLOID};
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
	bool older = oid == catalog->rings && descriptor->natts == RINGS_OLDER_COLUMNS;
	bool right;

	StaticAssertStmt(lengthof(rings) == RINGS_COLUMNS && lengthof(nodes) == NODES_COLUMNS &&
						 lengthof(history) == HISTORY_COLUMNS,
					 "columns and their types differ in number");
	columns = older ? RINGS_OLDER_COLUMNS : columns;
	right = descriptor->natts == columns;
	for (int i = 0; i < columns && right; i++)
		right = !TupleDescAttr(descriptor, i)->attisdropped &&
				TupleDescAttr(descriptor, i)->atttypid == types[i];
	if (!right)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" does not have the columns that chash gave it",
						RelationGetRelationName(table)),
				 errhint("Do not alter tables of the extension; keep what you want to add in a table of your own.")));
	return !older;
}

void
chash_report_older_script(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the tables of chash are those of an older version"),
			 errhint("Run ALTER EXTENSION chash UPDATE.")));
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

/* Checks the triggers of a table; tells whether there are others than chash's. */
static bool
check_triggers(Relation table)
{
	TriggerDesc *triggers;
	bool others = false;

	if (table->trigdesc == NULL)
		return false;

	/* A copy, since the lookups below can make PostgreSQL build another one. */
	triggers = CopyTriggerDesc(table->trigdesc);
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		Oid owner = function_owner(triggers->triggers[i].tgfoid);

		/* A WHEN expression has no recorded owner. */
		if (triggers->triggers[i].tgqual != NULL ||
			(owner != table->rd_rel->relowner && !superuser_arg(owner)))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("trigger \"%s\" on table \"%s\" is not the table owner's, or has a WHEN clause",
							triggers->triggers[i].tgname, RelationGetRelationName(table)),
					 errdetail("It would run with the rights of the extension's owner."),
					 errhint("Drop it, and grant nobody TRIGGER on tables of the extension.")));
		others |= strncmp(triggers->triggers[i].tgname, "chash_", 6) != 0;
	}
	FreeTriggerDesc(triggers);
	return others;
}

bool
chash_catalog_prepare_write(const ChashCatalog *catalog)
{
	const Oid tables[CHASH_TABLES] = {catalog->rings, catalog->nodes, catalog->history};
	bool others = false;

	for (int i = 0; i < CHASH_TABLES; i++)
	{
		/* As a writer does, which CREATE TRIGGER has to wait for. */
		Relation table = try_table_open(tables[i], RowExclusiveLock);

		if (table == NULL)
			report_dropped();
		if (!chash_catalog_check_columns(catalog, table))
			chash_report_older_script();
		others |= check_triggers(table);
		table_close(table, NoLock);
	}
	return others;
}

/* Opens a table for reading; it can have been dropped since it was found. */
static Relation
open_table(Oid oid)
{
	Relation table = try_table_open(oid, AccessShareLock);

	if (table == NULL)
		report_dropped();
	return table;
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
	Relation table = open_table(catalog->rings);
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
	Relation table = open_table(catalog->rings);
	SysScanDesc scan;
	HeapTuple tuple;
	bool older = !chash_catalog_check_columns(catalog, table);

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
		row->has_digest = !older && !nulls[RINGS_DIGEST - 1];
		if (row->has_digest)
			row->digest = *DatumGetUUIDP(values[RINGS_DIGEST - 1]);
		row->replicated = !older && DatumGetBool(values[RINGS_REPLICATED - 1]);
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
	Relation table = open_table(table_oid);
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
