/*
 * monitor.c
 *		Functions that show, and empty, the shared cache.
 */
#include "../compat.h"

#include "../cache/cache.h"
#include "../cache/segment.h"
#include "../store/values.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(chash_cache_rings);
PG_FUNCTION_INFO_V1(chash_cache_reset);

/*
 * The name of a ring, which may be another database's: what this one's encoding
 * has no characters for is shown as question marks.  (In a database with encoding
 * SQL_ASCII, names may be anything.)
 */
static char *
ring_name(const ChashRingLabel *label, bool foreign)
{
	char *name;

	if (!foreign || (GetDatabaseEncoding() == PG_UTF8 &&
					 pg_verify_mbstr(PG_UTF8, label->name, label->name_length, true)))
		return chash_from_utf8(label->name, label->name_length);
	name = pnstrdup(label->name, label->name_length);
	for (char *c = name; *c != '\0'; c++)
	{
		if (IS_HIGHBIT_SET(*c))
			*c = '?';
	}
	return name;
}

Datum
chash_cache_rings(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	uint32 count;
	ChashSharedStatus *list;

	InitMaterializedSRF(fcinfo, 0);
	if (!chash_shared_exists())
		ereport(NOTICE,
				(errmsg("there is no shared cache of chash: each session builds rings for itself"),
				 chash_segment_needs_preload() ?
				 errhint("Add \"chash\" to \"shared_preload_libraries\", and restart the server.") :
				 errhint("Set \"chash.cache_size\" above zero.")));
	list = chash_shared_list(&count);
	for (uint32 i = 0; i < count; i++)
	{
		const ChashSharedStatus *status = &list[i];
		bool foreign = status->key.database != MyDatabaseId;
		bool nameless = status->label.name_length == 0;
		Datum values[12];
		bool nulls[12] = {0};
		int n = 0;

		if (foreign && !all)
			continue;
		values[n++] = ObjectIdGetDatum((Oid) status->key.database);
		nulls[n] = nameless;
		values[n++] = CStringGetTextDatum(ring_name(&status->label, foreign));
		nulls[n] = nameless;
		values[n++] = Int64GetDatum(status->label.epoch);
		nulls[n] = nameless;
		values[n++] = BoolGetDatum(status->key.as_of != CHASH_NOW);
		nulls[n] = status->label.fingerprint[0] == '\0';
		values[n++] = CStringGetTextDatum(status->label.fingerprint);
		values[n++] = Int64GetDatum(status->points);
		values[n++] = Int64GetDatum((int64) status->bytes);
		values[n++] = Int32GetDatum((int32) status->pins);
		values[n++] = Int64GetDatum((int64) status->hits);
		values[n++] = Int64GetDatum((int64) status->builds);
		values[n++] = Int64GetDatum((int64) status->fallbacks);
		nulls[n] = nameless;
		values[n++] = TimestampTzGetDatum(status->last_used);
		Assert(n == result->setDesc->natts);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
chash_cache_reset(PG_FUNCTION_ARGS)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to empty the shared cache of chash")));
	chash_shared_reset();
	PG_RETURN_VOID();
}
