/*
 * subscription.c
 *		Do the rings of this database arrive by logical replication?
 */
#include "subscription.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_subscription_rel.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

bool
chash_has_subscription(const ChashCatalog *catalog)
{
	Relation relations = table_open(SubscriptionRelRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	bool found;

	ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(catalog->rings));
	scan = systable_beginscan(relations, SubscriptionRelSrrelidSrsubidIndexId, true, NULL, 1, &key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(relations, AccessShareLock);
	return found;
}
