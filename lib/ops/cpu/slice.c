/* SPDX-License-Identifier: Apache-2.0
 *
 * slice: some neighbours along the first dimension.
 */
#include "ops/ops_private.h"

enum { INPUT, OUTPUT, FIRST = 0, COUNT };

static const struct sgpu_op_argument args[] = {
	{ "input", false, SGPU_TYPES_ALL, 1, SGPU_RANK_MAX, "items along the first dimension" },
	{ "output", false, SGPU_TYPES_ALL, 1, SGPU_RANK_MAX, "some of them" },
	{ .name = NULL },
};

static const struct sgpu_op_param params[] = {
	{ .name = "first",
	  .kind = SGPU_PARAM_INTEGER,
	  .max = UINT32_MAX,
	  .help = "first item, from 0" },
	{ .name = "count",
	  .kind = SGPU_PARAM_INTEGER,
	  .required = true,
	  .max = UINT32_MAX,
	  .help = "number of items" },
	{ .name = NULL },
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *input = &call->type[INPUT];
	uint64_t first = (uint64_t)call->param[FIRST].number,
		 count = (uint64_t)call->param[COUNT].number;

	if (first > input->shape[0] || count > input->shape[0] - first) {
		sgpu_op_diagnose(report, NULL, "count",
				 "%llu items from %llu on are not all among the %llu of 'input'",
				 (unsigned long long)count, (unsigned long long)first,
				 (unsigned long long)input->shape[0]);
		return;
	}
	call->type[OUTPUT] = *input;
	call->type[OUTPUT].shape[0] = count;
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	const struct sgpu_type *type = &call->type[OUTPUT];
	uint64_t item = sgpu_ops_extent(type, 1, type->rank) * sgpu_dtype_size(type->dtype);

	return sgpu_ops_copy_bytes(pool, call->data[OUTPUT],
				   (const char *)call->data[INPUT] +
					   (uint64_t)call->param[FIRST].number * item,
				   type->shape[0] * item, error);
}

const struct sgpu_op sgpu_op_slice = {
	.name = "slice",
	.help = "some neighbours along the first dimension",
	.args = args,
	.params = params,
	.infer = infer,
	.cpu = cpu,
};
