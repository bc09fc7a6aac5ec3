/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_add: a + b. Integers wrap around; f16 is added in f32 and rounded, which is the correctly
 * rounded sum.
 */
#include "ops/half.h"
#include "ops/ops_private.h"

enum { A, B, OUTPUT, GRAIN = 1 << 17 };

/* clang-format off */
/* X(dtype, C type, name, x + y) */
#define TYPES(X) \
	X(SGPU_F32, float, f32, x + y) X(SGPU_F64, double, f64, x + y) \
	X(SGPU_I32, int32_t, i32, (int32_t)((uint32_t)x + (uint32_t)y)) X(SGPU_U8, uint8_t, u8, (uint8_t)(x + y)) \
	X(SGPU_I16, int16_t, i16, (int16_t)(uint16_t)((uint16_t)x + (uint16_t)y)) \
	X(SGPU_F16, uint16_t, f16, sgpu_half_from_float(sgpu_half_to_float(x) + sgpu_half_to_float(y)))
/* clang-format on */

#define ADDITION(dtype, type, name, sum)                                                  \
	SGPU_CLONES_ATTR static void add_##name(void *call, uint64_t begin, uint64_t end) \
	{                                                                                 \
		void *const *data = ((const struct sgpu_op_call *)call)->data;            \
		const type *a = data[A], *b = data[B];                                    \
		type *output = data[OUTPUT];                                              \
                                                                                          \
		for (uint64_t i = begin; i < end; i++) {                                  \
			const type x = a[i], y = b[i];                                    \
                                                                                          \
			output[i] = sum;                                                  \
		}                                                                         \
	}
TYPES(ADDITION)

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	static void (*const add[SGPU_DTYPE_COUNT])(void *call, uint64_t begin, uint64_t end) = {
#define ROW(dtype, type, name, sum) [dtype] = add_##name,
		TYPES(ROW)
	};

	return sgpu_ops_for(launch, sgpu_ops_count(&call->type[A]), GRAIN, add[call->type[A].dtype],
			    call);
}

const struct sgpu_op sgpu_op_vector_add = {
	.name = "vector_add",
	.help = "add two arrays",
	.args = {
	{ "a", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "first summand" },
	{ "b", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "second summand, the type and shape of a" },
	{ "output", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "the sum, the type and shape of a" },
	},
	.infer = sgpu_ops_infer_same,
	.cpu = cpu,
};
