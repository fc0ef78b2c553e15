/*
 * pages.c
 *		Which pages of a piece of memory are taken: a bit for each.
 */
#include "pages.h"

#include "port/pg_bitutils.h"

/* Pages in a word of the map. */
#define WORD_PAGES 64

/* There is always a word behind the last page. */
static Size
count_words(Size pages)
{
	return pages / WORD_PAGES + 1;
}

Size
chash_pages_map_size(Size pages)
{
	return count_words(pages) * sizeof(uint64);
}

void
chash_pages_init(uint64 *map, Size pages)
{
	memset(map, 0, chash_pages_map_size(pages));
}

/* The first page from there on that is taken, or free; `pages` if there is none. */
static Size
next_page(const uint64 *map, Size pages, Size from, bool taken)
{
	uint64 flip = taken ? 0 : ~UINT64CONST(0);
	Size word = from / WORD_PAGES;
	uint64 bits = (map[word] ^ flip) & (~UINT64CONST(0) << (from % WORD_PAGES));

	while (bits == 0 && word + 1 < count_words(pages))
		bits = map[++word] ^ flip;
	if (bits == 0)
		return pages;
	return Min(word * WORD_PAGES + (Size) pg_rightmost_one_pos64(bits), pages);
}

/* The first page of the free run that ends before this page. */
static Size
run_start(const uint64 *map, Size end)
{
	Size word = end / WORD_PAGES;
	uint64 taken = map[word] & ~(~UINT64CONST(0) << (end % WORD_PAGES));

	while (taken == 0 && word > 0)
		taken = map[--word];
	return taken == 0 ? 0 : word * WORD_PAGES + (Size) pg_leftmost_one_pos64(taken) + 1;
}

static void
mark(uint64 *map, Size first, Size count, bool taken)
{
	for (Size page = first; page < first + count; page++)
	{
		uint64 bit = UINT64CONST(1) << (page % WORD_PAGES);

		Assert(((map[page / WORD_PAGES] & bit) == 0) == taken);
		if (taken)
			map[page / WORD_PAGES] |= bit;
		else
			map[page / WORD_PAGES] &= ~bit;
	}
}

bool
chash_pages_take(uint64 *map, Size pages, Size count, Size *first)
{
	Size best = 0;
	Size end;

	for (Size page = next_page(map, pages, 0, false); page < pages;
		 page = next_page(map, pages, end, false))
	{
		end = next_page(map, pages, page, true);
		if (end - page >= count && (best == 0 || end - page < best))
		{
			best = end - page;
			*first = page;
		}
	}
	if (best > 0)
		mark(map, *first, count, true);
	return best > 0;
}

void
chash_pages_take_again(uint64 *map, Size first, Size count)
{
	mark(map, first, count, true);
}

void
chash_pages_run(const uint64 *map, Size pages, Size page, Size *first, Size *end)
{
	*first = run_start(map, page);
	*end = next_page(map, pages, page, true);
}

void
chash_pages_give_back(uint64 *map, Size first, Size count)
{
	mark(map, first, count, false);
}
