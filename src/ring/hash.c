/*
 * hash.c
 *		The table of hash algorithms, and hash tags.
 *
 * An algorithm is one row of the table; whoever needs one gets it by name or
 * holds a pointer to its row.
 */
#include "hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static int64_t
xxh3_position(const void *key, size_t length)
{
	return (int64_t) XXH3_64bits(key, length);
}

const ChashHash chash_hash_xxh3 = {"xxh3", INT64_MIN, 64, false, xxh3_position};

static const ChashHash *const algorithms[] = {&chash_hash_xxh3};

const ChashHash *
chash_hash_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
	{
		if (strcmp(algorithms[i]->name, name) == 0)
			return algorithms[i];
	}
	return NULL;
}

void
chash_hash_tag(const char **key, size_t *length)
{
	const char *end = *key + *length;
	const char *open = *length > 0 ? memchr(*key, '{', *length) : NULL;
	const char *close;

	if (open == NULL)
		return;
	close = memchr(open + 1, '}', (size_t) (end - open - 1));
	if (close == NULL || close == open + 1)
		return;
	*key = open + 1;
	*length = (size_t) (close - open - 1);
}
