/*
 * work.c
 *		Interrupts, and a sort that can be interrupted (qsort of the C library
 *		cannot, and would lose memory).
 */
#include "work.h"

#include <string.h>

void (*chash_interrupt_hook)(void) = NULL;

/* Up to so many items are sorted by insertion. */
#define INSERTION_LIMIT 8

typedef struct Sort
{
	size_t size; /* of an item */
	int (*compare)(const void *a, const void *b);
	char *scratch;
	uint32_t work;
} Sort;

void
chash_work_pause(uint32_t *work)
{
	*work = 0;
	if (chash_interrupt_hook != NULL)
		chash_interrupt_hook();
}

size_t
chash_sort_scratch_size(size_t count, size_t size)
{
	return count / 2 * size;
}

static void
insertion_sort(Sort *sort, char *items, char *end)
{
	for (char *item = items + sort->size; item < end; item += sort->size)
	{
		char *at = item;

		while (at > items && sort->compare(at - sort->size, item) > 0)
			at -= sort->size;
		if (at == item)
			continue;
		memcpy(sort->scratch, item, sort->size);
		memmove(at + sort->size, at, (size_t) (item - at));
		memcpy(at, sort->scratch, sort->size);
	}
}

/* Merges the items up to `right` with those from there on, each in order. */
static void
merge(Sort *sort, char *items, char *right, char *end)
{
	char *left = sort->scratch;
	char *left_end = left + (right - items);

	memcpy(left, items, (size_t) (right - items));
	for (char *at = items; left < left_end; at += sort->size)
	{
		char **next = right < end && sort->compare(right, left) < 0 ? &right : &left;

		chash_work(&sort->work, 1);
		memcpy(at, *next, sort->size);
		*next += sort->size;
	}
}

static void
merge_sort(Sort *sort, char *items, size_t count)
{
	char *middle = items + count / 2 * sort->size;
	char *end = items + count * sort->size;

	if (count <= INSERTION_LIMIT)
	{
		chash_work(&sort->work, INSERTION_LIMIT);
		insertion_sort(sort, items, end);
		return;
	}
	merge_sort(sort, items, count / 2);
	merge_sort(sort, middle, count - count / 2);
	if (sort->compare(middle - sort->size, middle) > 0)
		merge(sort, items, middle, end);
}

void
chash_sort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b),
		   void *scratch)
{
	Sort sort = {.size = size, .compare = compare, .scratch = scratch};

	if (count > 1)
		merge_sort(&sort, items, count);
}
