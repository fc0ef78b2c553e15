/*
 * work.h
 *		What long work on large arrays needs: interrupts, sorting, alignment.
 */
#ifndef CHASH_WORK_H
#define CHASH_WORK_H

#include <stddef.h>
#include <stdint.h>

/*
 * Called now and then in loops that can take long, for the host to stop them;
 * it need not return.  NULL by default.
 */
extern void (*chash_interrupt_hook)(void);

/* How many steps are made between two calls of it: at most some milliseconds. */
#define CHASH_WORK_INTERVAL 65536

/* Starts to count anew, and calls the hook. */
extern void chash_work_pause(uint32_t *work);

/* Counts steps; `work` is below CHASH_WORK_INTERVAL before and after. */
static inline void
chash_work(uint32_t *work, uint32_t steps)
{
	*work += steps;
	if (*work >= CHASH_WORK_INTERVAL)
		chash_work_pause(work);
}

/* The same for loops that must stay simple to be fast: where to stop and count. */
static inline uint32_t
chash_work_end(uint32_t first, uint32_t count)
{
	return count - first < CHASH_WORK_INTERVAL ? count : first + CHASH_WORK_INTERVAL;
}

/* Bytes of scratch memory for sorting. */
extern size_t chash_sort_scratch_size(size_t count, size_t size);

/*
 * Sorts items of that size, which compare says the order of; those that are
 * equal keep theirs.  What is in order already takes one look at each.
 */
extern void chash_sort(void *items, size_t count, size_t size,
					   int (*compare)(const void *a, const void *b), void *scratch);

/* A size rounded up to where a uint64_t can follow. */
static inline size_t
chash_align(size_t size)
{
	return (size + 7) & ~(size_t) 7;
}

#endif
