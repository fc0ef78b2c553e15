/*
 * explore.c
 *		Visits every state that can be reached, the nearest first, so that a trace
 *		to a state that is wrong is as short as can be.
 *
 * States lie packed, one after the other in the order in which they were found,
 * which is also the queue of those to visit.  A hash table of their numbers
 * finds them again.  Of each is kept from which it was found; a trace is told by
 * taking the steps again.
 *
 * Afterwards the steps other than crashes are followed backwards from the good
 * ends: a state that is not met has no way to an end.
 *
 * About 60 bytes a state with its steps, and 100 at the end.
 */
#include "explore.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

#define WORDS 3
#define NOBODY UINT32_MAX

typedef struct Packed
{
	uint64_t word[WORDS];
} Packed;

static Packed *states;
static uint32_t *found_from;
static uint64_t
	*last_edge; /* its edges end before this one; they begin where the last state's end */
static uint32_t state_count;
static uint32_t state_room;

static uint32_t *table; /* of numbers of states + 1 */
static uint32_t table_size;

static uint32_t *edges; /* where the steps lead, other than crashes */
static uint64_t edge_count;
static uint64_t edge_room;

static uint32_t visiting; /* the state whose steps are taken */
static bool telling;	  /* a trace: the step from `visiting` to `telling_to` is wanted */
static uint32_t telling_to;
static char told[200];

static void
give_up(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(2);
}

static void *
resized(void *old, uint64_t count, size_t size)
{
	void *new = realloc(old, count * size);

	if (new == NULL)
		give_up("out of memory");
	return new;
}

/* Where each byte of a state lies when it is packed. */
static size_t end_of[WORDS]; /* the first byte that lies in no word up to this one */
static uint8_t bit_of[sizeof(State)];
static uint8_t mask_of[sizeof(State)];

static void
lay_out(void)
{
	const uint8_t *width = (const uint8_t *) &state_width;
	int word = 0;
	int bit = 0;

	for (size_t i = 0; i < sizeof(State); i++)
	{
		if (bit + width[i] > 64)
		{
			word++;
			bit = 0;
		}
		if (word == WORDS)
			give_up("a state needs more than WORDS words");
		end_of[word] = i + 1;
		bit_of[i] = bit;
		mask_of[i] = (1 << width[i]) - 1;
		bit += width[i];
	}
}

static Packed
pack(const State *s)
{
	const uint8_t *value = (const uint8_t *) s;
	Packed packed;
	uint8_t too_much = 0;
	size_t i = 0;

	for (int word = 0; word < WORDS; word++)
	{
		uint64_t bits = 0;

		for (; i < end_of[word]; i++)
		{
			too_much |= value[i] & ~mask_of[i];
			bits |= (uint64_t) value[i] << bit_of[i];
		}
		packed.word[word] = bits;
	}
	if (too_much)
		give_up("a field of a state is wider than state_width says");
	return packed;
}

static State
unpack(const Packed *packed)
{
	State s;
	uint8_t *value = (uint8_t *) &s;
	size_t i = 0;

	for (int word = 0; word < WORDS; word++)
	{
		for (; i < end_of[word]; i++)
			value[i] = packed->word[word] >> bit_of[i] & mask_of[i];
	}
	return s;
}

static uint32_t
slot_of(Packed packed)
{
	uint64_t hash = 0;

	for (int i = 0; i < WORDS; i++)
	{
		hash = (hash ^ packed.word[i]) * UINT64_C(0x9E3779B97F4A7C15);
		hash ^= hash >> 29;
	}
	return hash & (table_size - 1);
}

static uint32_t
find_slot(Packed packed)
{
	uint32_t slot = slot_of(packed);

	while (table[slot] != 0 && memcmp(&states[table[slot] - 1], &packed, sizeof(packed)) != 0)
		slot = (slot + 1) & (table_size - 1);
	return slot;
}

static void
make_room(void)
{
	if (state_count < state_room)
		return;
	state_room = state_room ? 2 * state_room : 1 << 16;
	states = resized(states, state_room, sizeof(*states));
	found_from = resized(found_from, state_room, sizeof(*found_from));
	last_edge = resized(last_edge, state_room, sizeof(*last_edge));
	table_size = 2 * state_room;
	table = resized(table, table_size, sizeof(*table));
	memset(table, 0, table_size * sizeof(*table));
	for (uint32_t i = 0; i < state_count; i++)
		table[find_slot(states[i])] = i + 1;
}

/* The number of a state, which is a new one if it has not been met. */
static uint32_t
number_of(const State *s, uint32_t from)
{
	Packed packed = pack(s);
	uint32_t slot;

	make_room();
	slot = find_slot(packed);
	if (table[slot] == 0)
	{
		states[state_count] = packed;
		found_from[state_count] = from;
		table[slot] = ++state_count;
	}
	return table[slot] - 1;
}

void
step(const State *next, bool crash, const char *text, ...)
{
	State ordered = *next;
	uint32_t number;

	put_in_order(&ordered);
	number = number_of(&ordered, visiting);

	if (telling && number == telling_to && told[0] == '\0')
	{
		va_list args;

		va_start(args, text);
		vsnprintf(told, sizeof(told), text, args);
		va_end(args);
	}
	if (telling || crash || number == visiting)
		return;
	if (edge_count == edge_room)
	{
		edge_room = edge_room ? 2 * edge_room : 1 << 18;
		edges = resized(edges, edge_room, sizeof(*edges));
	}
	edges[edge_count++] = number;
}

static uint32_t
distance(uint32_t number)
{
	uint32_t steps = 0;

	while (found_from[number] != NOBODY)
	{
		number = found_from[number];
		steps++;
	}
	return steps;
}

/* One line: the rows on both shards, the owner, the state of the move; the step. */
static void
print_state(const char *prefix, uint32_t steps, const State *s, const char *text)
{
	static const char *const rows[] = {"-", "1", "2", "twice"};
	static const char *const moves[] = {"pending", "copying", "moved", "cleaned", "reverting"};

	printf("%s%3u  A: %s %s  B: %s %s  %s %-9s  %s\n", prefix, steps, rows[s->row[A][0]],
		   rows[s->row[A][1]], rows[s->row[B][0]], rows[s->row[B][1]], s->route == A ? "A" : "B",
		   moves[s->move], text);
}

static void
print_trace(const char *prefix, uint32_t number)
{
	State s;

	if (found_from[number] == NOBODY)
		snprintf(told, sizeof(told), "k0 and k1 on each shard, the owner, the state of the move");
	else
	{
		print_trace(prefix, found_from[number]);
		told[0] = '\0';
		visiting = found_from[number];
		telling_to = number;
		s = unpack(&states[visiting]);
		all_steps(&s);
	}
	s = unpack(&states[number]);
	print_state(prefix, distance(number), &s, told);
}

/* The first state from which no good end can be reached, or NOBODY. */
static uint32_t
without_an_end(void)
{
	uint64_t *start = resized(NULL, (uint64_t) state_count + 2, sizeof(*start));
	uint32_t *before = resized(NULL, edge_count + 1, sizeof(*before));
	uint32_t *queue = resized(NULL, state_count, sizeof(*queue));
	bool *ends = resized(NULL, state_count, sizeof(*ends));
	uint32_t queued = 0;
	uint32_t first = 0;

	/* The edges turned round: before state i are before[start[i]] up to start[i + 1]. */
	memset(start, 0, ((uint64_t) state_count + 2) * sizeof(*start));
	for (uint64_t i = 0; i < edge_count; i++)
		start[edges[i] + 2]++;
	for (uint32_t i = 1; i <= state_count; i++)
		start[i + 1] += start[i];
	for (uint32_t i = 0; i < state_count; i++)
	{
		for (uint64_t j = i == 0 ? 0 : last_edge[i - 1]; j < last_edge[i]; j++)
			before[start[edges[j] + 1]++] = i;
	}

	for (uint32_t i = 0; i < state_count; i++)
	{
		State s = unpack(&states[i]);

		ends[i] = is_good_end(&s);
		if (ends[i])
			queue[queued++] = i;
	}
	for (uint32_t i = 0; i < queued; i++)
	{
		for (uint64_t j = start[queue[i]]; j < start[queue[i] + 1]; j++)
		{
			if (ends[before[j]])
				continue;
			ends[before[j]] = true;
			queue[queued++] = before[j];
		}
	}
	while (first < state_count && ends[first])
		first++;
	free(start);
	free(before);
	free(queue);
	free(ends);
	return first < state_count ? first : NOBODY;
}

Result
explore(int wanted, const char *prefix)
{
	Result result = {0};
	uint32_t bad = NOBODY;
	State s;

	state_count = 0;
	edge_count = 0;
	telling = false;
	if (table != NULL)
		memset(table, 0, table_size * sizeof(*table));

	lay_out();
	first_state(&s);
	number_of(&s, NOBODY);
	for (visiting = 0; visiting < state_count; visiting++)
	{
		s = unpack(&states[visiting]);
		result.wrong = what_is_wrong(&s);
		if (result.wrong != FINE && (wanted == FINE || wanted == result.wrong))
		{
			bad = visiting;
			break;
		}
		if (!s.wrong)
			all_steps(&s);
		last_edge[visiting] = edge_count;
	}
	if (bad == NOBODY)
	{
		bad = without_an_end();
		result.wrong = bad != NOBODY ? WRONG_STUCK : FINE;
	}
	result.states = state_count;
	if (bad != NOBODY)
	{
		result.steps = distance(bad);
		telling = true;
		print_trace(prefix, bad);
	}
	return result;
}
