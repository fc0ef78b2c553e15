/*
 * notify.h
 *		NOTIFY chash for every committed change.
 */
#ifndef CHASH_NOTIFY_H
#define CHASH_NOTIFY_H

#include "../compat.h"

extern void chash_notify_init(void);

/*
 * Sends {"ring": ..., "epoch": ...} on channel chash if and when the present
 * (sub)transaction commits; epoch 0 stands for a ring that was dropped, and is
 * sent as null.
 */
extern void chash_notify(const char *ring, int64 epoch);

#endif
