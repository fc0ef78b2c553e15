/*
 * values.h
 *		Checking and converting the values that make up rings and nodes.
 *
 * Each function raises an error that names the offending value.
 */
#ifndef CHASH_VALUES_H
#define CHASH_VALUES_H

#include "../compat.h"

#include "../ring/spec.h"
#include "utils/array.h"
#include "utils/numeric.h"

/* The most replicas that a plan compares. */
#define CHASH_MAX_REPLICAS 1000

/* Text in UTF-8, whatever the database's encoding; as it is under SQL_ASCII. */
extern const char *chash_to_utf8(const char *string, size_t length, size_t *utf8_length);

/* The way back, as a string with a terminator. */
extern char *chash_from_utf8(const char *string, size_t length);

/* A string for a message: cut off if it is longer than a name may be. */
extern const char *chash_clip(const char *string);

/* Does a string look like a fingerprint, 32 hexadecimal digits? */
extern bool chash_is_fingerprint(const char *string);

/*
 * Checks a name: 1 to CHASH_MAX_NAME bytes of UTF-8, no control characters.
 * `what` says what it names: "ring", "node" or "zone".
 */
extern void chash_check_name(const char *what, const char *name);

/* A weight in thousandths from 0 to CHASH_MAX_WEIGHT. */
extern int64 chash_weight_from_numeric(Numeric weight, const char *node);
extern Numeric chash_weight_to_numeric(int64 weight);

/* Is a node of that state down?  States are "up" and "down". */
extern bool chash_state_is_down(const char *state, const char *node);

/*
 * The tokens of an array, ascending; each once, and on the circle of the hash
 * if that is known.
 */
extern int64 *chash_tokens_from_array(ArrayType *array, const ChashHash *hash, const char *node,
									  uint32 *count);
extern ArrayType *chash_tokens_to_array(const int64 *tokens, uint32 count);

/* Sorts tokens and checks them as chash_tokens_from_array does. */
extern void chash_check_tokens(int64 *tokens, uint32 count, const ChashHash *hash,
							   const char *node);

/* The numbers of partitions in an array, ascending, each from 0 to 2^31 - 1. */
extern uint32 *chash_partitions_from_array(ArrayType *array, uint32 *count);
extern ArrayType *chash_partitions_to_array(const uint32 *partitions, uint32 count);

/* Raises an error if there is no hash of that name. */
extern void chash_check_hash(const char *hash);

/* Settings of a ring. */
extern void chash_check_settings(const char *placement, const char *hash, bool has_vnodes,
								 int32 vnodes, bool has_partitions, int32 partitions);
extern void chash_check_replicas(int32 replicas);

#endif
