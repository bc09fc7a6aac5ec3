/* SPDX-License-Identifier: Apache-2.0
 *
 * What nvcc brings by itself, for tests that compile headers of device code as C.
 */
#ifndef DEVICE_CODE_H
#define DEVICE_CODE_H

#include <stdint.h>

#define __device__
#define __forceinline__ inline
#define __noinline__ inline

typedef struct {
	uint32_t x, y, z, w;
} uint4;

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
	const uint4 r = { x, y, z, w };

	return r;
}

/* The bits of a word in reverse. */
static inline uint32_t __brev(uint32_t word)
{
	uint32_t r = 0;

	for (int i = 0; i < 32; i++) {
		r |= (word >> i & 1) << (31 - i);
	}
	return r;
}

/* Four of the eight bytes of two words, chosen by the hexadecimal digits of the selector. */
static inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector)
{
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t r = 0;

	for (int i = 0; i < 4; i++) {
		r |= (uint32_t)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
	}
	return r;
}

#endif
