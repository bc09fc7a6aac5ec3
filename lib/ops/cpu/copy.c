/* SPDX-License-Identifier: Apache-2.0
 *
 * copy: the same elements.
 */
#include "ops/ops_private.h"

enum { INPUT, OUTPUT };

static const struct sgpu_op_argument args[] = {
	{ "input", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "what is copied" },
	{ "output", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "the same type and shape" },
	{ .name = NULL },
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	(void)report;
	call->type[OUTPUT] = call->type[INPUT];
}

int sgpu_ops_copy(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	uint64_t bytes =
		sgpu_ops_count(&call->type[INPUT]) * sgpu_dtype_size(call->type[INPUT].dtype);

	return sgpu_ops_copy_bytes(pool, call->data[OUTPUT], call->data[INPUT], bytes, error);
}

const struct sgpu_op sgpu_op_copy = {
	.name = "copy",
	.help = "copy elements",
	.args = args,
	.infer = infer,
	.cpu = sgpu_ops_copy,
};
