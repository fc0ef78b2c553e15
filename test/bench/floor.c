/*
 * floor.c
 *		The least that a function like chash_node can cost in a query.
 *
 * bench_floor(text, nodes) hashes the key and finds a name in the cheapest
 * structure that we know of, without asking whether it is still valid, which
 * ring is meant, or how the database encodes text.  It is no ring that could be
 * used: points that do not fit are left out.
 *
 *	cc -O3 -fPIC -shared -I$(pg_config --includedir-server) -o floor.so floor.c
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

PG_MODULE_MAGIC;

#define POINTS_A_NODE 256
#define SLOTS 20
#define POINTS_A_LINE 11

/*
 * A part of the circle, in one cache line: eight bits of each of its points, the
 * highest that lines do not tell apart, ascending, and their nodes; after the
 * last one, the first of the next line.
 */
typedef struct Line
{
	uint8 keys[SLOTS];
	uint16 owners[SLOTS];
	char rest[4];
} Line;

typedef struct Floor
{
	struct Floor *another;
	uint32 nodes;
	Line *lines; /* one for POINTS_A_LINE points */
	uint32 line_count;
	Datum *names;
} Floor;

/* The line of a position, and its place there. */
static inline Line *
line_of(const Floor *map, uint64 position, uint8 *key)
{
	uint64 place = (position >> 32) * map->line_count;

	*key = (uint8) (place >> 24);
	return &map->lines[place >> 32];
}

static void
insert(Line *line, int count, uint8 key, uint16 owner)
{
	int at = count;

	if (count == SLOTS - 1)
		return;
	for (; at > 0 && line->keys[at - 1] > key; at--)
	{
		line->keys[at] = line->keys[at - 1];
		line->owners[at] = line->owners[at - 1];
	}
	line->keys[at] = key;
	line->owners[at] = owner;
}

static Floor *
build(uint32 nodes)
{
	Floor *map = palloc0(sizeof(Floor));
	uint32 points = nodes * POINTS_A_NODE;
	uint8 *counts;

	map->nodes = nodes;
	map->line_count = points / POINTS_A_LINE + 1;
	map->lines = palloc_extended(64 + map->line_count * sizeof(Line), MCXT_ALLOC_HUGE);
	map->lines = (Line *) TYPEALIGN(64, map->lines);
	counts = palloc0(map->line_count);
	map->names = palloc(nodes * sizeof(Datum));
	for (uint32 i = 0; i < points; i++)
	{
		uint8 key;
		Line *line = line_of(map, XXH3_64bits(&i, sizeof(i)), &key);
		uint8 *count = &counts[line - map->lines];

		insert(line, *count, key, (uint16) (i % nodes));
		*count = Min(*count + 1, SLOTS - 1);
	}
	for (uint32 i = map->line_count; i-- > 0;)
	{
		for (int slot = counts[i]; slot < SLOTS; slot++)
		{
			map->lines[i].keys[slot] = PG_UINT8_MAX;
			map->lines[i].owners[slot] = map->lines[(i + 1) % map->line_count].owners[0];
		}
	}
	pfree(counts);
	for (uint32 i = 0; i < nodes; i++)
		map->names[i] = CStringGetTextDatum(psprintf("node-%u", i));
	return map;
}

/* Each size is built once in a session. */
static Floor *
find(uint32 nodes)
{
	static Floor *first = NULL;
	MemoryContext caller;
	Floor *map;

	for (map = first; map != NULL; map = map->another)
	{
		if (map->nodes == nodes)
			return map;
	}
	caller = MemoryContextSwitchTo(TopMemoryContext);
	map = build(nodes);
	MemoryContextSwitchTo(caller);
	map->another = first;
	first = map;
	return map;
}

PG_FUNCTION_INFO_V1(bench_floor);

Datum
bench_floor(PG_FUNCTION_ARGS)
{
	text *name = PG_GETARG_TEXT_PP(0);
	uint64 position = XXH3_64bits(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
	Floor *map = fcinfo->flinfo->fn_extra;
	const Line *line;
	uint8 key;
	uint8 before = 0;

	if (unlikely(map == NULL))
		map = fcinfo->flinfo->fn_extra = find((uint32) PG_GETARG_INT32(1));
	line = line_of(map, position, &key);
	for (int slot = 0; slot < SLOTS; slot++)
		before += line->keys[slot] < key;
	return map->names[line->owners[Min(before, SLOTS - 1)]];
}
