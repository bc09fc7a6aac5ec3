/* SPDX-License-Identifier: Apache-2.0
 *
 * IEEE 754 binary16: exact widening, and narrowing that rounds once, to nearest, ties to even.
 */
#ifndef SGPU_OPS_HALF_H
#define SGPU_OPS_HALF_H

#include <stdint.h>
#include <string.h>

#include "ops/ops_private.h"

SGPU_INLINE uint32_t sgpu_float_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

SGPU_INLINE float sgpu_float_from_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

SGPU_INLINE float sgpu_half_to_float(uint16_t half)
{
	uint32_t magnitude = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
	/* The multiplication by 2^112 adjusts the exponent's bias and normalises subnormals. */
	uint32_t finite = sgpu_float_bits(sgpu_float_from_bits(magnitude << 13) * 0x1p112f);
	uint32_t special = magnitude << 13 | 0x7f800000u;

	return sgpu_float_from_bits(sign | (magnitude >= 0x7c00u ? special : finite));
}

SGPU_INLINE uint16_t sgpu_half_from_float(float value)
{
	uint32_t bits = sgpu_float_bits(value), magnitude = bits & 0x7fffffffu,
		 sign = bits >> 16 & 0x8000u;
	/* Adding 0.5 rounds at 2^-24, the step of the subnormals. */
	uint32_t small = sgpu_float_bits(sgpu_float_from_bits(magnitude) + 0.5f) - 0x3f000000u;
	uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
	uint32_t result = magnitude < 0x38800000u ? small : normal;

	result = magnitude >= 0x47800000u ? 0x7c00u : result;
	result = magnitude > 0x7f800000u ? 0x7e00u : result;
	return (uint16_t)(sign | result);
}

/* Rounds to odd as a float first, so that the second rounding sees that bits were lost. */
SGPU_INLINE uint16_t sgpu_half_from_double(double value)
{
	float narrow = (float)value;
	uint32_t bits = sgpu_float_bits(narrow);
	double back = narrow, back_size = back < 0 ? -back : back,
	       size = value < 0 ? -value : value;

	bits -= back_size > size ? 1u : 0u;
	bits |= back_size < size || back_size > size ? 1u : 0u;
	return sgpu_half_from_float(sgpu_float_from_bits(bits));
}

#endif
