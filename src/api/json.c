/*
 * json.c
 *		Changes and definitions of rings as jsonb.
 *
 * Readers are strict: a member that is not known is an error, since somebody
 * meant something by it.
 */
#include "json.h"

#include "../store/values.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/* The version of the format that chash_export writes. */
#define FORMAT 1

pg_noreturn static void report_malformed(const char *what, const char *message, ...)
	pg_attribute_printf(2, 3);

/* Raises the error for malformed JSON; `what` is "changes" or "definition". */
static void
report_malformed(const char *what, const char *message, ...)
{
	StringInfoData detail;

	initStringInfo(&detail);
	for (;;)
	{
		va_list arguments;
		int needed;

		va_start(arguments, message);
		needed = appendStringInfoVA(&detail, message, arguments);
		va_end(arguments);
		if (needed == 0)
			break;
		enlargeStringInfo(&detail, needed);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("malformed %s of a ring", what),
			 errdetail_internal("%s", detail.data),
			 strcmp(what, "changes") == 0 ?
			 errhint("For example {\"d\": {\"weight\": 2, \"zone\": \"b\"}, \"a\": null}.") :
			 errhint("Give what chash_export gave.")));
}

void
chash_report_pins(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("pins are not supported by this version of chash"),
			 errhint("Leave pins out.")));
}

static char *
string_of(const JsonbValue *value)
{
	return pnstrdup(value->val.string.val, value->val.string.len);
}

static bool
is_container(const JsonbValue *value, bool object)
{
	return value->type == jbvBinary && (object ? JsonContainerIsObject(value->val.binary.data)
											   : JsonContainerIsArray(value->val.binary.data));
}

/* Starts to iterate over an object or array, past its opening. */
static JsonbIterator *
open_container(JsonbContainer *container)
{
	JsonbIterator *iterator = JsonbIteratorInit(container);
	JsonbValue value;

	(void) JsonbIteratorNext(&iterator, &value, true);
	return iterator;
}

/* The next member of an object; false at its end. */
static bool
next_member(JsonbIterator **iterator, char **name, JsonbValue *value)
{
	JsonbValue key;

	if (JsonbIteratorNext(iterator, &key, true) != WJB_KEY)
		return false;
	*name = string_of(&key);
	(void) JsonbIteratorNext(iterator, value, true);
	return true;
}

/* The next element of an array; false at its end. */
static bool
next_element(JsonbIterator **iterator, JsonbValue *value)
{
	return JsonbIteratorNext(iterator, value, true) == WJB_ELEM;
}

/* How a member of a node is named in messages. */
static char *
node_label(const char *name, const char *node)
{
	return psprintf("\"%s\" of node \"%s\"", name, chash_clip(node));
}

/* A whole number; `label` names it in messages. */
static int64
whole_number(const char *what, const char *label, const JsonbValue *value)
{
	Datum number;
	Datum limits[2];

	if (value->type != jbvNumeric)
		report_malformed(what, "%s must be a number.", label);
	number = NumericGetDatum(value->val.numeric);
	if (!DatumGetBool(
			DirectFunctionCall2(numeric_eq, number,
								DirectFunctionCall2(numeric_trunc, number, Int32GetDatum(0)))))
		report_malformed(what, "%s must be a whole number, not %s.", label,
						 chash_clip(DatumGetCString(DirectFunctionCall1(numeric_out, number))));
	limits[0] = NumericGetDatum(int64_to_numeric(PG_INT64_MIN));
	limits[1] = NumericGetDatum(int64_to_numeric(PG_INT64_MAX));
	if (DatumGetBool(DirectFunctionCall2(numeric_lt, number, limits[0])) ||
		DatumGetBool(DirectFunctionCall2(numeric_gt, number, limits[1])))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("value %s is out of range",
						chash_clip(DatumGetCString(DirectFunctionCall1(numeric_out, number)))),
				 errdetail("%s must fit into a bigint.", label)));
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, number));
}

static int32
small_number(const char *what, const char *label, const JsonbValue *value)
{
	int64 number = whole_number(what, label, value);

	if (number < PG_INT32_MIN || number > PG_INT32_MAX)
		report_malformed(what, "%s is out of range: %lld.", label, (long long) number);
	return (int32) number;
}

static char *
string_member(const char *what, const char *label, const JsonbValue *value)
{
	if (value->type != jbvString)
		report_malformed(what, "%s must be a string.", label);
	return string_of(value);
}

static int64 *
number_list(const char *what, const char *label, const JsonbValue *value, uint32 *count)
{
	JsonbIterator *iterator;
	JsonbValue element;
	int64 *numbers;

	if (!is_container(value, false))
		report_malformed(what, "%s must be an array.", label);
	numbers = palloc_array(int64, Max(JsonContainerSize(value->val.binary.data), 1));
	*count = 0;
	iterator = open_container(value->val.binary.data);
	while (next_element(&iterator, &element))
		numbers[(*count)++] = whole_number(what, psprintf("Each element of %s", label), &element);
	return numbers;
}

/* Takes one member of a node; false if it has no such member. */
static bool
read_node_member(const char *what, const char *name, const JsonbValue *value, ChashChange *change)
{
	const char *label = node_label(name, change->node);

	if (strcmp(name, "weight") == 0)
	{
		if (value->type != jbvNumeric)
			report_malformed(what, "%s must be a number.", label);
		change->has_weight = true;
		change->weight = chash_weight_from_numeric(value->val.numeric, change->node);
	}
	else if (strcmp(name, "zone") == 0)
	{
		change->has_zone = true;
		change->zone = value->type == jbvNull ? NULL : string_member(what, label, value);
	}
	else if (strcmp(name, "state") == 0)
	{
		change->has_state = true;
		change->down = chash_state_is_down(string_member(what, label, value), change->node);
	}
	else if (strcmp(name, "tokens") == 0)
	{
		change->has_tokens = true;
		change->tokens = number_list(what, label, value, &change->token_count);
	}
	else if (strcmp(name, "info") == 0)
	{
		change->has_info = true;
		change->info =
			value->type == jbvNull ? NULL : JsonbValueToJsonb(unconstify(JsonbValue *, value));
	}
	else
		return false;
	return true;
}

ChashChange *
chash_changes_from_json(Jsonb *json, uint32 *count)
{
	JsonbIterator *iterator;
	JsonbValue value;
	ChashChange *changes;
	char *name;

	if (!JB_ROOT_IS_OBJECT(json))
		report_malformed("changes", "They must be an object with a member per node.");
	changes = palloc0_array(ChashChange, Max(JB_ROOT_COUNT(json), 1));
	*count = 0;
	iterator = open_container(&json->root);
	while (next_member(&iterator, &name, &value))
	{
		ChashChange *change = &changes[(*count)++];
		JsonbIterator *members;
		JsonbValue member;

		CHECK_FOR_INTERRUPTS();
		change->node = name;
		change->kind = value.type == jbvNull ? CHASH_REMOVE : CHASH_UPSERT;
		if (value.type == jbvNull)
			continue;
		if (!is_container(&value, true))
			report_malformed("changes", "Node \"%s\" must have an object, or null.",
							 chash_clip(change->node));
		members = open_container(value.val.binary.data);
		while (next_member(&members, &name, &member))
		{
			if (!read_node_member("changes", name, &member, change))
				report_malformed(
					"changes",
					"Node \"%s\" has a member \"%s\", which is none of weight, zone, info, tokens and state.",
					change->node, name);
		}
	}
	return changes;
}

/* ----------------------------------------------------------------
 * Export
 * ----------------------------------------------------------------
 */

static void
push_key(JsonbInState *state, const char *key)
{
	JsonbValue value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, key);
	value.val.string.len = (int) strlen(key);
	pushJsonbValue(state, WJB_KEY, &value);
}

static void
push_string(JsonbInState *state, const char *key, const char *string)
{
	JsonbValue value = {.type = jbvNull};

	push_key(state, key);
	if (string != NULL)
	{
		value.type = jbvString;
		value.val.string.val = unconstify(char *, string);
		value.val.string.len = (int) strlen(string);
	}
	pushJsonbValue(state, WJB_VALUE, &value);
}

static void
push_number(JsonbInState *state, JsonbIteratorToken token, Numeric number)
{
	JsonbValue value;

	value.type = jbvNumeric;
	value.val.numeric = number;
	pushJsonbValue(state, token, &value);
}

static void
push_integer(JsonbInState *state, const char *key, int64 number)
{
	push_key(state, key);
	push_number(state, WJB_VALUE, int64_to_numeric(number));
}

static void
push_node(JsonbInState *state, const ChashDefinition *definition, const ChashNode *node)
{
	JsonbValue info = {.type = jbvNull};

	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	push_string(state, "node", node->name);
	push_key(state, "weight");
	push_number(state, WJB_VALUE, chash_weight_to_numeric(node->spec.weight));
	push_string(state, "zone", node->zone);
	push_string(state, "state", node->spec.down ? "down" : "up");
	if (definition->ring.placement == CHASH_TOKENS)
	{
		push_key(state, "tokens");
		pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
		for (uint32 i = 0; i < node->spec.token_count; i++)
			push_number(state, WJB_ELEM, int64_to_numeric(node->spec.tokens[i]));
		pushJsonbValue(state, WJB_END_ARRAY, NULL);
	}
	if (definition->ring.placement == CHASH_PARTITIONS)
	{
		push_key(state, "held_partitions");
		pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
		for (uint32 i = 0; i < node->spec.partition_count; i++)
			push_number(state, WJB_ELEM, int64_to_numeric(node->spec.partitions[i]));
		pushJsonbValue(state, WJB_END_ARRAY, NULL);
	}
	push_key(state, "info");
	if (node->info != NULL)
		JsonbToJsonbValue(node->info, &info);
	pushJsonbValue(state, WJB_VALUE, &info);
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

Jsonb *
chash_definition_to_json(const ChashDefinition *definition)
{
	JsonbInState state = {0};
	JsonbValue hash_tags = {.type = jbvBool, .val.boolean = definition->ring.hash_tags};

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_integer(&state, "format", FORMAT);
	push_string(&state, "ring", definition->ring.ring);
	push_string(&state, "placement", chash_placement_name(definition->ring.placement));
	push_string(&state, "hash", definition->ring.hash->name);
	if (definition->ring.placement == CHASH_VNODES)
		push_integer(&state, "vnodes", definition->ring.vnodes);
	if (definition->ring.placement == CHASH_PARTITIONS)
		push_integer(&state, "partitions", definition->ring.partitions);
	push_key(&state, "hash_tags");
	pushJsonbValue(&state, WJB_VALUE, &hash_tags);
	push_integer(&state, "replicas", definition->ring.replicas);
	push_integer(&state, "epoch", definition->ring.epoch);
	push_string(&state, "fingerprint", chash_definition_fingerprint(definition));
	push_key(&state, "nodes");
	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (uint32 i = 0; i < definition->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		push_node(&state, definition, &definition->nodes[i]);
	}
	pushJsonbValue(&state, WJB_END_ARRAY, NULL);
	pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return JsonbValueToJsonb(state.result);
}

/* ----------------------------------------------------------------
 * Import
 * ----------------------------------------------------------------
 */

/* Members of a definition. */
enum
{
	FORMAT_MEMBER,
	RING_MEMBER,
	PLACEMENT_MEMBER,
	HASH_MEMBER,
	VNODES_MEMBER,
	PARTITIONS_MEMBER,
	HASH_TAGS_MEMBER,
	REPLICAS_MEMBER,
	EPOCH_MEMBER,
	FINGERPRINT_MEMBER,
	NODES_MEMBER,
	MEMBERS
};

static const char *const member_names[MEMBERS] = {
	"format",	 "ring",	 "placement", "hash",		 "vnodes", "partitions",
	"hash_tags", "replicas", "epoch",	  "fingerprint", "nodes",
};

/* What a definition says, before it is known to be right. */
typedef struct Settings
{
	bool given[MEMBERS];
	int64 format;
	char *placement;
	char *hash;
	int32 vnodes;
	int32 partitions;
	bool hash_tags;
	int32 replicas;
	int64 epoch;
	char *fingerprint;
	JsonbContainer *nodes;
} Settings;

static void
read_setting(const char *name, const JsonbValue *value, Settings *settings)
{
	static const char what[] = "definition";
	char *label = psprintf("\"%s\"", chash_clip(name));
	int member = 0;

	while (member < MEMBERS && strcmp(name, member_names[member]) != 0)
		member++;
	if (member == MEMBERS)
		report_malformed(what, "It has a member %s, which is not known.", label);
	settings->given[member] = true;
	switch (member)
	{
		case FORMAT_MEMBER:
			settings->format = whole_number(what, label, value);
			break;
		case RING_MEMBER:
			(void) string_member(what, label, value);
			break;
		case PLACEMENT_MEMBER:
			settings->placement = string_member(what, label, value);
			break;
		case HASH_MEMBER:
			settings->hash = string_member(what, label, value);
			break;
		case VNODES_MEMBER:
			settings->vnodes = small_number(what, label, value);
			break;
		case PARTITIONS_MEMBER:
			settings->partitions = small_number(what, label, value);
			break;
		case HASH_TAGS_MEMBER:
			if (value->type != jbvBool)
				report_malformed(what, "%s must be true or false.", label);
			settings->hash_tags = value->val.boolean;
			break;
		case REPLICAS_MEMBER:
			settings->replicas = small_number(what, label, value);
			break;
		case EPOCH_MEMBER:
			settings->epoch = whole_number(what, label, value);
			break;
		case FINGERPRINT_MEMBER:
			settings->fingerprint = string_member(what, label, value);
			break;
		case NODES_MEMBER:
			if (!is_container(value, false))
				report_malformed(what, "%s must be an array.", label);
			settings->nodes = value->val.binary.data;
			break;
	}
}

/* Checks the settings and makes them those of the ring. */
static void
take_settings(const Settings *settings, const char *ring, ChashRingRow *row)
{
	for (int member = 0; member < MEMBERS; member++)
	{
		if (!settings->given[member] && member != RING_MEMBER && member != VNODES_MEMBER &&
			member != PARTITIONS_MEMBER)
			report_malformed("definition", "It has no member \"%s\".", member_names[member]);
	}
	if (settings->format != FORMAT)
		report_malformed("definition", "Its format is %lld; this version of chash reads %d.",
						 (long long) settings->format, FORMAT);
	chash_check_settings(settings->placement, settings->hash, settings->given[VNODES_MEMBER],
						 settings->vnodes, settings->given[PARTITIONS_MEMBER],
						 settings->partitions);
	(void) chash_placement_by_name(settings->placement, &row->placement);
	if (row->placement == CHASH_VNODES && !settings->given[VNODES_MEMBER])
		report_malformed("definition", "It has no member \"vnodes\".");
	if (row->placement == CHASH_PARTITIONS && !settings->given[PARTITIONS_MEMBER])
		report_malformed("definition", "It has no member \"partitions\".");
	chash_check_replicas(settings->replicas);
	chash_check_epoch(ring, settings->epoch);

	row->ring = pstrdup(ring);
	row->hash = chash_hash_by_name(settings->hash);
	row->vnodes = (uint32) settings->vnodes;
	row->partitions = (uint32) settings->partitions;
	row->hash_tags = settings->hash_tags;
	row->replicas = settings->replicas;
	row->epoch = settings->epoch;
}

/* Takes the partitions that a node holds. */
static void
read_partitions(const JsonbValue *value, uint32 partitions, ChashChange *change)
{
	static const char what[] = "definition";
	int64 *numbers = number_list(what, node_label("held_partitions", change->node), value,
								 &change->partition_count);

	change->partitions = palloc_array(uint32, Max(change->partition_count, 1));
	for (uint32 i = 0; i < change->partition_count; i++)
	{
		if (numbers[i] < 0 || numbers[i] >= partitions || (i > 0 && numbers[i] <= numbers[i - 1]))
			report_malformed(
				what, "Node \"%s\" has \"held_partitions\" that are out of range or order: %lld.",
				chash_clip(change->node), (long long) numbers[i]);
		change->partitions[i] = (uint32) numbers[i];
	}
}

/* Reads a node of a definition, as a change that adds it. */
static void
read_node(const JsonbValue *value, const ChashRingRow *ring, ChashChange *change)
{
	static const char what[] = "definition";
	JsonbIterator *iterator;
	JsonbValue member;
	const JsonbValue *name_value;
	JsonbValue name_buffer;
	char *name;

	if (!is_container(value, true))
		report_malformed(what, "Each of its \"nodes\" must be an object.");
	name_value = getKeyJsonValueFromContainer(value->val.binary.data, "node", 4, &name_buffer);
	if (name_value == NULL)
		report_malformed(what, "One of its \"nodes\" has no member \"node\".");
	change->kind = CHASH_ADD;
	change->node = string_member(what, "\"node\"", name_value);

	iterator = open_container(value->val.binary.data);
	while (next_member(&iterator, &name, &member))
	{
		if (strcmp(name, "node") == 0)
			continue;
		if (strcmp(name, "held_partitions") == 0 && ring->placement == CHASH_PARTITIONS)
			read_partitions(&member, ring->partitions, change);
		else if ((strcmp(name, "tokens") == 0 && ring->placement != CHASH_TOKENS) ||
				 !read_node_member(what, name, &member, change))
			report_malformed(what, "Node \"%s\" has a member \"%s\", which is not known.",
							 chash_clip(change->node), chash_clip(name));
	}
	if (!change->has_weight)
		report_malformed(what, "Node \"%s\" has no member \"weight\".", chash_clip(change->node));
}

void
chash_definition_from_json(Jsonb *json, const char *ring, ChashDefinition *definition)
{
	Settings settings = {0};
	static const char what[] = "definition";
	JsonbIterator *iterator;
	JsonbValue value;
	char *name;
	char *fingerprint;
	ChashChange *nodes;
	uint32 count = 0;

	chash_check_name("ring", ring);
	if (!JB_ROOT_IS_OBJECT(json))
		report_malformed(what, "It must be an object.");
	iterator = open_container(&json->root);
	while (next_member(&iterator, &name, &value))
		read_setting(name, &value, &settings);

	memset(definition, 0, sizeof(*definition));
	take_settings(&settings, ring, &definition->ring);
	nodes = palloc0_array(ChashChange, Max(JsonContainerSize(settings.nodes), 1));
	iterator = open_container(settings.nodes);
	while (next_element(&iterator, &value))
	{
		CHECK_FOR_INTERRUPTS();
		read_node(&value, &definition->ring, &nodes[count++]);
	}
	chash_definition_change(definition, nodes, count);
	for (uint32 i = 1; i < definition->count; i++)
	{
		if (strcmp(definition->nodes[i - 1].name, definition->nodes[i].name) == 0)
			report_malformed(what, "Node \"%s\" is there twice.",
							 chash_clip(definition->nodes[i].name));
	}

	fingerprint = chash_definition_fingerprint(definition);
	if (strcmp(fingerprint, settings.fingerprint) != 0)
		report_malformed(what, "Its fingerprint is \"%s\", but what it defines has %s.",
						 chash_clip(settings.fingerprint), fingerprint);

	if (!chash_definition_is_sound(definition))
		report_malformed(what, "Its partitions do not have one owner each.");
}
