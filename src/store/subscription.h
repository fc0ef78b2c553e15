/*
 * subscription.h
 *		Do the rings of this database arrive by logical replication?
 */
#ifndef CHASH_SUBSCRIPTION_H
#define CHASH_SUBSCRIPTION_H

#include "catalog.h"

/* Is chash_rings a table of a subscription, be it enabled or not? */
extern bool chash_has_subscription(const ChashCatalog *catalog);

#endif
