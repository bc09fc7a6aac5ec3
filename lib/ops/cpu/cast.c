/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: another element type, through f64 where that rounds once: loading is exact, or storing is,
 * as an integer that f64 rounds is out of the range of every narrower type. The others, f32 and
 * integers of 64 bits from such integers, have loops of their own.
 */
#include "ops/ops_private.h"

enum { INPUT, OUTPUT, DTYPE = 0, GRAIN = 1 << 16, BLOCK = 512 };

static const char *const choices[] = { "f32", "f64", "f16", "i8",  "u8",  "i16",
				       "u16", "i32", "u32", "i64", "u64", NULL };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	(void)report;
	call->type[OUTPUT] = call->type[INPUT];
	call->type[OUTPUT].dtype = sgpu_dtype_parse(choices[(int)call->param[DTYPE].number]);
}

/* From integers of 64 bits to f32 or to the others, half of whose values are out of range. */
SGPU_CLONES_ATTR static void direct(const uint64_t *from, bool is_signed, enum sgpu_dtype dtype,
				    void *to, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (dtype == SGPU_F32) {
			((float *)to)[i] = is_signed ? (float)(int64_t)from[i] : (float)from[i];
		} else {
			((uint64_t *)to)[i] = from[i] <= INT64_MAX ? from[i]
					      : is_signed	   ? 0
								   : INT64_MAX;
		}
	}
}

static void body(void *argument, uint64_t begin, uint64_t end)
{
	struct sgpu_op_call *call = argument;
	enum sgpu_dtype from = call->type[INPUT].dtype, dtype = call->type[OUTPUT].dtype;
	double block[BLOCK];

	if ((from == SGPU_I64 || from == SGPU_U64) &&
	    (dtype == SGPU_F32 || dtype == SGPU_I64 || dtype == SGPU_U64)) {
		direct((const uint64_t *)call->data[INPUT] + begin, from == SGPU_I64, dtype,
		       (char *)call->data[OUTPUT] + begin * sgpu_dtype_size(dtype), end - begin);
		return;
	}
	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t count = sgpu_ops_min(end - at, BLOCK);

		sgpu_ops_load_f64(from, call->data[INPUT], at, count, block);
		sgpu_ops_store_f64(dtype, call->data[OUTPUT], at, count, block);
	}
	sgpu_wipe(block, sizeof(block));
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	/* A conversion would change the bits of a signalling NaN. */
	return call->type[INPUT].dtype == call->type[OUTPUT].dtype
		       ? sgpu_ops_copy(call, launch)
		       : sgpu_ops_for(launch, sgpu_ops_count(&call->type[INPUT]), GRAIN, body,
				      call);
}

const struct sgpu_op sgpu_op_cast = {
	.name = "cast",
	.help = "convert to another element type",
	.args = {
	{ "input", false, SGPU_TYPES_ANY, 0, SGPU_RANK_MAX, "what is converted" },
	{ "output", false, SGPU_TYPES_ANY, 0, SGPU_RANK_MAX,
	  "the same shape, element type 'dtype'" },
	},
	.params = {
	{ "dtype", SGPU_PARAM_CHOICE, true, 0, 0, 0, choices, "element type of the output" },
	},
	.infer = infer,
	.cpu = cpu,
};
