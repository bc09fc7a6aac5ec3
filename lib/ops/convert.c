/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions between element types. Every loop is a function of its own, so that the compiler sees
 * one type at a time.
 */
#include <math.h>

#include "half.h"
#include "ops_private.h"

/* Nearest integer, ties to even, in [low, high], whose absolute values are below 2^51: adding 1.5 *
 * 2^52 rounds to an integer. */
SGPU_INLINE double round_within(double value, double low, double high)
{
	double bounded = value < low ? low : value;

	bounded = bounded > high ? high : bounded;
	bounded = bounded == bounded ? bounded : 0;
	return bounded + 0x1.8p52 - 0x1.8p52;
}

SGPU_INLINE int64_t round_i64(double value)
{
	double whole = rint(value);

	if (!(whole >= -0x1p63)) {
		return value == value ? INT64_MIN : 0;
	}
	return whole < 0x1p63 ? (int64_t)whole : INT64_MAX;
}

SGPU_INLINE uint64_t round_u64(double value)
{
	double whole = rint(value);

	if (!(whole >= 0)) {
		return 0;
	}
	return whole < 0x1p64 ? (uint64_t)whole : UINT64_MAX;
}

#define STORE_f32(value) ((float)(value))
#define STORE_f64(value) (value)
#define STORE_i32(value) ((int32_t)round_within((double)(value), INT32_MIN, INT32_MAX))
#define STORE_u8(value) ((uint8_t)(int32_t)round_within((double)(value), 0, UINT8_MAX))
#define STORE_i16(value) ((int16_t)(int32_t)round_within((double)(value), INT16_MIN, INT16_MAX))
#define STORE_f16(value) sgpu_half_from_double(value)
#define STORE_i8(value) ((int8_t)(int32_t)round_within((double)(value), INT8_MIN, INT8_MAX))
#define STORE_u16(value) ((uint16_t)(int32_t)round_within((double)(value), 0, UINT16_MAX))
#define STORE_u32(value) ((uint32_t)(int64_t)round_within((double)(value), 0, UINT32_MAX))
#define STORE_i64(value) round_i64(value)
#define STORE_u64(value) round_u64(value)
#define LOAD_f32(value) ((double)(value))
#define LOAD_f64(value) (value)
#define LOAD_i32(value) ((double)(value))
#define LOAD_u8(value) ((double)(value))
#define LOAD_i16(value) ((double)(value))
#define LOAD_f16(value) ((double)sgpu_half_to_float(value))
#define LOAD_i8(value) ((double)(value))
#define LOAD_u16(value) ((double)(value))
#define LOAD_u32(value) ((double)(value))
#define LOAD_i64(value) ((double)(value))
#define LOAD_u64(value) ((double)(value))

#define CONVERSION(name, from_type, to_type, expression)                                      \
	SGPU_CLONES_ATTR static void name(const from_type *from, uint64_t count, to_type *to) \
	{                                                                                     \
		for (uint64_t i = 0; i < count; i++) {                                        \
			to[i] = expression(from[i]);                                          \
		}                                                                             \
	}

#define CONVERSIONS(dtype, type, name)                     \
	CONVERSION(load_##name, type, double, LOAD_##name) \
	CONVERSION(store_##name, double, type, STORE_##name)
SGPU_ANY_TYPES(CONVERSIONS)

void sgpu_ops_load_f64(enum sgpu_dtype dtype, const void *data, uint64_t begin, uint64_t count,
		       double *to)
{
#define LOAD(dtype, type, name)                                     \
	case dtype:                                                 \
		load_##name((const type *)data + begin, count, to); \
		break;
	switch (dtype) {
		SGPU_ANY_TYPES(LOAD)
	default:
		break;
	}
}

void sgpu_ops_store_f64(enum sgpu_dtype dtype, void *data, uint64_t begin, uint64_t count,
			const double *from)
{
#define STORE(dtype, type, name)                                 \
	case dtype:                                              \
		store_##name(from, count, (type *)data + begin); \
		break;
	switch (dtype) {
		SGPU_ANY_TYPES(STORE)
	default:
		break;
	}
}
