/*
 * keys.h
 *		The text of keys that are not texts: what is hashed of a bigint or a uuid.
 *
 * A lookup does this once per row, so that eight characters are made at once, in
 * a register.  (Khuong, "How to print integers really fast", 2017, has the idea for
 * decimal digits.)
 */
#ifndef CHASH_KEYS_H
#define CHASH_KEYS_H

#include "vector.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The longest text of a bigint, and that of every uuid, in bytes. */
#define CHASH_BIGINT_TEXT 20
#define CHASH_UUID_TEXT 36

/* Eight bytes with the same value. */
#define CHASH_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Puts eight characters, of which the first is in the lowest bits, into memory. */
static inline void
chash_put_characters(char *target, uint64_t characters)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	characters = __builtin_bswap64(characters);
#endif
	memcpy(target, &characters, sizeof(characters));
}

/*
 * Puts sixteen characters into memory, the first eight of them in `first`.  Where
 * it can be, this is one write: who reads across two has to wait for both of them.
 */
static inline void
chash_put_sixteen(char *target, uint64_t first, uint64_t second)
{
#ifdef CHASH_SSE2
	_mm_storeu_si128((__m128i *) target,
					 _mm_set_epi64x((long long int) second, (long long int) first));
#else
	chash_put_characters(target, first);
	chash_put_characters(target + 8, second);
#endif
}

/* The digits of a number below 10^8, as eight characters; the first is in the lowest byte. */
static inline uint64_t
chash_eight_digits(uint32_t number)
{
	/*
	 * Halves of four digits, then of two, then digits.  Of x = q * 10^n + r,
	 * each half beside the other, q + (r << s), is (x << s) - q * ((10^n << s) - 1).
	 */
	uint64_t fours = ((uint64_t) number << 32) - number / 10000 * ((UINT64_C(10000) << 32) - 1);
	uint64_t hundreds = ((fours * 10486) >> 20) & UINT64_C(0x0000007f0000007f);
	uint64_t twos = (fours << 16) - hundreds * ((UINT64_C(100) << 16) - 1);
	uint64_t tens = ((twos * 103) >> 10) & UINT64_C(0x000f000f000f000f);

	return (twos << 8) - tens * ((UINT64_C(10) << 8) - 1) + CHASH_EACH('0');
}

/* How many digits a number has; 0 has one. */
static inline unsigned
chash_count_digits(uint64_t number)
{
	static const uint64_t powers[] = {
		UINT64_C(0),
		UINT64_C(10),
		UINT64_C(100),
		UINT64_C(1000),
		UINT64_C(10000),
		UINT64_C(100000),
		UINT64_C(1000000),
		UINT64_C(10000000),
		UINT64_C(100000000),
		UINT64_C(1000000000),
		UINT64_C(10000000000),
		UINT64_C(100000000000),
		UINT64_C(1000000000000),
		UINT64_C(10000000000000),
		UINT64_C(100000000000000),
		UINT64_C(1000000000000000),
		UINT64_C(10000000000000000),
		UINT64_C(100000000000000000),
		UINT64_C(1000000000000000000),
		UINT64_C(10000000000000000000),
	};

	/* The logarithm to the base of 10 is 1233 / 4096 of that to the base of 2. */
	unsigned bits = 64 - (unsigned) __builtin_clzll(number | 1);
	unsigned guess = bits * 1233 / 4096;

	return guess + (number >= powers[guess]);
}

/*
 * Writes a bigint in decimal, as PostgreSQL does; returns the length.  There must
 * be room for 24 bytes.  The length is found first, and while digits are still being
 * computed: that is why it does not come out of them.
 */
static inline size_t
chash_bigint_text(char *target, int64_t value)
{
	const uint32_t unit = 100000000;
	uint64_t number = (uint64_t) value;
	uint64_t high;
	uint64_t low;
	uint32_t top;
	unsigned length;
	size_t sign = 0;

	if (value < 0)
	{
		*target++ = '-';
		number = -number;
		sign = 1;
	}
	length = chash_count_digits(number);
	if (length <= 8)
	{
		chash_put_characters(target, chash_eight_digits((uint32_t) number) >> 8 * (8 - length));
		return sign + length;
	}

	high = number / unit;
	low = chash_eight_digits((uint32_t) (number - high * unit));
	if (length <= 16)
	{
		unsigned unused = 8 * (16 - length);

		high = chash_eight_digits((uint32_t) high);
		chash_put_sixteen(target, high >> unused | (low << 1) << (63 - unused), low >> unused);
		return sign + length;
	}

	top = (uint32_t) (number / ((uint64_t) unit * unit));
	high = chash_eight_digits((uint32_t) (high - (uint64_t) top * unit));
	chash_put_characters(target, chash_eight_digits(top) >> 8 * (24 - length));
	chash_put_sixteen(target + length - 16, high, low);
	return sign + length;
}

/* The hexadecimal digits of 16 bytes, as characters, eight in each of four words. */
static inline void
chash_hex_digits(const uint8_t *bytes, uint64_t *words)
{
#ifdef CHASH_SSE2
	const __m128i fours = _mm_set1_epi8(15);
	__m128i all = _mm_loadu_si128((const __m128i *) bytes);
	__m128i high = _mm_and_si128(_mm_srli_epi16(all, 4), fours);
	__m128i low = _mm_and_si128(all, fours);

	for (int half = 0; half < 2; half++)
	{
		__m128i digits = half == 0 ? _mm_unpacklo_epi8(high, low) : _mm_unpackhi_epi8(high, low);
		__m128i letters =
			_mm_and_si128(_mm_cmpgt_epi8(digits, _mm_set1_epi8(9)), _mm_set1_epi8('a' - '9' - 1));

		_mm_storeu_si128((__m128i *) (words + 2 * half),
						 _mm_add_epi8(_mm_add_epi8(digits, _mm_set1_epi8('0')), letters));
	}
#else
	for (int word = 0; word < 4; word++, bytes += 4)
	{
		uint64_t spread = (uint64_t) bytes[0] | (uint64_t) bytes[1] << 16 |
						  (uint64_t) bytes[2] << 32 | (uint64_t) bytes[3] << 48;
		uint64_t digits = (spread >> 4 & UINT64_C(0x000f000f000f000f)) |
						  (spread & UINT64_C(0x000f000f000f000f)) << 8;
		uint64_t letters = (digits + CHASH_EACH(6)) >> 4 & CHASH_EACH(1);

		words[word] = digits + CHASH_EACH('0') + letters * ('a' - '9' - 1);
	}
#endif
}

/* Writes the 16 bytes of a uuid in its lower-case form of 36 characters. */
static inline void
chash_uuid_text(char *target, const uint8_t *bytes)
{
	uint64_t words[4];
	uint64_t a;
	uint64_t b;
	uint64_t c;
	uint64_t d;
	const uint64_t hyphen = '-';

	chash_hex_digits(bytes, words);
	a = words[0];
	b = words[1];
	c = words[2];
	d = words[3];

	/* aaaaaaaa -bbbb-bb bb-cccc- ccccdddd dddd */
	chash_put_characters(target, a);
	chash_put_characters(target + 8, hyphen | (b & UINT32_MAX) << 8 | hyphen << 40 | b >> 32 << 48);
	chash_put_characters(target + 16,
						 b >> 48 | hyphen << 16 | (c & UINT32_MAX) << 24 | hyphen << 56);
	chash_put_characters(target + 28, d);
	chash_put_characters(target + 24, c >> 32 | d << 32);
}

#endif
