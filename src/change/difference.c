/*
 * difference.c
 *		What two versions of a ring differ by.
 *
 * Rows are compared by the definitions that they were read into; the nodes of both are
 * sorted by name, so that one walk through both finds what differs.
 */
#include "difference.h"

#include "change.h"

#include "miscadmin.h"

bool
chash_same_node(const ChashNode *a, const ChashNode *b)
{
	if (a->spec.weight != b->spec.weight || a->spec.down != b->spec.down ||
		(a->zone == NULL) != (b->zone == NULL) || (a->info == NULL) != (b->info == NULL) ||
		a->spec.token_count != b->spec.token_count)
		return false;
	if (a->zone != NULL && strcmp(a->zone, b->zone) != 0)
		return false;
	if (a->info != NULL && compareJsonbContainers(&a->info->root, &b->info->root) != 0)
		return false;
	return a->spec.token_count == 0 ||
		   memcmp(a->spec.tokens, b->spec.tokens, a->spec.token_count * sizeof(int64)) == 0;
}

bool
chash_same_partitions(const ChashNode *a, const ChashNode *b)
{
	return a->spec.partition_count == b->spec.partition_count &&
		   (a->spec.partition_count == 0 || memcmp(a->spec.partitions, b->spec.partitions,
												   a->spec.partition_count * sizeof(uint32)) == 0);
}

bool
chash_next_pair(const ChashDefinition *left, const ChashDefinition *right, uint32 *i, uint32 *j,
				ChashPair *pair)
{
	int order;

	CHECK_FOR_INTERRUPTS();
	if (*i == left->count && *j == right->count)
		return false;
	if (*i == left->count)
		order = 1;
	else if (*j == right->count)
		order = -1;
	else
		order = chash_compare_names(left->nodes[*i].spec.name, left->nodes[*i].spec.name_length,
									right->nodes[*j].spec.name, right->nodes[*j].spec.name_length);
	pair->left = order <= 0 ? &left->nodes[(*i)++] : NULL;
	pair->right = order >= 0 ? &right->nodes[(*j)++] : NULL;
	return true;
}

bool
chash_difference_mark(const ChashDefinition *before, ChashDefinition *after)
{
	bool different = before->ring.replicas != after->ring.replicas;
	uint32 i = 0;
	uint32 j = 0;
	ChashPair pair;

	while (chash_next_pair(before, after, &i, &j, &pair))
	{
		bool same = pair.left != NULL && pair.right != NULL &&
					chash_same_node(pair.left, pair.right) &&
					chash_same_partitions(pair.left, pair.right);

		different |= !same;
		if (pair.right != NULL)
			pair.right->epoch = same ? pair.left->epoch : before->ring.epoch + 1;
	}
	return different;
}

bool
chash_difference_complete(const ChashDefinition *before, ChashDefinition *after)
{
	bool deal = false;
	bool different;
	uint32 i = 0;
	uint32 j = 0;
	ChashPair pair;
	ChashSpec spec;

	/* Owners of partitions change only where quotas do. */
	while (chash_next_pair(before, after, &i, &j, &pair))
	{
		deal |= pair.left == NULL || pair.right == NULL ||
				pair.left->spec.weight != pair.right->spec.weight;
	}
	if (deal || !chash_definition_is_dealt(after))
		chash_definition_assign(after);
	different = chash_difference_mark(before, after);
	chash_definition_spec(after, &spec);
	(void) chash_definition_check(after, &spec);
	pfree(spec.nodes);
	return different;
}

/* Was what a ring is now made of put in with epochs of its own, though it was complete? */
void
chash_difference_check_restored(const ChashDefinition *before, const ChashDefinition *now)
{
	uint32 i = 0;
	uint32 j = 0;
	ChashPair pair;

	if (chash_is_replica() ||
		strcmp(chash_definition_fingerprint(before), before->ring.fingerprint) != 0)
		return;
	while (chash_next_pair(before, now, &i, &j, &pair))
	{
		if (pair.left == NULL && pair.right->epoch <= before->ring.epoch)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("nodes cannot be inserted into ring \"%s\" with an epoch of their own",
							before->ring.ring),
					 errhint("Leave columns epoch and held_partitions out.")));
	}
}
