/*
 * names.c
 *		Names of nodes as texts that live as long as the backend.
 *
 * Lookups return names as they are, without a copy.  Nothing tells when such a
 * text is no longer used: an argument of a procedure, for example, is still read
 * after the procedure has committed.  So a name is never freed.  There are no
 * more of them than the backend has met nodes.
 */
#include "names.h"

#include "../store/values.h"

#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

static MemoryContext names_context = NULL;
static HTAB *known_names = NULL;

static uint32
hash_name(const void *key, Size size)
{
	const text *name = *(const text *const *) key;

	return hash_bytes((const unsigned char *) VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
}

static int
match_names(const void *a, const void *b, Size size)
{
	const text *left = *(const text *const *) a;
	const text *right = *(const text *const *) b;

	if (VARSIZE_ANY_EXHDR(left) != VARSIZE_ANY_EXHDR(right))
		return 1;
	return memcmp(VARDATA_ANY(left), VARDATA_ANY(right), VARSIZE_ANY_EXHDR(left));
}

void
chash_lasting_names_init(void)
{
	HASHCTL control = {
		.keysize = sizeof(text *),
		.entrysize = sizeof(text *),
		.hash = hash_name,
		.match = match_names,
	};

	names_context = AllocSetContextCreate(TopMemoryContext, "chash names", ALLOCSET_SMALL_SIZES);
	control.hcxt = names_context;
	known_names = hash_create("chash node names", 64, &control,
							  HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

Datum
chash_lasting_name(const char *utf8, size_t length)
{
	text *name = cstring_to_text(chash_from_utf8(utf8, length));
	text **known = hash_search(known_names, &name, HASH_FIND, NULL);

	if (known == NULL)
	{
		text *kept = MemoryContextAlloc(names_context, VARSIZE(name));

		memcpy(kept, name, VARSIZE(name));
		known = hash_search(known_names, &kept, HASH_ENTER, NULL);
	}
	return PointerGetDatum(*known);
}
