/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: another element type. Every conversion goes through f64, which holds all types exactly, and
 * rounds once.
 */
#include "ops/ops_private.h"

enum { INPUT, OUTPUT, DTYPE = 0, GRAIN = 1 << 16, BLOCK = 512 };

static const struct sgpu_op_argument args[] = {
	{ "input", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "what is converted" },
	{ "output", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX,
	  "the same shape, element type 'dtype'" },
	{ .name = NULL },
};

static const char *const choices[] = { "f32", "f64", "i32", "u8", "i16", "f16", NULL };

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

static void body(void *argument, uint64_t begin, uint64_t end)
{
	struct sgpu_op_call *call = argument;
	double block[BLOCK];

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
