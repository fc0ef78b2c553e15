/*
 * pages.h
 *		Which pages of a piece of memory are taken: a bit for each.
 *
 * (PostgreSQL's own freepage.c would lose pages here: if the last free pages are
 * taken while it uses one itself, that one is never given back.)
 */
#ifndef CHASH_PAGES_H
#define CHASH_PAGES_H

#include "../compat.h"

#define CHASH_PAGE_SIZE 4096

/* Pages for so many bytes. */
static inline Size
chash_page_count(Size bytes)
{
	return (bytes + CHASH_PAGE_SIZE - 1) / CHASH_PAGE_SIZE;
}

/* Bytes of a map of so many pages. */
extern Size chash_pages_map_size(Size pages);

/* Makes a map in which all pages are free. */
extern void chash_pages_init(uint64 *map, Size pages);

/*
 * Takes a run of pages of a map of `pages`, out of the smallest one that is large
 * enough; false if there is none.
 */
extern bool chash_pages_take(uint64 *map, Size pages, Size count, Size *first);

extern void chash_pages_give_back(uint64 *map, Size first, Size count);

/* Takes pages that were given back, to see what difference it would make. */
extern void chash_pages_take_again(uint64 *map, Size first, Size count);

/* The free run that a free page is in: its first page, and the one after its last. */
extern void chash_pages_run(const uint64 *map, Size pages, Size page, Size *first, Size *end);

#endif
