/*
 * subscription.h
 *		Do rings of this database come from elsewhere, by logical replication?
 */
#ifndef CHASH_SUBSCRIPTION_H
#define CHASH_SUBSCRIPTION_H

#include "catalog.h"

/* Is chash_rings a table of some subscription in this database? */
extern bool chash_has_subscription(const ChashCatalog *catalog);

#endif
