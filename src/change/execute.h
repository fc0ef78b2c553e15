/*
 * execute.h
 *		SQL statements that chash executes itself.
 *
 * They go through SPI, so that triggers, constraints and privileges apply.  The caller
 * runs as the extension's owner, with search_path pinned to pg_catalog.  Each "@" in a
 * statement stands for the schema of the extension.
 */
#ifndef CHASH_EXECUTE_H
#define CHASH_EXECUTE_H

#include "../store/catalog.h"

typedef struct ChashParameter
{
	Oid type;
	Datum value;
	bool isnull;
} ChashParameter;

extern ChashParameter chash_text_parameter(const char *string);
extern ChashParameter chash_bigint_parameter(int64 value);
extern ChashParameter chash_uuid_parameter(const pg_uuid_t *uuid);

/* Executes a statement and gives the number of its rows. */
extern uint64 chash_execute(const ChashCatalog *catalog, const char *statement,
							const ChashParameter *parameters, int count);

/*
 * The same as chash's own writing: the triggers let pass what users may not write,
 * and leave the rest to whoever is writing.
 */
extern uint64 chash_execute_own(const ChashCatalog *catalog, const char *statement,
								const ChashParameter *parameters, int count);

/*
 * A statement of chash's own that is executed many times over.  It is planned with
 * its first row, and lasts until chash_statement_end.
 */
typedef struct ChashStatement
{
	const ChashCatalog *catalog;
	const char *text;
	struct _SPI_plan *plan;
} ChashStatement;

extern void chash_statement_begin(ChashStatement *statement, const ChashCatalog *catalog,
								  const char *text);
extern uint64 chash_statement_execute_own(ChashStatement *statement,
										  const ChashParameter *parameters, int count);
extern void chash_statement_end(ChashStatement *statement);

/* For a trigger function: was it chash's own statement that fired it, directly? */
extern bool chash_fired_by_own(void);

#endif
