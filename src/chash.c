/*
 * chash.c
 *		Module entry.
 */
#include "compat.h"

#include "ring/spec.h"
#include "cache/cache.h"
#include "store/catalog.h"
#include "change/change.h"
#include "cache/names.h"
#include "change/notify.h"
#include "cache/segment.h"
#include "cache/shared.h"

#include <limits.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"

CHASH_MODULE_MAGIC;

void _PG_init(void);

static void
check_for_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
}

void
_PG_init(void)
{
	chash_interrupt_hook = check_for_interrupts;
	chash_segment_init(chash_shared_format, chash_shared_init);
	chash_catalog_init();
	chash_cache_init();
	chash_lasting_names_init();
	chash_change_init();
	chash_notify_init();
	MarkGUCPrefixReserved("chash");
}
