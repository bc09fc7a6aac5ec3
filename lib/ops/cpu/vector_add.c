/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_add: a + b. Integers wrap around; f16 is added in f32 and rounded, which is the correctly
 * rounded sum.
 */
#include "ops/half.h"
#include "ops/ops_private.h"

enum { A, B, OUTPUT, GRAIN = 1 << 17 };

static const struct sgpu_op_argument args[] = {
	{ "a", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "first summand" },
	{ "b", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "second summand, the type and shape of a" },
	{ "output", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "the sum, the type and shape of a" },
	{ .name = NULL },
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	if (sgpu_ops_same_type(call, report, A, B)) {
		call->type[OUTPUT] = call->type[A];
	}
}

#define ADD_PLAIN(x, y) ((x) + (y))
#define ADD_I32(x, y) ((int32_t)((uint32_t)(x) + (uint32_t)(y)))
#define ADD_U8(x, y) ((uint8_t)((x) + (y)))
#define ADD_I16(x, y) ((int16_t)(uint16_t)((uint16_t)(x) + (uint16_t)(y)))
#define ADD_F16(x, y) sgpu_half_from_float(sgpu_half_to_float(x) + sgpu_half_to_float(y))

#define ADDITION(name, type, add)                                                     \
	SGPU_CLONES_ATTR static void name(const type *a, const type *b, type *output, \
					  uint64_t count)                             \
	{                                                                             \
		for (uint64_t i = 0; i < count; i++) {                                \
			output[i] = add(a[i], b[i]);                                  \
		}                                                                     \
	}

ADDITION(add_f32, float, ADD_PLAIN)
ADDITION(add_f64, double, ADD_PLAIN)
ADDITION(add_i32, int32_t, ADD_I32)
ADDITION(add_u8, uint8_t, ADD_U8)
ADDITION(add_i16, int16_t, ADD_I16)
ADDITION(add_f16, uint16_t, ADD_F16)

static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	size_t size = sgpu_dtype_size(call->type[A].dtype);
	const void *a = (const char *)call->data[A] + begin * size,
		   *b = (const char *)call->data[B] + begin * size;
	void *output = (char *)call->data[OUTPUT] + begin * size;

	switch (call->type[A].dtype) {
	case SGPU_F32:
		add_f32(a, b, output, end - begin);
		break;
	case SGPU_F64:
		add_f64(a, b, output, end - begin);
		break;
	case SGPU_I32:
		add_i32(a, b, output, end - begin);
		break;
	case SGPU_U8:
		add_u8(a, b, output, end - begin);
		break;
	case SGPU_I16:
		add_i16(a, b, output, end - begin);
		break;
	case SGPU_F16:
		add_f16(a, b, output, end - begin);
		break;
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
	.args = args,
	.infer = infer,
	.cpu = cpu,
};
