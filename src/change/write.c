/*
 * write.c
 *		Writing the difference of two versions of a ring.
 *
 * The one place where a change gets into the tables, each part of it once.
 */
#include "write.h"

#include "../store/values.h"
#include "difference.h"
#include "execute.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"

void
chash_change_new_version(pg_uuid_t *version)
{
	if (!pg_strong_random(version, sizeof(*version)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
}

/* Do past epochs say the same of two versions of a node? */
static bool
same_history(const ChashNode *a, const ChashNode *b)
{
	return a->spec.weight == b->spec.weight &&
		   (a->zone == NULL ? b->zone == NULL : b->zone != NULL && strcmp(a->zone, b->zone) == 0) &&
		   a->spec.token_count == b->spec.token_count &&
		   (a->spec.token_count == 0 ||
			memcmp(a->spec.tokens, b->spec.tokens, a->spec.token_count * sizeof(int64)) == 0) &&
		   chash_same_partitions(a, b);
}

static ChashParameter
array_parameter(Oid type, bool applies, ArrayType *array)
{
	return (ChashParameter){type, PointerGetDatum(array), !applies};
}

/* Parameters for what a row of chash_nodes and one of chash_node_history have in common. */
static void
set_node_parameters(const ChashRingRow *ring, const ChashNode *node, ChashParameter parameters[6])
{
	bool tokens = ring->placement == CHASH_TOKENS;
	bool partitions = ring->placement == CHASH_PARTITIONS;

	parameters[0] = chash_text_parameter(ring->ring);
	parameters[1] = chash_text_parameter(node->name);
	parameters[2] =
		(ChashParameter){NUMERICOID, NumericGetDatum(chash_weight_to_numeric(node->spec.weight)),
						 false};
	parameters[3] = chash_text_parameter(node->zone);
	parameters[4] =
		array_parameter(INT8ARRAYOID, tokens,
						tokens ? chash_tokens_to_array(node->spec.tokens, node->spec.token_count)
							   : NULL);
	parameters[5] =
		array_parameter(INT4ARRAYOID, partitions,
						partitions ? chash_partitions_to_array(node->spec.partitions,
															   node->spec.partition_count)
								   : NULL);
}

/* Writes a row of chash_nodes; `statement` inserts it or updates it. */
static void
write_node(ChashStatement *statement, const ChashRingRow *ring, const ChashNode *node)
{
	ChashParameter parameters[9];

	set_node_parameters(ring, node, parameters);
	parameters[6] = chash_text_parameter(node->spec.down ? "down" : "up");
	parameters[7] = (ChashParameter){JSONBOID, PointerGetDatum(node->info), node->info == NULL};
	parameters[8] = chash_bigint_parameter(node->epoch);
	(void) chash_statement_execute_own(statement, parameters, 9);
}

/* Makes rows of chash_nodes, which are as `stored`, what `after` says. */
void
chash_write_nodes(const ChashCatalog *catalog, const ChashDefinition *stored,
				  const ChashDefinition *after)
{
	ChashStatement insert_node;
	ChashStatement update_node;
	ChashStatement delete_node;
	uint32 i = 0;
	uint32 j = 0;
	ChashPair pair;

	/* They nest, and the memory of all of them goes with the first. */
	chash_statement_begin(&insert_node, catalog,
						  "INSERT INTO @chash_nodes"
						  " (ring, node, weight, zone, tokens, held_partitions, state, info, epoch)"
						  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)");
	chash_statement_begin(&update_node, catalog,
						  "UPDATE @chash_nodes SET weight = $3, zone = $4, tokens = $5,"
						  " held_partitions = $6, state = $7, info = $8, epoch = $9"
						  " WHERE ring = $1 AND node = $2");
	chash_statement_begin(&delete_node, catalog,
						  "DELETE FROM @chash_nodes WHERE ring = $1 AND node = $2");
	while (chash_next_pair(stored, after, &i, &j, &pair))
	{
		if (pair.right == NULL)
		{
			ChashParameter parameters[2] = {chash_text_parameter(after->ring.ring),
											chash_text_parameter(pair.left->name)};

			(void) chash_statement_execute_own(&delete_node, parameters, 2);
		}
		else if (pair.left == NULL)
			write_node(&insert_node, &after->ring, pair.right);
		else if (pair.left->epoch != pair.right->epoch || !chash_same_node(pair.left, pair.right) ||
				 !chash_same_partitions(pair.left, pair.right))
			write_node(&update_node, &after->ring, pair.right);
	}
	chash_statement_end(&delete_node);
	chash_statement_end(&update_node);
	chash_statement_end(&insert_node);
}

/*
 * Records what nodes were like that are not so any more.  Tells whether anything
 * differs that past epochs are built from.
 */
bool
chash_write_history(const ChashCatalog *catalog, const ChashDefinition *before,
					const ChashDefinition *after)
{
	ChashStatement insert_history;
	bool different = false;
	uint32 i = 0;
	uint32 j = 0;
	ChashPair pair;

	chash_statement_begin(
		&insert_history, catalog,
		"INSERT INTO @chash_node_history"
		" (ring, node, weight, zone, tokens, held_partitions, from_epoch, to_epoch)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
	while (chash_next_pair(before, after, &i, &j, &pair))
	{
		ChashParameter parameters[8];

		if (pair.left != NULL && pair.right != NULL && pair.left->epoch == pair.right->epoch)
			continue;
		different |=
			pair.left == NULL || pair.right == NULL || !same_history(pair.left, pair.right);
		if (pair.left == NULL || pair.left->epoch > before->ring.epoch)
			continue;
		set_node_parameters(&before->ring, pair.left, parameters);
		parameters[6] = chash_bigint_parameter(pair.left->epoch);
		parameters[7] = chash_bigint_parameter(before->ring.epoch + 1);
		(void) chash_statement_execute_own(&insert_history, parameters, 8);
	}
	chash_statement_end(&insert_history);
	return different;
}

/* Writes the ring's row, and with it that the ring is settled. */
void
chash_write_ring(const ChashCatalog *catalog, const ChashDefinition *after, bool new_version)
{
	pg_uuid_t version = after->ring.version;
	pg_uuid_t digest;
	ChashParameter parameters[] = {
		chash_text_parameter(after->ring.ring),
		chash_bigint_parameter(after->ring.epoch),
		chash_text_parameter(after->ring.fingerprint),
		chash_uuid_parameter(&digest),
		chash_uuid_parameter(&version),
		{BOOLOID, BoolGetDatum(after->ring.replicated && IsLogicalWorker()), false},
	};

	if (new_version)
		chash_change_new_version(&version);
	chash_definition_digest(after, &digest);
	chash_execute_own(catalog,
					  "UPDATE @chash_rings SET epoch = $2, fingerprint = $3, digest = $4,"
					  " version = $5, replicated = $6 WHERE ring = $1",
					  parameters, lengthof(parameters));
}

/* Puts back the digest that a touch took away, where nothing differs after all. */
void
chash_write_old_digest(const ChashCatalog *catalog, const ChashDefinition *before)
{
	pg_uuid_t digest = before->ring.digest;
	ChashParameter parameters[] = {
		chash_text_parameter(before->ring.ring),
		chash_bigint_parameter(before->ring.epoch),
		chash_uuid_parameter(&digest),
	};

	/* One that never had any, from before 0.3.0, gets it now. */
	if (!before->ring.has_digest)
		chash_definition_digest(before, &digest);
	chash_execute_own(catalog, "UPDATE @chash_rings SET epoch = $2, digest = $3 WHERE ring = $1",
					  parameters, lengthof(parameters));
}

bool
chash_write_mark(const ChashCatalog *catalog, const char *ring, ChashTouch touch)
{
	pg_uuid_t version;
	ChashParameter parameters[2] = {chash_text_parameter(ring), chash_uuid_parameter(&version)};

	if (touch == CHASH_TOUCH_CHANGED)
		return chash_execute_own(catalog, "UPDATE @chash_rings SET digest = NULL WHERE ring = $1",
								 parameters, 1) > 0;
	chash_change_new_version(&version);
	if (touch == CHASH_TOUCH_RESTORED)
		return chash_execute_own(catalog, "UPDATE @chash_rings SET version = $2 WHERE ring = $1",
								 parameters, 2) > 0;
	return chash_execute_own(catalog,
							 "UPDATE @chash_rings SET version = $2, digest = NULL WHERE ring = $1",
							 parameters, 2) > 0;
}

void
chash_write_removal(const ChashCatalog *catalog, const char *ring)
{
	ChashParameter parameter = chash_text_parameter(ring);

	chash_execute_own(catalog, "DELETE FROM @chash_nodes WHERE ring = $1", &parameter, 1);
	chash_execute_own(catalog, "DELETE FROM @chash_node_history WHERE ring = $1", &parameter, 1);
}
