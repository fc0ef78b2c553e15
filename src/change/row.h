/*
 * row.h
 *		Rows on their way through a trigger.
 *
 * Columns have the numbers that store/catalog.h gives them.
 */
#ifndef CHASH_ROW_H
#define CHASH_ROW_H

#include "../compat.h"

#include "../store/catalog.h"

#include "commands/trigger.h"

typedef struct ChashRow
{
	TupleDesc descriptor;
	HeapTuple tuple; /* NULL: there is none */
	Datum values[CHASH_MAX_COLUMNS];
	bool nulls[CHASH_MAX_COLUMNS];
} ChashRow;

/* The rows before and after that a row trigger was called for. */
extern void chash_get_rows(TriggerData *trigger, ChashRow *old_row, ChashRow *new_row);

/* Are columns of two rows the same, to the bit? */
extern bool chash_same_column(const ChashRow *a, const ChashRow *b, int column);
extern bool chash_same_columns(const ChashRow *a, const ChashRow *b, const int *columns, int count);

extern void chash_set_column(ChashRow *row, int column, Datum value);
extern void chash_copy_column(const ChashRow *from, ChashRow *to, int column);

/* A text column, NULL if it is null; a bigint column that is not. */
extern char *chash_text_column(const ChashRow *row, int column);
extern int64 chash_bigint_column(const ChashRow *row, int column);

/* What a BEFORE ROW trigger returns, in the current memory context. */
extern Datum chash_result_row(ChashRow *row);

/* Raises an error if one of the columns has changed. */
extern void chash_check_unchanged(const ChashRow *old_row, const ChashRow *new_row,
								  const int *columns, int count, const char *hint);

/* Raises an error if a column is null. */
extern void chash_require(const ChashRow *row, int column);

#endif
