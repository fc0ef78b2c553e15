/*
 * execute.c
 *		SQL statements that chash executes itself.
 */
#include "execute.h"

#include "statements.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#define MAX_PARAMETERS 10

/*
 * The depth of triggers at which those fired by chash's own statement run, and how many
 * statements are open then; -1: it is executing none.  What the owner's triggers and
 * constraints do to the same tables meanwhile happens at a greater depth, or in a
 * statement more, and is theirs.
 */
static int own_trigger_depth = -1;
static int own_open_statements = -1;

static int
trigger_depth(void)
{
	return DatumGetInt32(OidFunctionCall0(F_PG_TRIGGER_DEPTH));
}

bool
chash_fired_by_own(void)
{
	return own_trigger_depth >= 0 && trigger_depth() == own_trigger_depth &&
		   chash_statements_open() == own_open_statements;
}

ChashParameter
chash_text_parameter(const char *string)
{
	if (string == NULL)
		return (ChashParameter){TEXTOID, (Datum) 0, true};
	return (ChashParameter){TEXTOID, CStringGetTextDatum(string), false};
}

ChashParameter
chash_bigint_parameter(int64 value)
{
	return (ChashParameter){INT8OID, Int64GetDatum(value), false};
}

ChashParameter
chash_uuid_parameter(const pg_uuid_t *uuid)
{
	return (ChashParameter){UUIDOID, UUIDPGetDatum(uuid), uuid == NULL};
}

void
chash_statement_begin(ChashStatement *statement, const ChashCatalog *catalog, const char *text)
{
	statement->catalog = catalog;
	statement->text = text;
	statement->plan = NULL;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

void
chash_statement_end(ChashStatement *statement)
{
	SPI_finish();
}

/* Plans a statement for parameters of these types. */
static SPIPlanPtr
prepare(const ChashStatement *statement, const ChashParameter *parameters, int count)
{
	const char *schema = chash_catalog_schema(statement->catalog);
	StringInfoData sql;
	Oid types[MAX_PARAMETERS];
	SPIPlanPtr plan;

	initStringInfo(&sql);
	for (const char *c = statement->text; *c != '\0'; c++)
	{
		if (*c == '@')
			appendStringInfo(&sql, "%s.", schema);
		else
			appendStringInfoChar(&sql, *c);
	}
	for (int i = 0; i < count; i++)
		types[i] = parameters[i].type;
	plan = SPI_prepare(sql.data, count, types);
	if (plan == NULL)
		elog(ERROR, "statement \"%s\" failed: %s", sql.data, SPI_result_code_string(SPI_result));
	return plan;
}

static uint64
execute(ChashStatement *statement, const ChashParameter *parameters, int count)
{
	Datum values[MAX_PARAMETERS];
	char nulls[MAX_PARAMETERS];
	int result;

	Assert(count <= MAX_PARAMETERS);
	if (statement->plan == NULL)
	{
		(void) chash_catalog_prepare_write(statement->catalog);
		statement->plan = prepare(statement, parameters, count);
	}
	for (int i = 0; i < count; i++)
	{
		values[i] = parameters[i].value;
		nulls[i] = parameters[i].isnull ? 'n' : ' ';
	}
	result = SPI_execute_plan(statement->plan, values, nulls, false, 0);
	if (result < 0)
		elog(ERROR, "statement \"%s\" failed: %s", statement->text, SPI_result_code_string(result));
	return SPI_processed;
}

uint64
chash_statement_execute_own(ChashStatement *statement, const ChashParameter *parameters, int count)
{
	int outer_depth = own_trigger_depth;
	int outer_statements = own_open_statements;
	uint64 processed;

	own_trigger_depth = trigger_depth() + 1;
	own_open_statements = chash_statements_open() + 1;
	PG_TRY();
	{
		processed = execute(statement, parameters, count);
	}
	PG_FINALLY();
	{
		own_trigger_depth = outer_depth;
		own_open_statements = outer_statements;
	}
	PG_END_TRY();
	return processed;
}

uint64
chash_execute(const ChashCatalog *catalog, const char *text, const ChashParameter *parameters,
			  int count)
{
	ChashStatement statement;
	uint64 processed;

	chash_statement_begin(&statement, catalog, text);
	processed = execute(&statement, parameters, count);
	chash_statement_end(&statement);
	return processed;
}

uint64
chash_execute_own(const ChashCatalog *catalog, const char *text, const ChashParameter *parameters,
				  int count)
{
	ChashStatement statement;
	uint64 processed;

	chash_statement_begin(&statement, catalog, text);
	processed = chash_statement_execute_own(&statement, parameters, count);
	chash_statement_end(&statement);
	return processed;
}
