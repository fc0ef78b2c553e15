/*
 * difference.h
 *		What two versions of a ring differ by.
 */
#ifndef CHASH_DIFFERENCE_H
#define CHASH_DIFFERENCE_H

#include "../store/definition.h"

/* What two definitions make of one name; either can be NULL. */
typedef struct ChashPair
{
	ChashNode *left;
	ChashNode *right;
} ChashPair;

/* Walks through two definitions by name; begin with both numbers at 0. */
extern bool chash_next_pair(const ChashDefinition *left, const ChashDefinition *right, uint32 *i,
							uint32 *j, ChashPair *pair);

/* Is a node the same in two definitions, but for its partitions? */
extern bool chash_same_node(const ChashNode *a, const ChashNode *b);
extern bool chash_same_partitions(const ChashNode *a, const ChashNode *b);

/*
 * Completes what a ring is to be: partitions get their owners, nodes that are not as
 * before get the next epoch, and the whole is checked.  Tells whether there is a
 * difference at all.
 */
extern bool chash_difference_complete(const ChashDefinition *before, ChashDefinition *after);

/* Only gives nodes that are not as before the next epoch: the rest comes at the end. */
extern bool chash_difference_mark(const ChashDefinition *before, ChashDefinition *after);

/* Raises an error if nodes with epochs of their own were put into a complete ring. */
extern void chash_difference_check_restored(const ChashDefinition *before,
											const ChashDefinition *now);

#endif
