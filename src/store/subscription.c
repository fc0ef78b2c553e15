/*
 * subscription.c
 *		Do rings of this database come from elsewhere, by logical replication?
 */
#include "subscription.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_subscription_rel.h"
#include "utils/fmgroids.h"

bool
chash_has_subscription(const ChashCatalog *catalog)
{
	Relation tables = table_open(SubscriptionRelRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	bool found;

	/* No index begins with the table, but there are only as many rows as tables. */
	ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(catalog->rings));
	scan = systable_beginscan(tables, InvalidOid, false, NULL, 1, &key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(tables, AccessShareLock);
	return found;
}
