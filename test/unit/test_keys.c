/*
 * test_keys.c
 *		The texts of bigints and uuids against what the C library prints.
 */
#include "keys.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

static int tests = 0;
static int failures = 0;

static void
ok(bool passed, const char *name)
{
	tests++;
	failures += !passed;
	printf("%sok %d - %s\n", passed ? "" : "not ", tests, name);
}

static uint64_t state = 1;

static uint64_t
random_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static bool
bigint_is_right(int64_t value)
{
	char text[24];
	char expected[32];
	size_t length = chash_bigint_text(text, value);

	snprintf(expected, sizeof(expected), "%" PRId64, value);
	if (length == strlen(expected) && memcmp(text, expected, length) == 0)
		return true;
	printf("# %s: %.*s\n", expected, (int) length, text);
	return false;
}

static void
test_bigints(void)
{
	bool right = true;
	int64_t power = 1;

	for (int digits = 0; digits < 19; digits++)
	{
		for (int64_t near = -2; near <= 2; near++)
			right &= bigint_is_right(power + near) && bigint_is_right(-power + near);
		if (digits < 18)
			power *= 10;
	}
	ok(right, "bigints around the powers of ten");
	ok(bigint_is_right(0) && bigint_is_right(INT64_MIN) && bigint_is_right(INT64_MAX) &&
		   bigint_is_right(INT64_MIN + 1),
	   "zero, and both ends");

	right = true;
	for (int64_t value = -100000; value <= 100000; value++)
		right &= bigint_is_right(value);
	ok(right, "all bigints from -100000 to 100000");

	for (int i = 0; i < 2000000; i++)
		right &= bigint_is_right((int64_t) random_number() >> random_number() % 64);
	ok(right, "two million random bigints of all lengths");
}

static void
test_uuids(void)
{
	bool right = true;

	for (int i = 0; i < 100000; i++)
	{
		uint8_t bytes[16];
		char text[CHASH_UUID_TEXT + 1] = {0};
		char expected[64];
		char *end = expected;

		for (int k = 0; k < 16; k++)
			bytes[k] = i < 256 ? (uint8_t) (i + k * 17) : (uint8_t) random_number();
		for (int k = 0; k < 16; k++)
			end +=
				sprintf(end, "%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", bytes[k]);
		chash_uuid_text(text, bytes);
		if (strcmp(text, expected) != 0)
		{
			printf("# %s: %s\n", expected, text);
			right = false;
			break;
		}
	}
	ok(right, "100000 uuids, each byte at each place among them");
}

int
main(void)
{
	test_bigints();
	test_uuids();
	printf("1..%d\n", tests);
	return failures > 0;
}
