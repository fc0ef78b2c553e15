/*
 * definition.h
 *		The definition of a ring in memory: read from the tables, changed, and
 *		turned into a spec, from which src/ring builds.
 *
 * All memory is palloc'd in the context that is current when a function is
 * called.
 */
#ifndef CHASH_DEFINITION_H
#define CHASH_DEFINITION_H

#include "catalog.h"

#include "../ring/ring.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

/* In place of an epoch, which counts from 1: the ring as it is. */
#define CHASH_NOW 0

/* A node.  Strings of the spec are UTF-8, all others as the database has them. */
typedef struct ChashNode
{
	ChashSpecNode spec;
	char *name;
	char *zone;	  /* NULL: none */
	Jsonb *info;  /* NULL: none */
	int64 epoch;  /* in which the row last changed */
	bool removed; /* while changes are being made */
} ChashNode;

typedef struct ChashDefinition
{
	ChashRingRow ring;
	ChashNode *nodes; /* ascending by UTF-8 name */
	uint32 count;
	uint32 capacity;
} ChashDefinition;

typedef enum ChashChangeKind
{
	CHASH_ADD,	  /* the node must not be there */
	CHASH_SET,	  /* the node must be there */
	CHASH_UPSERT, /* either */
	CHASH_REMOVE  /* the node must be there */
} ChashChangeKind;

/* A change of one node: has_ says what is given. */
typedef struct ChashChange
{
	ChashChangeKind kind;
	char *node;
	bool has_weight;
	bool has_zone;
	bool has_info;
	bool has_tokens;
	bool has_state;
	int64 weight;  /* in thousandths */
	char *zone;	   /* NULL: none */
	Jsonb *info;   /* NULL: none */
	int64 *tokens; /* ascending; NULL: none */
	uint32 token_count;
	bool down;
	uint32 *partitions; /* of an imported node */
	uint32 partition_count;
} ChashChange;

/*
 * Reads a ring under a snapshot; false if there is none of that name.  With
 * as_of other than CHASH_NOW, its nodes as they were in that epoch (without info and up or down),
 * which must be one that is on record.
 */
extern bool chash_definition_load(const ChashCatalog *catalog, const char *ring, Snapshot snapshot,
								  int64 as_of, ChashDefinition *definition);

/* The same of a ring as it is now, with an error if there is none of that name. */
extern void chash_definition_load_or_fail(const ChashCatalog *catalog, const char *ring,
										  Snapshot snapshot, ChashDefinition *definition);

/* Raises an error for an epoch below 1. */
extern void chash_check_epoch_began(const char *ring, int64 epoch);

/* The same for an epoch that a ring cannot be created at, lest it runs out of them. */
#define CHASH_MAX_EPOCH (PG_INT64_MAX / 2)
extern void chash_check_epoch(const char *ring, int64 epoch);

/* Raises an error if an epoch of a ring is not on record, or cannot be read just now. */
extern void chash_check_recorded(const ChashRingRow *ring, int64 epoch);

/* Raises an error if a ring's placement needs tokens that a node lacks, or the reverse. */
extern void chash_check_tokens_fit(const ChashRingRow *ring, const char *node, uint32 token_count);

/* The error for a node that is not there. */
pg_noreturn extern void chash_report_unknown_node(const char *ring, const char *node);

/* Finds a node by name; NULL if it is not there. */
extern ChashNode *chash_definition_find(const ChashDefinition *definition, const char *name);

/*
 * Makes changes, each of another node, or raises the error that tells what is
 * wrong with one.
 */
extern void chash_definition_change(ChashDefinition *definition, const ChashChange *changes,
									uint32 count);

/* Gives the partitions of a ring with placement partitions their owners. */
extern void chash_definition_assign(ChashDefinition *definition);

/* A spec of the definition, which must stay as long. */
extern void chash_definition_spec(const ChashDefinition *definition, ChashSpec *spec);

/* Raises the error that tells what is wrong with the whole, if anything; counts the points. */
extern uint32 chash_definition_check(const ChashDefinition *definition, const ChashSpec *spec);

/* Builds the ring of a definition, in the current memory context. */
extern ChashRing *chash_definition_build(const ChashDefinition *definition);

/*
 * Does every partition have one owner?  Raises an error for whatever else is
 * wrong with the whole.
 */
extern bool chash_definition_is_sound(const ChashDefinition *definition);

/* The fingerprint of a definition. */
extern char *chash_definition_fingerprint(const ChashDefinition *definition);

/*
 * The digest of all that a built ring says: name, epoch, replicas, fingerprint and
 * which nodes are down.  Equal digests, equal answers.
 */
extern void chash_definition_digest(const ChashDefinition *definition, pg_uuid_t *digest);

/*
 * Are these the nodes that the ring's row speaks of?  Rows that are of another
 * version than the ring's row, whatever the way they got there, are not.
 */
extern bool chash_definition_proven(const ChashDefinition *definition);

/* Does every partition have one owner, where the placement has partitions? */
extern bool chash_definition_is_dealt(const ChashDefinition *definition);

/* A copy that can be changed without changing the original. */
extern void chash_definition_copy(const ChashDefinition *definition, ChashDefinition *copy);

#endif
