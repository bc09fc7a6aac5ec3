/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions between element types. Every loop is a clone of its own so that the compiler sees one
 * type at a time.
 */
#include <string.h>

#include "half.h"
#include "ops_private.h"

/* Nearest integer, ties to even, in [low, high], both below 2^51 in size: adding 1.5 * 2^52 leaves
 * no fraction. */
SGPU_INLINE double round_within(double value, double low, double high)
{
	double bounded = value < low ? low : value;

	bounded = bounded > high ? high : bounded;
	bounded = bounded == bounded ? bounded : 0;
	return bounded + 0x1.8p52 - 0x1.8p52;
}

#define STORE_F32(value) ((float)(value))
#define STORE_F64(value) ((double)(value))
#define STORE_I32(value) ((int32_t)round_within((double)(value), INT32_MIN, INT32_MAX))
#define STORE_U8(value) ((uint8_t)(int32_t)round_within((double)(value), 0, UINT8_MAX))
#define STORE_I16(value) ((int16_t)(int32_t)round_within((double)(value), INT16_MIN, INT16_MAX))
#define STORE_F16(value) sgpu_half_from_double(value)

#define CONVERSION(name, from_type, to_type, expression)                                      \
	SGPU_CLONES_ATTR static void name(const from_type *from, uint64_t count, to_type *to) \
	{                                                                                     \
		for (uint64_t i = 0; i < count; i++) {                                        \
			to[i] = expression(from[i]);                                          \
		}                                                                             \
	}

CONVERSION(f32_from_f64, double, float, STORE_F32)
CONVERSION(f64_from_f32, float, double, STORE_F64)
CONVERSION(f64_from_i32, int32_t, double, STORE_F64)
CONVERSION(f64_from_u8, uint8_t, double, STORE_F64)
CONVERSION(f64_from_i16, int16_t, double, STORE_F64)
CONVERSION(f64_from_f16, uint16_t, double, sgpu_half_to_float)
CONVERSION(i32_from_f64, double, int32_t, STORE_I32)
CONVERSION(u8_from_f64, double, uint8_t, STORE_U8)
CONVERSION(i16_from_f64, double, int16_t, STORE_I16)
CONVERSION(f16_from_f64, double, uint16_t, STORE_F16)

void sgpu_ops_load_f64(enum sgpu_dtype dtype, const void *data, uint64_t begin, uint64_t count,
		       double *to)
{
	switch (dtype) {
	case SGPU_F32:
		f64_from_f32((const float *)data + begin, count, to);
		break;
	case SGPU_F64:
		memcpy(to, (const double *)data + begin, count * sizeof(*to));
		break;
	case SGPU_I32:
		f64_from_i32((const int32_t *)data + begin, count, to);
		break;
	case SGPU_U8:
		f64_from_u8((const uint8_t *)data + begin, count, to);
		break;
	case SGPU_I16:
		f64_from_i16((const int16_t *)data + begin, count, to);
		break;
	case SGPU_F16:
		f64_from_f16((const uint16_t *)data + begin, count, to);
		break;
	default:
		break;
	}
}

void sgpu_ops_store_f64(enum sgpu_dtype dtype, void *data, uint64_t begin, uint64_t count,
			const double *from)
{
	switch (dtype) {
	case SGPU_F32:
		f32_from_f64(from, count, (float *)data + begin);
		break;
	case SGPU_F64:
		memcpy((double *)data + begin, from, count * sizeof(*from));
		break;
	case SGPU_I32:
		i32_from_f64(from, count, (int32_t *)data + begin);
		break;
	case SGPU_U8:
		u8_from_f64(from, count, (uint8_t *)data + begin);
		break;
	case SGPU_I16:
		i16_from_f64(from, count, (int16_t *)data + begin);
		break;
	case SGPU_F16:
		f16_from_f64(from, count, (uint16_t *)data + begin);
		break;
	default:
		break;
	}
}
