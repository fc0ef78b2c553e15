/*
 * values.c
 *		Checking and converting the values that make up rings and nodes.
 */
#include "values.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/* Bytes that are left of a long string in a message. */
#define CLIPPED 80

const char *
chash_to_utf8(const char *string, size_t length, size_t *utf8_length)
{
	int encoding = GetDatabaseEncoding();
	char *converted;

	*utf8_length = length;
	if (encoding == PG_UTF8 || encoding == PG_SQL_ASCII || length == 0)
		return string;
	converted = (char *) pg_do_encoding_conversion((unsigned char *) string, (int) length, encoding,
												   PG_UTF8);
	if (converted != string)
		*utf8_length = strlen(converted);
	return converted;
}

char *
chash_from_utf8(const char *string, size_t length)
{
	char *copy = pnstrdup(string, length);

	/* Under SQL_ASCII, pg_any_to_server would check what nobody declared. */
	if (GetDatabaseEncoding() == PG_SQL_ASCII)
		return copy;
	return pg_any_to_server(copy, (int) length, PG_UTF8);
}

const char *
chash_clip(const char *string)
{
	size_t length = strlen(string);
	int encoding = GetDatabaseEncoding();

	if (length <= CHASH_MAX_NAME)
		return string;

	/* Clients may want UTF-8, which names are under SQL_ASCII too. */
	if (encoding == PG_SQL_ASCII)
		encoding = PG_UTF8;
	return psprintf("%.*s...", pg_encoding_mbcliplen(encoding, string, (int) length, CLIPPED),
					string);
}

bool
chash_is_fingerprint(const char *string)
{
	return strlen(string) == CHASH_FINGERPRINT_SIZE - 1 &&
		   strspn(string, "0123456789abcdef") == CHASH_FINGERPRINT_SIZE - 1;
}

/* A database with encoding SQL_ASCII takes any bytes. */
static void
check_utf8(const char *what, const char *name)
{
	int length = (int) strlen(name);
	int valid;

	if (GetDatabaseEncoding() != PG_SQL_ASCII)
		return;
	valid = pg_encoding_verifymbstr(PG_UTF8, name, length);
	if (valid < length)
		ereport(ERROR,
				(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
				 errmsg("name of a %s is not valid UTF-8", what),
				 errdetail("Its byte number %d, 0x%02x, does not begin a character.", valid + 1,
						   (unsigned char) name[valid]),
				 errhint("Names are UTF-8 even where the database's encoding is SQL_ASCII.")));
}

void
chash_check_name(const char *what, const char *name)
{
	size_t length;

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("name of a %s cannot be null", what)));
	if (name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a %s cannot be empty", what)));
	check_utf8(what, name);
	(void) chash_to_utf8(name, strlen(name), &length);
	if (length > CHASH_MAX_NAME)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a %s is too long: \"%s\"", what, chash_clip(name)),
				 errdetail("It has %zu bytes in UTF-8; the limit is %d.", length, CHASH_MAX_NAME)));
	for (const char *c = name; *c != '\0'; c++)
	{
		if ((unsigned char) *c < 0x20 || *c == 0x7f)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("name of a %s has a control character: \"%s\"", what, name),
					 errdetail("It is the byte 0x%02x.", (unsigned char) *c)));
	}
}

int64
chash_weight_from_numeric(Numeric weight, const char *node)
{
	Datum number = NumericGetDatum(weight);
	Datum thousandths;

	if (numeric_is_nan(weight) || numeric_is_inf(weight) ||
		DatumGetBool(
			DirectFunctionCall2(numeric_lt, number, NumericGetDatum(int64_to_numeric(0)))) ||
		DatumGetBool(
			DirectFunctionCall2(numeric_gt, number,
								NumericGetDatum(chash_weight_to_numeric(CHASH_MAX_WEIGHT)))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("weight %s of node \"%s\" is out of range",
						chash_clip(DatumGetCString(DirectFunctionCall1(numeric_out, number))),
						chash_clip(node)),
				 errhint("A weight is from 0 to 999999.999; 0 holds nothing.")));

	thousandths = DirectFunctionCall2(numeric_mul, number,
									  NumericGetDatum(int64_to_numeric(CHASH_WEIGHT_ONE)));
	if (!DatumGetBool(
			DirectFunctionCall2(numeric_eq, thousandths,
								DirectFunctionCall2(numeric_trunc, thousandths, Int32GetDatum(0)))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("weight %s of node \"%s\" has more than three decimals",
						chash_clip(DatumGetCString(DirectFunctionCall1(numeric_out, number))),
						chash_clip(node)),
				 errhint("Round it; only the relation of weights to each other matters.")));
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, thousandths));
}

Numeric
chash_weight_to_numeric(int64 weight)
{
	return int64_div_fast_to_numeric(weight, 3);
}

bool
chash_state_is_down(const char *state, const char *node)
{
	if (strcmp(state, "down") == 0)
		return true;
	if (strcmp(state, "up") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("state \"%s\" of node \"%s\" does not exist", chash_clip(state), chash_clip(node)),
				 errhint("States are up and down.")));
	return false;
}

static int
compare_int64(const void *a, const void *b)
{
	int64 left = *(const int64 *) a;
	int64 right = *(const int64 *) b;

	return (left > right) - (left < right);
}

static int
compare_uint32(const void *a, const void *b)
{
	uint32 left = *(const uint32 *) a;
	uint32 right = *(const uint32 *) b;

	return (left > right) - (left < right);
}

/* Sorts numbers, of which there can be millions, and can be interrupted. */
static void
sort(void *numbers, uint32 count, Size size, int (*compare)(const void *a, const void *b))
{
	void *scratch =
		MemoryContextAllocHuge(CurrentMemoryContext, Max(chash_sort_scratch_size(count, size), 1));

	chash_sort(numbers, count, size, compare, scratch);
	pfree(scratch);
}

void
chash_check_tokens(int64 *tokens, uint32 count, const ChashHash *hash, const char *node)
{
	if (count > CHASH_MAX_POINTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("node \"%s\" has more than %d tokens", chash_clip(node), CHASH_MAX_POINTS)));
	sort(tokens, count, sizeof(int64), compare_int64);
	for (uint32 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (hash != NULL && !chash_hash_covers(hash, tokens[i]))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("token %lld of node \"%s\" is out of range", (long long) tokens[i],
							chash_clip(node)),
					 errdetail("Positions under hash %s are from %lld to %lld.", hash->name,
							   (long long) hash->lowest, (long long) chash_hash_highest(hash))));
		if (i > 0 && tokens[i] == tokens[i - 1])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("token %lld of node \"%s\" is given twice", (long long) tokens[i],
							chash_clip(node))));
	}
}

int64 *
chash_tokens_from_array(ArrayType *array, const ChashHash *hash, const char *node, uint32 *count)
{
	int64 *tokens;

	if (ARR_NDIM(array) > 1 || array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("tokens of node \"%s\" have more than one dimension, or a null among them",
						chash_clip(node))));
	*count = (uint32) ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	tokens = palloc_array(int64, Max(*count, 1));
	memcpy(tokens, ARR_DATA_PTR(array), *count * sizeof(int64));
	chash_check_tokens(tokens, *count, hash, node);
	return tokens;
}

/* An array of numbers, which are in it as they are in memory. */
static ArrayType *
make_array(const void *numbers, uint32 count, Size size, Oid type)
{
	Size bytes = ARR_OVERHEAD_NONULLS(1) + count * size;
	ArrayType *array;

	if (count == 0)
		return construct_empty_array(type);
	array = palloc0(bytes);
	SET_VARSIZE(array, bytes);
	array->ndim = 1;
	array->elemtype = type;
	ARR_DIMS(array)[0] = (int) count;
	ARR_LBOUND(array)[0] = 1;
	memcpy(ARR_DATA_PTR(array), numbers, count * size);
	return array;
}

ArrayType *
chash_tokens_to_array(const int64 *tokens, uint32 count)
{
	return make_array(tokens, count, sizeof(int64), INT8OID);
}

uint32 *
chash_partitions_from_array(ArrayType *array, uint32 *count)
{
	uint32 *partitions;

	if (ARR_NDIM(array) > 1 || array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("held_partitions have more than one dimension, or a null among them")));
	*count = (uint32) ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	if (*count > CHASH_MAX_PARTITIONS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("held_partitions are more than there can be, %d", CHASH_MAX_PARTITIONS)));
	partitions = palloc_array(uint32, Max(*count, 1));
	memcpy(partitions, ARR_DATA_PTR(array), *count * sizeof(uint32));
	sort(partitions, *count, sizeof(uint32), compare_uint32);
	return partitions;
}

ArrayType *
chash_partitions_to_array(const uint32 *partitions, uint32 count)
{
	return make_array(partitions, count, sizeof(int32), INT4OID);
}

void
chash_check_hash(const char *hash)
{
	if (chash_hash_by_name(hash) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("hash \"%s\" does not exist", chash_clip(hash)),
				 errhint("The hash of this version is xxh3.")));
}

void
chash_check_settings(const char *placement_name, const char *hash, bool has_vnodes, int32 vnodes,
					 bool has_partitions, int32 partitions)
{
	ChashPlacement placement;

	if (!chash_placement_by_name(placement_name, &placement))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("placement \"%s\" does not exist", chash_clip(placement_name)),
				 errhint("Placements are vnodes, partitions and tokens.")));
	chash_check_hash(hash);
	if (has_vnodes && placement != CHASH_VNODES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("vnodes cannot be set with placement \"%s\"", placement_name),
				 errhint("Leave vnodes out, or use placement vnodes.")));
	if (has_partitions && placement != CHASH_PARTITIONS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("partitions cannot be set with placement \"%s\"", placement_name),
				 errhint("Leave partitions out, or use placement partitions.")));
	if (has_vnodes && (vnodes < 1 || vnodes > CHASH_MAX_VNODES))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("vnodes %d is out of range", vnodes),
				 errhint("A node of weight 1 has from 1 to %d points.", CHASH_MAX_VNODES)));
	if (has_partitions && (partitions < 1 || partitions > CHASH_MAX_PARTITIONS ||
						   (partitions & (partitions - 1)) != 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of partitions %d is not a power of two from 1 to %d", partitions,
						CHASH_MAX_PARTITIONS),
				 errhint("Use for example 1024, 4096 or 16384: the more there are, the more even is the balance.")));
}

void
chash_check_replicas(int32 replicas)
{
	if (replicas < 1 || replicas > CHASH_MAX_REPLICAS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of replicas %d is out of range", replicas),
				 errhint("It is from 1 to %d.", CHASH_MAX_REPLICAS)));
}
