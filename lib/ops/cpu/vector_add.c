/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_add: a + b. Integers wrap around; f16 is added in f32 and rounded, which is the correctly
 * rounded sum.
 */
#include "ops/half.h"
#include "ops/ops_private.h"

enum { A, B, OUTPUT, GRAIN = 1 << 17 };

#define ADD_f32(x, y) ((x) + (y))
#define ADD_f64(x, y) ((x) + (y))
#define ADD_i32(x, y) ((int32_t)((uint32_t)(x) + (uint32_t)(y)))
#define ADD_u8(x, y) ((uint8_t)((x) + (y)))
#define ADD_i16(x, y) ((int16_t)(uint16_t)((uint16_t)(x) + (uint16_t)(y)))
#define ADD_f16(x, y) sgpu_half_from_float(sgpu_half_to_float(x) + sgpu_half_to_float(y))

#define ADDITION(dtype, type, name)                                                         \
	SGPU_CLONES_ATTR static void add_##name(const type *a, const type *b, type *output, \
						uint64_t count)                             \
	{                                                                                   \
		for (uint64_t i = 0; i < count; i++) {                                      \
			output[i] = ADD_##name(a[i], b[i]);                                 \
		}                                                                           \
	}
SGPU_TYPES(ADDITION)

static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	const void *a = call->data[A], *b = call->data[B];
	void *output = call->data[OUTPUT];

#define ADD(dtype, type, name)                                               \
	case dtype:                                                          \
		add_##name((const type *)a + begin, (const type *)b + begin, \
			   (type *)output + begin, end - begin);             \
		break;
	switch (call->type[A].dtype) {
		SGPU_TYPES(ADD)
	default:
		break;
	}
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	return sgpu_ops_for(pool, sgpu_ops_count(&call->type[A]), GRAIN, body, call, error);
}

const struct sgpu_op sgpu_op_vector_add = {
	.name = "vector_add",
	.help = "add two arrays",
	.args = {
	{ "a", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "first summand" },
	{ "b", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "second summand, the type and shape of a" },
	{ "output", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "the sum, the type and shape of a" },
	},
	.infer = sgpu_ops_infer_pair,
	.cpu = cpu,
};
