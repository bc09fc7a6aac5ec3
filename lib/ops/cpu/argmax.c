/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax: the position of the largest element of the last axis; the first of equals. A NaN counts
 * as the largest.
 */
#include "ops/ops_private.h"

enum { INPUT, OUTPUT, GRAIN = 1 << 15, BLOCK = 512 };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *input = &call->type[INPUT];
	uint64_t count = input->shape[input->rank - 1];

	if (count == 0 || count > INT32_MAX) {
		sgpu_op_diagnose(report, "input", NULL,
				 "has %llu elements on its last axis, must have 1 to %d",
				 (unsigned long long)count, INT32_MAX);
		return;
	}
	call->type[OUTPUT] = sgpu_ops_type(SGPU_I32, input->rank - 1, input->shape);
}

static int32_t row_argmax(const struct sgpu_op_call *call, uint64_t row, double block[BLOCK])
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t width = type->shape[type->rank - 1], place = 0;
	double best = 0;

	for (uint64_t at = 0; at < width && best == best; at += BLOCK) {
		uint64_t count = sgpu_ops_min(width - at, BLOCK);

		sgpu_ops_load_f64(type->dtype, call->data[INPUT], row * width + at, count, block);
		best = at == 0 ? block[0] : best;
		for (uint64_t i = 0; i < count && best == best; i++) {
			if (!(block[i] <= best)) {
				best = block[i];
				place = at + i;
			}
		}
	}
	return (int32_t)place;
}

static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	double block[BLOCK];

	for (uint64_t row = begin; row < end; row++) {
		((int32_t *)call->data[OUTPUT])[row] = row_argmax(call, row, block);
	}
	sgpu_wipe(block, sizeof(block));
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];

	return sgpu_ops_for(launch, sgpu_ops_count(&call->type[OUTPUT]),
			    GRAIN / type->shape[type->rank - 1] + 1, body, call);
}

const struct sgpu_op sgpu_op_argmax = {
	.name = "argmax",
	.help = "index of the largest element of the last axis",
	.args = {
	{ "input", false, SGPU_TYPES_ALL, 1, SGPU_RANK_MAX,
	  "rows along the last axis, which is not empty" },
	{ "output", false, SGPU_TYPE_BIT(SGPU_I32), 0, SGPU_RANK_MAX - 1,
	  "indexes from 0, the shape without the last axis" },
	},
	.infer = infer,
	.scratch = sgpu_ops_parts_scratch, /* the largest element and its position */
	.cpu = cpu,
};
