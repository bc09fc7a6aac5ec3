/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions of element types. Every loop is its own function, so that the compiler sees one type
 * at a time.
 */
#include <math.h>

#include "half.h"
#include "ops_private.h"

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

/* clang-format off */
/* X(dtype, C type, name, `v` as f64, and the f64 `v` as an element) */
#define CONVERSIONS(X) \
	X(SGPU_F32, float, f32, (double)v, (float)v) X(SGPU_F64, double, f64, v, v) \
	X(SGPU_F16, uint16_t, f16, (double)sgpu_half_to_float(v), sgpu_half_from_double(v)) \
	X(SGPU_I8, int8_t, i8, (double)v, (int8_t)(int32_t)sgpu_ops_round(v, INT8_MIN, INT8_MAX)) \
	X(SGPU_U8, uint8_t, u8, (double)v, (uint8_t)(int32_t)sgpu_ops_round(v, 0, UINT8_MAX)) \
	X(SGPU_I16, int16_t, i16, (double)v, (int16_t)(int32_t)sgpu_ops_round(v, INT16_MIN, INT16_MAX)) \
	X(SGPU_U16, uint16_t, u16, (double)v, (uint16_t)(int32_t)sgpu_ops_round(v, 0, UINT16_MAX)) \
	X(SGPU_I32, int32_t, i32, (double)v, (int32_t)sgpu_ops_round(v, INT32_MIN, INT32_MAX)) \
	X(SGPU_U32, uint32_t, u32, (double)v, (uint32_t)(int64_t)sgpu_ops_round(v, 0, UINT32_MAX)) \
	X(SGPU_I64, int64_t, i64, (double)v, round_i64(v)) X(SGPU_U64, uint64_t, u64, (double)v, round_u64(v))
/* clang-format on */

#define LOOP(name, from_type, to_type, value)                                         \
	SGPU_CLONES_ATTR static void name(const void *from, uint64_t count, void *to) \
	{                                                                             \
		for (uint64_t i = 0; i < count; i++) {                                \
			const from_type v = ((const from_type *)from)[i];             \
                                                                                      \
			((to_type *)to)[i] = value;                                   \
		}                                                                     \
	}
#define LOOPS(dtype, type, name, loaded, stored) \
	LOOP(load_##name, type, double, loaded)  \
	LOOP(store_##name, double, type, stored)
CONVERSIONS(LOOPS)

static const struct {
	void (*load)(const void *from, uint64_t count, void *to);
	void (*store)(const void *from, uint64_t count, void *to);
} loops[SGPU_DTYPE_COUNT] = {
#define ROW(dtype, type, name, loaded, stored) [dtype] = { load_##name, store_##name },
	CONVERSIONS(ROW)
};

void sgpu_ops_load_f64(enum sgpu_dtype dtype, const void *data, uint64_t begin, uint64_t count,
		       double *to)
{
	loops[dtype].load((const char *)data + begin * sgpu_dtype_size(dtype), count, to);
}

void sgpu_ops_store_f64(enum sgpu_dtype dtype, void *data, uint64_t begin, uint64_t count,
			const double *from)
{
	loops[dtype].store(from, count, (char *)data + begin * sgpu_dtype_size(dtype));
}
