/* SPDX-License-Identifier: Apache-2.0
 *
 * X25519 (RFC 7748) by one thread, in constant time: no branch and no address depends on a secret.
 *
 * A number modulo p = 2^255 - 19 is ten limbs of 26 bits. Limbs need not be reduced: a product's
 * are at most 2^26, and sums and differences of two products can be multiplied as they are. All
 * secrets are in struct sgpu_x25519, which the caller keeps where it can be wiped: on a GPU in
 * shared memory, not on a thread's stack.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_X25519_CUH
#define SGPU_DEVICE_CUDA_KERNELS_X25519_CUH

#include <stdint.h>

#include <device/cuda/kernels/portable.cuh>

enum {
	SGPU_FE_LIMBS = 10,
	SGPU_FE_BITS = 26,
	SGPU_FE_MASK = (1 << SGPU_FE_BITS) - 1,
	SGPU_FE_FOLD = 608,   /* 2^260 modulo p */
	SGPU_FE_TOP = 21,     /* bits of the last limb below 2^255 */
	SGPU_FE_A24 = 121665, /* (486662 - 2) / 4 */
};

struct sgpu_fe {
	uint32_t at[SGPU_FE_LIMBS];
};

struct sgpu_x25519 {
	uint8_t scalar[32];
	struct sgpu_fe x1, x2, z2, x3, z3;
	struct sgpu_fe a, b, c, d, e, a24;
};

/* r may be a or b. Limbs of a and b are below 2^28. */
SGPU_ON_DEVICE_CALLED void sgpu_fe_multiply(struct sgpu_fe *r, const struct sgpu_fe *a,
					    const struct sgpu_fe *b)
{
	uint64_t c[2 * SGPU_FE_LIMBS] = { 0 }, carry = 0;
	struct sgpu_fe x = *a, y = *b;

	SGPU_UNROLL
	for (int i = 0; i < SGPU_FE_LIMBS; i++) {
		SGPU_UNROLL
		for (int k = 0; k < SGPU_FE_LIMBS; k++) {
			c[i + k] += (uint64_t)x.at[i] * y.at[k];
		}
	}
	SGPU_UNROLL
	for (int i = 0; i < 2 * SGPU_FE_LIMBS - 1; i++) {
		c[i] += carry;
		carry = c[i] >> SGPU_FE_BITS;
		c[i] &= SGPU_FE_MASK;
	}
	c[2 * SGPU_FE_LIMBS - 1] = carry;
	SGPU_UNROLL
	for (int i = 0; i < SGPU_FE_LIMBS; i++) {
		c[i] += c[i + SGPU_FE_LIMBS] * SGPU_FE_FOLD;
	}
	carry = 0;
	SGPU_UNROLL
	for (int i = 0; i < SGPU_FE_LIMBS; i++) {
		c[i] += carry;
		carry = c[i] >> SGPU_FE_BITS;
		r->at[i] = (uint32_t)c[i] & SGPU_FE_MASK;
	}
	carry = r->at[0] + carry * SGPU_FE_FOLD;
	r->at[0] = (uint32_t)carry & SGPU_FE_MASK;
	r->at[1] += (uint32_t)(carry >> SGPU_FE_BITS);
}

SGPU_ON_DEVICE void sgpu_fe_add(struct sgpu_fe *r, const struct sgpu_fe *a, const struct sgpu_fe *b)
{
	SGPU_UNROLL
	for (int i = 0; i < SGPU_FE_LIMBS; i++) {
		r->at[i] = a->at[i] + b->at[i];
	}
}

/* r = a - b + 64 p: the limbs of 64 p exceed those of b, so none becomes negative. */
SGPU_ON_DEVICE void sgpu_fe_subtract(struct sgpu_fe *r, const struct sgpu_fe *a,
				     const struct sgpu_fe *b)
{
	SGPU_UNROLL
	for (int i = 0; i < SGPU_FE_LIMBS; i++) {
		r->at[i] = a->at[i] + 2u * (SGPU_FE_MASK + (i ? 0u : 1u - SGPU_FE_FOLD)) - b->at[i];
	}
}

/* Swaps if mask is all ones, not if it is zero. */
SGPU_ON_DEVICE void sgpu_fe_swap(struct sgpu_fe *a, struct sgpu_fe *b, uint32_t mask)
{
	SGPU_UNROLL
	for (int i = 0; i < SGPU_FE_LIMBS; i++) {
		uint32_t both = (a->at[i] ^ b->at[i]) & mask;

		a->at[i] ^= both;
		b->at[i] ^= both;
	}
}

/* r = 1/a = a^(p - 2): of the exponent's 255 bits only bits 2 and 4 are 0. r is not a. */
SGPU_ON_DEVICE void sgpu_fe_invert(struct sgpu_fe *r, const struct sgpu_fe *a)
{
	*r = *a;
	SGPU_ROLL
	for (int i = 253; i >= 0; i--) {
		sgpu_fe_multiply(r, r, r);
		if (i != 2 && i != 4) {
			sgpu_fe_multiply(r, r, a);
		}
	}
}

/* The highest bit is ignored, as RFC 7748 demands. */
SGPU_ON_DEVICE void sgpu_fe_from_bytes(struct sgpu_fe *r, const uint8_t bytes[32])
{
	for (int i = 0; i < SGPU_FE_LIMBS; i++) {
		int bit = i * SGPU_FE_BITS, first = bit / 8;
		uint64_t word = 0;

		for (int k = 0; k < 5 && first + k < 32; k++) {
			word |= (uint64_t)bytes[first + k] << 8 * k;
		}
		r->at[i] = (uint32_t)(word >> bit % 8) & SGPU_FE_MASK;
	}
	r->at[SGPU_FE_LIMBS - 1] &= (1u << SGPU_FE_TOP) - 1;
}

/* Adds `more` to the lowest limb and carries. Removes and returns the part above 2^255, which the
 * caller adds again, times 19. */
SGPU_ON_DEVICE uint32_t sgpu_fe_settle(struct sgpu_fe *r, uint32_t more)
{
	uint32_t carry = more, above;

	for (int i = 0; i < SGPU_FE_LIMBS; i++) {
		carry += r->at[i];
		r->at[i] = carry & SGPU_FE_MASK;
		carry >>= SGPU_FE_BITS;
	}
	above = r->at[SGPU_FE_LIMBS - 1] >> SGPU_FE_TOP | carry << (SGPU_FE_BITS - SGPU_FE_TOP);
	r->at[SGPU_FE_LIMBS - 1] &= (1u << SGPU_FE_TOP) - 1;
	return above;
}

/* Stores a, reduced below p. Changes a; t is scratch. */
SGPU_ON_DEVICE void sgpu_fe_to_bytes(uint8_t bytes[32], struct sgpu_fe *a, struct sgpu_fe *t)
{
	uint32_t above = sgpu_fe_settle(a, 0);

	above = sgpu_fe_settle(a, 19 * above);
	above = sgpu_fe_settle(a, 19 * above);
	/* Now a < 2^255. If a + 19 reaches 2^255, then a >= p, and t becomes a - p. */
	*t = *a;
	above = sgpu_fe_settle(t, 19);
	sgpu_fe_swap(a, t, 0u - above);
	for (int i = 0; i < 32; i++) {
		int bit = 8 * i, limb = bit / SGPU_FE_BITS, shift = bit % SGPU_FE_BITS;
		uint32_t word = a->at[limb] >> shift;

		if (shift > SGPU_FE_BITS - 8 && limb + 1 < SGPU_FE_LIMBS) {
			word |= a->at[limb + 1] << (SGPU_FE_BITS - shift);
		}
		bytes[i] = (uint8_t)word;
	}
}

/* One step of the Montgomery ladder. */
SGPU_ON_DEVICE void sgpu_x25519_step(struct sgpu_x25519 *w)
{
	sgpu_fe_add(&w->a, &w->x2, &w->z2);
	sgpu_fe_subtract(&w->b, &w->x2, &w->z2);
	sgpu_fe_add(&w->c, &w->x3, &w->z3);
	sgpu_fe_subtract(&w->d, &w->x3, &w->z3);
	sgpu_fe_multiply(&w->d, &w->d, &w->a);
	sgpu_fe_multiply(&w->c, &w->c, &w->b);
	sgpu_fe_add(&w->x3, &w->d, &w->c);
	sgpu_fe_multiply(&w->x3, &w->x3, &w->x3);
	sgpu_fe_subtract(&w->z3, &w->d, &w->c);
	sgpu_fe_multiply(&w->z3, &w->z3, &w->z3);
	sgpu_fe_multiply(&w->z3, &w->z3, &w->x1);
	sgpu_fe_multiply(&w->a, &w->a, &w->a);
	sgpu_fe_multiply(&w->b, &w->b, &w->b);
	sgpu_fe_multiply(&w->x2, &w->a, &w->b);
	sgpu_fe_subtract(&w->e, &w->a, &w->b);
	sgpu_fe_multiply(&w->z2, &w->e, &w->a24);
	sgpu_fe_add(&w->z2, &w->z2, &w->a);
	sgpu_fe_multiply(&w->z2, &w->z2, &w->e);
}

/* result = scalar * point. Returns whether the result is not zero. *w is not wiped. */
SGPU_ON_DEVICE_CALLED int sgpu_x25519_multiply(struct sgpu_x25519 *w, uint8_t result[32],
					       const uint8_t scalar[32], const uint8_t point[32])
{
	uint32_t swapped = 0, any = 0;

	for (int i = 0; i < 32; i++) {
		w->scalar[i] = scalar[i];
	}
	w->scalar[0] &= 248;
	w->scalar[31] = (uint8_t)((w->scalar[31] & 127) | 64);
	sgpu_fe_from_bytes(&w->x1, point);
	w->x3 = w->x1;
	for (int i = 0; i < SGPU_FE_LIMBS; i++) {
		w->x2.at[i] = w->z3.at[i] = i == 0;
		w->z2.at[i] = 0;
		w->a24.at[i] = i == 0 ? SGPU_FE_A24 : 0;
	}
	SGPU_ROLL
	for (int i = 254; i >= 0; i--) {
		uint32_t bit = w->scalar[i / 8] >> i % 8 & 1;

		sgpu_fe_swap(&w->x2, &w->x3, 0u - (bit ^ swapped));
		sgpu_fe_swap(&w->z2, &w->z3, 0u - (bit ^ swapped));
		swapped = bit;
		sgpu_x25519_step(w);
	}
	sgpu_fe_swap(&w->x2, &w->x3, 0u - swapped);
	sgpu_fe_swap(&w->z2, &w->z3, 0u - swapped);
	sgpu_fe_invert(&w->a, &w->z2);
	sgpu_fe_multiply(&w->a, &w->a, &w->x2);
	sgpu_fe_to_bytes(result, &w->a, &w->b);
	for (int i = 0; i < 32; i++) {
		any |= result[i];
	}
	return any != 0;
}

#endif
