/*
 * json.c
 *		Changes and definitions of rings as jsonb.
 *
 * Readers are strict: a member that is not known is an error, since somebody
 * meant something by it.
 */
#include "json.h"

#include "../store/values.h"

#include "common/jsonapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/*
 * The version of the format that chash_export writes.  Where the info of a node
 * is JSON null it is the other one, in which a node without info has no such
 * member, and null stands for itself; elsewhere null is no info.
 */
#define FORMAT 1
#define FORMAT_WITH_NULLS 2

/* More nodes in one value are refused, since it would take too much memory. */
#define MAX_CHANGES 1048576

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

/* What is being read; for messages, which are made when there is an error. */
typedef struct Place
{
	const char *what;	/* "changes" or "definition" */
	const char *member; /* name of the member */
	const char *node;	/* of which node, or NULL */
	bool element;		/* an element of that member, which is an array */
} Place;

static char *
describe(const Place *place)
{
	StringInfoData description;

	initStringInfo(&description);
	appendStringInfo(&description, "%s\"%s\"", place->element ? "Each element of " : "",
					 chash_clip(place->member));
	if (place->node != NULL)
		appendStringInfo(&description, " of node \"%s\"", chash_clip(place->node));
	return description.data;
}

/* A whole number.  Nothing stays in memory, since there can be millions. */
static int64
whole_number(const Place *place, const JsonbValue *value)
{
	char *decimal;
	char *fraction;
	int64 number;

	if (value->type != jbvNumeric)
		report_malformed(place->what, "%s must be a number.", describe(place));
	decimal =
		DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
	fraction = strchr(decimal, '.');
	if (fraction != NULL && fraction[1 + strspn(fraction + 1, "0")] != '\0')
		report_malformed(place->what, "%s must be a whole number, not %s.", describe(place),
						 chash_clip(decimal));
	errno = 0;
	number = strtoll(decimal, NULL, 10);
	if (errno != 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("value %s is out of range", chash_clip(decimal)),
				 errdetail("%s must fit into a bigint.", describe(place))));
	pfree(decimal);
	return number;
}

static int32
small_number(const Place *place, const JsonbValue *value)
{
	int64 number = whole_number(place, value);

	if (number < PG_INT32_MIN || number > PG_INT32_MAX)
		report_malformed(place->what, "%s is out of range: %lld.", describe(place),
						 (long long) number);
	return (int32) number;
}

static char *
string_member(const Place *place, const JsonbValue *value)
{
	if (value->type != jbvString)
		report_malformed(place->what, "%s must be a string.", describe(place));
	return string_of(value);
}

/* A number, as JSON or as a string, which is what many drivers make of a decimal. */
static Numeric
decimal_number(const Place *place, const JsonbValue *value)
{
	if (value->type == jbvNumeric)
		return value->val.numeric;
	if (value->type != jbvString || value->val.string.len > CHASH_MAX_NAME ||
		!IsValidJsonNumber(value->val.string.val, value->val.string.len))
		report_malformed(place->what, "%s must be a number.", describe(place));
	return DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(string_of(value)),
											   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

/* How many elements an array has. */
static uint32
array_size(const Place *place, const JsonbValue *value)
{
	if (!is_container(value, false))
		report_malformed(place->what, "%s must be an array.", describe(place));
	return JsonContainerSize(value->val.binary.data);
}

/* The elements of an array that array_size has seen. */
static int64 *
number_list(const Place *place, const JsonbValue *value)
{
	Place each = *place;
	int64 *numbers = palloc_array(int64, Max(JsonContainerSize(value->val.binary.data), 1));
	JsonbIterator *iterator = open_container(value->val.binary.data);
	JsonbValue element;

	each.element = true;
	for (uint32 i = 0; next_element(&iterator, &element); i++)
	{
		CHECK_FOR_INTERRUPTS();
		numbers[i] = whole_number(&each, &element);
	}
	return numbers;
}

static void
read_tokens(const Place *place, const JsonbValue *value, ChashChange *change)
{
	change->has_tokens = true;
	change->token_count = array_size(place, value);
	if (change->token_count > CHASH_MAX_POINTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("node \"%s\" has more than %d tokens", change->node, CHASH_MAX_POINTS)));
	change->tokens = number_list(place, value);
}

/* Takes one member of a node; false if it has no such member. */
static bool
read_node_member(const Place *place, const JsonbValue *value, ChashChange *change)
{
	if (strcmp(place->member, "weight") == 0)
	{
		change->has_weight = true;
		change->weight = chash_weight_from_numeric(decimal_number(place, value), change->node);
	}
	else if (strcmp(place->member, "zone") == 0)
	{
		change->has_zone = true;
		change->zone = value->type == jbvNull ? NULL : string_member(place, value);
	}
	else if (strcmp(place->member, "state") == 0)
	{
		change->has_state = true;
		change->down = chash_state_is_down(string_member(place, value), change->node);
	}
	else if (strcmp(place->member, "tokens") == 0)
		read_tokens(place, value, change);
	else if (strcmp(place->member, "info") == 0)
	{
		change->has_info = true;
		change->info =
			value->type == jbvNull ? NULL : JsonbValueToJsonb(unconstify(JsonbValue *, value));
	}
	else
		return false;
	return true;
}

/* A driver that is given JSON as a string can make JSON of it once more. */
static void
check_object(const char *what, Jsonb *json)
{
	JsonbValue value;

	if (JB_ROOT_IS_OBJECT(json))
		return;
	if (JsonbExtractScalar(&json->root, &value) && value.type == jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("malformed %s of a ring", what),
				 errdetail("This is a JSON string, not an object: the value was encoded as JSON twice."),
				 errhint("Give the driver the object instead of its text, or cast the text: $1::text::jsonb.")));
	if (strcmp(what, "changes") == 0)
		report_malformed(what, "They must be an object with a member per node.");
	report_malformed(what, "It must be an object.");
}

ChashChange *
chash_changes_from_json(Jsonb *json, uint32 *count)
{
	JsonbIterator *iterator;
	JsonbValue value;
	ChashChange *changes;
	char *name;

	check_object("changes", json);
	if (JB_ROOT_COUNT(json) > MAX_CHANGES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("changes of a ring are of more than %d nodes", MAX_CHANGES),
				 errhint("Make them in several steps.")));
	changes = palloc0_array(ChashChange, Max(JB_ROOT_COUNT(json), 1));
	*count = 0;
	iterator = open_container(&json->root);
	while (next_member(&iterator, &name, &value))
	{
		ChashChange *change = &changes[(*count)++];
		Place place = {"changes", NULL, name, false};
		JsonbIterator *members;
		JsonbValue member;

		CHECK_FOR_INTERRUPTS();
		chash_check_name("node", name);
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
			place.member = name;
			if (!read_node_member(&place, &member, change))
				report_malformed(
					"changes",
					"Node \"%s\" has a member \"%s\", which is none of weight, zone, info, tokens and state.",
					chash_clip(change->node), chash_clip(name));
			pfree(name);
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
push_node(JsonbInState *state, const ChashDefinition *definition, const ChashNode *node, int format)
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
		{
			CHECK_FOR_INTERRUPTS();
			push_number(state, WJB_ELEM, int64_to_numeric(node->spec.tokens[i]));
		}
		pushJsonbValue(state, WJB_END_ARRAY, NULL);
	}
	if (definition->ring.placement == CHASH_PARTITIONS)
	{
		push_key(state, "held_partitions");
		pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
		for (uint32 i = 0; i < node->spec.partition_count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			push_number(state, WJB_ELEM, int64_to_numeric(node->spec.partitions[i]));
		}
		pushJsonbValue(state, WJB_END_ARRAY, NULL);
	}
	if (node->info != NULL || format == FORMAT)
	{
		push_key(state, "info");
		if (node->info != NULL)
			JsonbToJsonbValue(node->info, &info);
		pushJsonbValue(state, WJB_VALUE, &info);
	}
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Which format a definition needs. */
static int
format_of(const ChashDefinition *definition)
{
	for (uint32 i = 0; i < definition->count; i++)
	{
		Jsonb *info = definition->nodes[i].info;
		JsonbValue value;

		CHECK_FOR_INTERRUPTS();
		if (info != NULL && JsonbExtractScalar(&info->root, &value) && value.type == jbvNull)
			return FORMAT_WITH_NULLS;
	}
	return FORMAT;
}

Jsonb *
chash_definition_to_json(const ChashDefinition *definition)
{
	int format = format_of(definition);
	JsonbInState state = {0};
	JsonbValue hash_tags = {.type = jbvBool, .val.boolean = definition->ring.hash_tags};

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_integer(&state, "format", format);
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
		push_node(&state, definition, &definition->nodes[i], format);
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
	Place place = {"definition", name, NULL, false};
	int member = 0;

	while (member < MEMBERS && strcmp(name, member_names[member]) != 0)
		member++;
	if (member == MEMBERS)
		report_malformed(place.what, "It has a member %s, which is not known.", describe(&place));
	settings->given[member] = true;
	switch (member)
	{
		case FORMAT_MEMBER:
			settings->format = whole_number(&place, value);
			break;
		case RING_MEMBER:
			(void) string_member(&place, value);
			break;
		case PLACEMENT_MEMBER:
			settings->placement = string_member(&place, value);
			break;
		case HASH_MEMBER:
			settings->hash = string_member(&place, value);
			break;
		case VNODES_MEMBER:
			settings->vnodes = small_number(&place, value);
			break;
		case PARTITIONS_MEMBER:
			settings->partitions = small_number(&place, value);
			break;
		case HASH_TAGS_MEMBER:
			if (value->type != jbvBool)
				report_malformed(place.what, "%s must be true or false.", describe(&place));
			settings->hash_tags = value->val.boolean;
			break;
		case REPLICAS_MEMBER:
			settings->replicas = small_number(&place, value);
			break;
		case EPOCH_MEMBER:
			settings->epoch = whole_number(&place, value);
			break;
		case FINGERPRINT_MEMBER:
			settings->fingerprint = string_member(&place, value);
			break;
		case NODES_MEMBER:
			(void) array_size(&place, value);
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
	if (settings->format != FORMAT && settings->format != FORMAT_WITH_NULLS)
		report_malformed("definition", "Its format is %lld; this version of chash reads %d and %d.",
						 (long long) settings->format, FORMAT, FORMAT_WITH_NULLS);
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
read_partitions(const Place *place, const JsonbValue *value, uint32 partitions, ChashChange *change)
{
	int64 *numbers;

	change->partition_count = array_size(place, value);
	if (change->partition_count > partitions)
		report_malformed(place->what, "%s are more than the %u that there are.", describe(place),
						 partitions);
	numbers = number_list(place, value);
	change->partitions = palloc_array(uint32, Max(change->partition_count, 1));
	for (uint32 i = 0; i < change->partition_count; i++)
	{
		if (numbers[i] < 0 || numbers[i] >= partitions || (i > 0 && numbers[i] <= numbers[i - 1]))
			report_malformed(
				place->what,
				"Node \"%s\" has \"held_partitions\" that are out of range or order: %lld.",
				chash_clip(change->node), (long long) numbers[i]);
		change->partitions[i] = (uint32) numbers[i];
	}
	pfree(numbers);
}

/* Reads a node of a definition, as a change that adds it. */
static void
read_node(const JsonbValue *value, const ChashRingRow *ring, int64 format, ChashChange *change)
{
	static const char what[] = "definition";
	Place place = {what, "node", NULL, false};
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
	change->node = string_member(&place, name_value);
	chash_check_name("node", change->node);
	place.node = change->node;

	iterator = open_container(value->val.binary.data);
	while (next_member(&iterator, &name, &member))
	{
		place.member = name;
		if (strcmp(name, "node") == 0)
			continue;
		if (strcmp(name, "info") == 0 && format == FORMAT_WITH_NULLS)
			change->info = JsonbValueToJsonb(&member);
		else if (strcmp(name, "held_partitions") == 0 && ring->placement == CHASH_PARTITIONS)
			read_partitions(&place, &member, ring->partitions, change);
		else if ((strcmp(name, "tokens") == 0 && ring->placement != CHASH_TOKENS) ||
				 !read_node_member(&place, &member, change))
			report_malformed(what, "Node \"%s\" has a member \"%s\", which is not known.",
							 chash_clip(change->node), chash_clip(name));
		pfree(name);
	}
	change->has_info |= change->info != NULL;
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
	check_object(what, json);
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
		read_node(&value, &definition->ring, settings.format, &nodes[count++]);
	}
	chash_definition_change(definition, nodes, count);
	for (uint32 i = 1; i < definition->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
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
