/*
 * statements.h
 *		What is remembered from one row of a statement to the next: the statements
 *		that are writing chash's tables, and the rings that they have touched.
 */
#ifndef CHASH_STATEMENTS_H
#define CHASH_STATEMENTS_H

#include "../store/definition.h"

#include "change.h"

#include "lib/ilist.h"

/* A ring that an open statement has touched. */
typedef struct ChashTouched
{
	dlist_node link;
	struct ChashTouched *earlier; /* entry of the same ring, dropped since; or NULL */
	char *ring;
	int statement; /* how many were open: it is settled when that one closes */
	int level;	   /* nest level of the (sub)transaction */
	ChashTouch touch;
	bool dropped;				  /* meanwhile */
	bool disturbed;				  /* touched again since it was last looked at */
	ChashDefinition before;		  /* settled; not of a replicated ring */
	const ChashDefinition *after; /* what chash has made of it, or NULL */
	MemoryContext context;		  /* holds all of this */
} ChashTouched;

extern void chash_statements_init(void);

/*
 * Locks the row of a ring until the end of the transaction, and gives an entry with what
 * the ring is, not added yet; NULL if there is no such ring.
 */
extern ChashTouched *chash_change_lock(const ChashCatalog *catalog, const char *ring);

/* How many statements are open, one called by the other. */
extern int chash_statements_open(void);
extern void chash_statements_push(void);
extern void chash_statements_pop(void);

/* Makes an entry for a ring, and adds it; from then on it is what is found. */
extern ChashTouched *chash_touched_make(const char *ring, ChashTouch touch, int statement);
extern void chash_touched_add(ChashTouched *touched);

/* The latest entry of a ring, or NULL. */
extern ChashTouched *chash_touched_find(const char *ring);

/* The same if it holds what the ring was: not of one that was dropped, or replicated. */
extern ChashTouched *chash_touched_held(const char *ring);

/* Forgets all entries of a ring that were made for a statement. */
extern void chash_touched_forget(const char *ring, int statement);

/*
 * The names of the rings that the statement of that number has touched first, in order,
 * each once; 0: of those touched without a statement.
 */
extern char **chash_touched_rings(int statement, uint32 *count);

#endif
