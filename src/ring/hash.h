/*
 * hash.h
 *		Hash algorithms: from the bytes of a key to a position on the circle.
 *
 * Positions are int64.  An algorithm says which part of that range its circle
 * is: the 2^bits positions from `lowest` on.  Results never depend on the
 * machine, its byte order or the version of the library.
 */
#ifndef CHASH_HASH_H
#define CHASH_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ChashHash
{
	const char *name;
	int64_t lowest; /* lowest position of the circle */
	int bits;		/* the circle has 2^bits positions, 1 to 64 */
	bool tags;		/* are hash tags on unless asked otherwise? */
	int64_t (*position)(const void *key, size_t length);
} ChashHash;

/* XXH3_64bits of the key, without seed, read as signed (xxHash 0.8). */
extern const ChashHash chash_hash_xxh3;

/* The algorithm of that name, or NULL. */
extern const ChashHash *chash_hash_by_name(const char *name);

/* Highest position of the algorithm's circle. */
static inline int64_t
chash_hash_highest(const ChashHash *hash)
{
	return (int64_t) ((uint64_t) hash->lowest + (UINT64_MAX >> (64 - hash->bits)));
}

/* Does the position lie on the algorithm's circle? */
static inline bool
chash_hash_covers(const ChashHash *hash, int64_t position)
{
	return position >= hash->lowest && position <= chash_hash_highest(hash);
}

/*
 * Narrows a key to its hash tag: what stands between the first '{' and the
 * next '}', unless that is empty or missing, as in Redis Cluster.
 */
extern void chash_hash_tag(const char **key, size_t *length);

#endif
