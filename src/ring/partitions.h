/*
 * partitions.h
 *		Placement partitions: who holds which, and who gives up what.
 */
#ifndef CHASH_PARTITIONS_H
#define CHASH_PARTITIONS_H

#include "spec.h"

/* Bytes of scratch memory, aligned for uint64_t, that the functions need. */
extern size_t chash_partitions_scratch_size(const ChashSpec *spec);

/*
 * How many partitions each node is due: Webster's (Sainte-Lague) divisor
 * method with at least one for a node with weight, ties to the smaller name.
 * There must not be more nodes with weight than partitions.
 */
extern void chash_partitions_quotas(const ChashSpec *spec, uint32_t *quotas, void *scratch);

/*
 * Brings every node of the spec to its quota with as few moves as possible.
 * Nodes hold on entry what they held so far (numbers that do not exist, or
 * that an earlier node has too, are passed over) and on return what they are
 * to hold, ascending, in `lists`, which has room for spec->partitions numbers
 * and must stay as long as the spec.
 *
 * Partitions are looked at in scatter order: by XXH3_64bits of the number in
 * decimal, unsigned, then by number.  A node over its quota gives up those
 * that come first.  The free ones are then dealt in scatter order to the nodes
 * below their quota, in order of name, each taking all that it lacks.
 */
extern void chash_partitions_assign(ChashSpec *spec, uint32_t *lists, void *scratch);

/*
 * Are the nodes the same before and after a change, with the same weights?  If
 * so, partitions are not dealt, even where owners hold other than what is due:
 * a ring that mirrors another system has owners of its own.
 */
extern bool chash_partitions_same_weights(const ChashSpec *before, const ChashSpec *after);

#endif
