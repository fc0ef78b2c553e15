/*
 * row.c
 *		Rows on their way through a trigger.
 */
#include "row.h"

#include "access/htup_details.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/rel.h"

static void
deform(ChashRow *row, TupleDesc descriptor, HeapTuple tuple)
{
	row->descriptor = descriptor;
	row->tuple = tuple;
	if (tuple != NULL)
		heap_deform_tuple(tuple, descriptor, row->values, row->nulls);
}

void
chash_get_rows(TriggerData *trigger, ChashRow *old_row, ChashRow *new_row)
{
	TupleDesc descriptor = RelationGetDescr(trigger->tg_relation);
	bool insert = TRIGGER_FIRED_BY_INSERT(trigger->tg_event);
	bool update = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);

	deform(old_row, descriptor, insert ? NULL : trigger->tg_trigtuple);
	deform(new_row, descriptor,
		   insert	? trigger->tg_trigtuple
		   : update ? trigger->tg_newtuple
					: NULL);
}

bool
chash_same_column(const ChashRow *a, const ChashRow *b, int column)
{
	Form_pg_attribute attribute = TupleDescAttr(a->descriptor, column - 1);

	if (a->nulls[column - 1] || b->nulls[column - 1])
		return a->nulls[column - 1] && b->nulls[column - 1];
	return datum_image_eq(a->values[column - 1], b->values[column - 1], attribute->attbyval,
						  attribute->attlen);
}

bool
chash_same_columns(const ChashRow *a, const ChashRow *b, const int *columns, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (!chash_same_column(a, b, columns[i]))
			return false;
	}
	return true;
}

void
chash_set_column(ChashRow *row, int column, Datum value)
{
	row->values[column - 1] = value;
	row->nulls[column - 1] = false;
}

void
chash_copy_column(const ChashRow *from, ChashRow *to, int column)
{
	to->values[column - 1] = from->values[column - 1];
	to->nulls[column - 1] = from->nulls[column - 1];
}

char *
chash_text_column(const ChashRow *row, int column)
{
	return row->nulls[column - 1] ? NULL : TextDatumGetCString(row->values[column - 1]);
}

int64
chash_bigint_column(const ChashRow *row, int column)
{
	return DatumGetInt64(row->values[column - 1]);
}

Datum
chash_result_row(ChashRow *row)
{
	return PointerGetDatum(heap_form_tuple(row->descriptor, row->values, row->nulls));
}

/* Refuses a change of columns that users may not set. */
void
chash_check_unchanged(const ChashRow *old_row, const ChashRow *new_row, const int *columns,
					  int count, const char *hint)
{
	for (int i = 0; i < count; i++)
	{
		if (!chash_same_column(old_row, new_row, columns[i]))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("column \"%s\" cannot be changed",
							NameStr(TupleDescAttr(new_row->descriptor, columns[i] - 1)->attname)),
					 errhint("%s", hint)));
	}
}

void
chash_require(const ChashRow *row, int column)
{
	if (row->nulls[column - 1])
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("column \"%s\" cannot be null",
						NameStr(TupleDescAttr(row->descriptor, column - 1)->attname))));
}
