/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: another element type. A conversion goes through f64, where it rounds once: loading is
 * exact, or storing is, as an integer that f64 rounds is out of the range of every narrower type.
 * The others, f32 and integers of 64 bits from such integers, have loops of their own.
 */
#include "ops/ops_private.h"

enum { INPUT, OUTPUT, DTYPE = 0, GRAIN = 1 << 16, BLOCK = 512 };

static const struct sgpu_op_argument args[] = {
	{ "input", false, SGPU_TYPES_ANY, 0, SGPU_RANK_MAX, "what is converted" },
	{ "output", false, SGPU_TYPES_ANY, 0, SGPU_RANK_MAX,
	  "the same shape, element type 'dtype'" },
	{ .name = NULL },
};

static const char *const choices[] = { "f32", "f64", "f16", "i8",  "u8",  "i16",
				       "u16", "i32", "u32", "i64", "u64", NULL };

static const struct sgpu_op_param params[] = {
	{ "dtype", SGPU_PARAM_CHOICE, true, 0, 0, 0, choices, "element type of the output" },
	{ .name = NULL },
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	(void)report;
	call->type[OUTPUT] = call->type[INPUT];
	call->type[OUTPUT].dtype = sgpu_dtype_parse(choices[(int)call->param[DTYPE].number]);
}

#define DIRECT(name, from_type, to_type, expression)                                          \
	SGPU_CLONES_ATTR static void name(const from_type *from, to_type *to, uint64_t count) \
	{                                                                                     \
		for (uint64_t i = 0; i < count; i++) {                                        \
			to[i] = expression;                                                   \
		}                                                                             \
	}
DIRECT(i64_to_f32, int64_t, float, (float)from[i])
DIRECT(u64_to_f32, uint64_t, float, (float)from[i])
DIRECT(i64_to_u64, int64_t, uint64_t, from[i] < 0 ? 0 : (uint64_t)from[i])
DIRECT(u64_to_i64, uint64_t, int64_t, (int64_t)(from[i] < INT64_MAX ? from[i] : INT64_MAX))

/* Converts what f64 would round twice or not saturate exactly; returns false for other pairs. */
static bool direct(const struct sgpu_op_call *call, uint64_t begin, uint64_t count)
{
	enum sgpu_dtype from = call->type[INPUT].dtype, to = call->type[OUTPUT].dtype;
	const void *in = call->data[INPUT];
	void *out = call->data[OUTPUT];

	if (from == SGPU_I64 && to == SGPU_F32) {
		i64_to_f32((const int64_t *)in + begin, (float *)out + begin, count);
	} else if (from == SGPU_U64 && to == SGPU_F32) {
		u64_to_f32((const uint64_t *)in + begin, (float *)out + begin, count);
	} else if (from == SGPU_I64 && to == SGPU_U64) {
		i64_to_u64((const int64_t *)in + begin, (uint64_t *)out + begin, count);
	} else if (from == SGPU_U64 && to == SGPU_I64) {
		u64_to_i64((const uint64_t *)in + begin, (int64_t *)out + begin, count);
	} else {
		return false;
	}
	return true;
}

static void body(void *argument, uint64_t begin, uint64_t end)
{
	struct sgpu_op_call *call = argument;
	double block[BLOCK];

	if (direct(call, begin, end - begin)) {
		return;
	}
	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t count = sgpu_ops_min(end - at, BLOCK);

		sgpu_ops_load_f64(call->type[INPUT].dtype, call->data[INPUT], at, count, block);
		sgpu_ops_store_f64(call->type[OUTPUT].dtype, call->data[OUTPUT], at, count, block);
	}
	sgpu_wipe(block, sizeof(block));
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	/* The same type is copied: a conversion would change the bits of a signalling NaN. */
	return call->type[INPUT].dtype == call->type[OUTPUT].dtype
		       ? sgpu_ops_copy(call, pool, error)
		       : sgpu_ops_for(pool, sgpu_ops_count(&call->type[INPUT]), GRAIN, body, call,
				      error);
}

const struct sgpu_op sgpu_op_cast = {
	.name = "cast",
	.help = "convert to another element type",
	.args = args,
	.params = params,
	.infer = infer,
	.cpu = cpu,
};
