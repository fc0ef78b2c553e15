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

/* The digits, 0 to 9, of a number below 10^8; the first is in the lowest byte. */
static inline uint64_t
chash_eight_digits(uint32_t number)
{
	/* Halves of four digits, then of two, then digits; each beside its other half. */
	uint64_t fours = number / 10000 | (uint64_t) (number % 10000) << 32;
	uint64_t hundreds = ((fours * 10486) >> 20) & UINT64_C(0x0000007f0000007f);
	uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
	uint64_t tens = ((twos * 103) >> 10) & UINT64_C(0x000f000f000f000f);

	return tens | (twos - 10 * tens) << 8;
}

/* Writes a number below 10^8 without leading zeros; returns the length. */
static inline size_t
chash_put_number(char *target, uint32_t number)
{
	uint64_t digits = chash_eight_digits(number);

	/* The last digit is written, whatever it is. */
	unsigned zeros = (unsigned) __builtin_ctzll(digits | UINT64_C(1) << 56) / 8;

	chash_put_characters(target, (digits + CHASH_EACH('0')) >> (8 * zeros));
	return 8 - zeros;
}

/*
 * Writes a bigint in decimal, as PostgreSQL does; returns the length.  There must
 * be room for 24 bytes.
 */
static inline size_t
chash_bigint_text(char *target, int64_t value)
{
	const uint32_t unit = 100000000;
	uint64_t number = (uint64_t) value;
	char *end = target;

	if (value < 0)
	{
		*end++ = '-';
		number = -number;
	}
	if (number < unit)
		return (size_t) (end - target) + chash_put_number(end, (uint32_t) number);
	if (number >= (uint64_t) unit * unit)
	{
		end += chash_put_number(end, (uint32_t) (number / ((uint64_t) unit * unit)));
		chash_put_characters(end, chash_eight_digits((uint32_t) (number / unit % unit)) +
									  CHASH_EACH('0'));
		end += 8;
	}
	else
		end += chash_put_number(end, (uint32_t) (number / unit));
	chash_put_characters(end, chash_eight_digits((uint32_t) (number % unit)) + CHASH_EACH('0'));
	return (size_t) (end + 8 - target);
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
