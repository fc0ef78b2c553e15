/*
 * vector.h
 *		Whether the processor's vectors of 16 bytes can be used.
 */
#ifndef CHASH_VECTOR_H
#define CHASH_VECTOR_H

/* Every x86-64 has them.  (CHASH_PORTABLE is for testing the other way there.) */
#if defined(__SSE2__) && !defined(CHASH_PORTABLE)
#define CHASH_SSE2
#include <emmintrin.h>
#endif

#endif
