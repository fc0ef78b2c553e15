/*
 * spec.h
 *		The definition of a ring: what decides who owns what.
 *
 * A spec is plain data that the caller has filled in and keeps alive; nothing
 * in src/ring changes it, apart from chash_partitions_assign.  Everything else
 * (points, lookups, ranges, plans, fingerprint) follows from it.
 */
#ifndef CHASH_SPEC_H
#define CHASH_SPEC_H

#include "hash.h"
#include "work.h"

/* A ring with more points is refused: its block would be over 256 MiB. */
#define CHASH_MAX_POINTS 16777216
#define CHASH_MAX_VNODES 65536
#define CHASH_MAX_PARTITIONS 1048576
#define CHASH_DEFAULT_VNODES 256
#define CHASH_DEFAULT_PARTITIONS 16384

/* Weights are in thousandths: 1 is 1000. */
#define CHASH_WEIGHT_ONE 1000
#define CHASH_MAX_WEIGHT INT64_C(999999999)

/* Names of rings, nodes and zones, in bytes of UTF-8. */
#define CHASH_MAX_NAME 255

typedef enum ChashPlacement
{
	CHASH_VNODES,	  /* points at the hash of name#0, name#1, ... */
	CHASH_PARTITIONS, /* equal parts of the circle, owners stored */
	CHASH_TOKENS	  /* positions given per node */
} ChashPlacement;

typedef struct ChashSpecNode
{
	const char *name; /* UTF-8, without terminator */
	size_t name_length;
	const char *zone; /* UTF-8, without terminator; NULL: none */
	size_t zone_length;
	int64_t weight;		   /* in thousandths, 0 to CHASH_MAX_WEIGHT */
	bool down;			   /* passed over by lookups, moves nothing */
	const int64_t *tokens; /* ascending, each once */
	uint32_t token_count;
	uint32_t *partitions; /* numbers of those held, ascending */
	uint32_t partition_count;
} ChashSpecNode;

typedef struct ChashSpec
{
	const ChashHash *hash;
	ChashPlacement placement;
	bool hash_tags;
	uint32_t vnodes;	  /* placement vnodes: 1 to CHASH_MAX_VNODES */
	uint32_t partitions;  /* placement partitions: a power of two, 1 to
								 * CHASH_MAX_PARTITIONS */
	ChashSpecNode *nodes; /* ascending by bytes of the name */
	uint32_t node_count;
} ChashSpec;

/* What can be wrong with a spec whose nodes are valid one by one. */
typedef enum ChashSpecError
{
	CHASH_SPEC_OK,
	CHASH_SPEC_LONG_NAME,		   /* a name over CHASH_MAX_NAME */
	CHASH_SPEC_TOO_MANY_POINTS,	   /* over CHASH_MAX_POINTS */
	CHASH_SPEC_TOO_FEW_PARTITIONS, /* fewer than nodes with a weight */
	CHASH_SPEC_BAD_OWNERS		   /* a partition has no owner, two, or one
								 * without weight */
} ChashSpecError;

/* Names of placements; false if there is none of that name. */
extern const char *chash_placement_name(ChashPlacement placement);
extern bool chash_placement_by_name(const char *name, ChashPlacement *placement);

/* Compares names as the published rules do: bytewise, a prefix first. */
extern int chash_compare_names(const char *a, size_t a_length, const char *b, size_t b_length);

/*
 * Number of points that a node has: max(1, vnodes * weight, half rounded up),
 * its tokens, or its partitions; 0 if it has no weight.
 */
extern uint64_t chash_node_point_count(const ChashSpec *spec, const ChashSpecNode *node);

/* Checks the spec as a whole and counts its points. */
extern ChashSpecError chash_spec_check(const ChashSpec *spec, uint32_t *point_count);

/* Last position of a partition, where its point stands. */
extern int64_t chash_partition_end(const ChashSpec *spec, uint32_t partition);

/*
 * Hash (XXH3_128bits, as 32 hexadecimal digits and a terminator) of everything
 * that decides ownership.  docs/clients.md has the format that is hashed.
 */
#define CHASH_FINGERPRINT_SIZE 33
extern void chash_spec_fingerprint(const ChashSpec *spec, char fingerprint[CHASH_FINGERPRINT_SIZE]);

#endif
