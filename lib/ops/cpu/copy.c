/* SPDX-License-Identifier: Apache-2.0
 *
 * copy: the same elements; reshape: in another shape; slice: adjacent items along the first
 * dimension.
 */
#include "ops/ops_private.h"

enum { INPUT, OUTPUT, FIRST = 0, COUNT };

int sgpu_ops_copy(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t bytes =
		sgpu_ops_count(&call->type[INPUT]) * sgpu_dtype_size(call->type[INPUT].dtype);

	return sgpu_ops_copy_bytes(launch, call->data[OUTPUT], call->data[INPUT], bytes);
}

const struct sgpu_op sgpu_op_copy = {
	.name = "copy",
	.help = "copy elements",
	.args = {
	{ "input", false, SGPU_TYPES_ANY, 0, SGPU_RANK_MAX, "what is copied" },
	{ "output", false, SGPU_TYPES_ANY, 0, SGPU_RANK_MAX, "the same type and shape" },
	},
	.infer = sgpu_ops_infer_same,
	.cpu = sgpu_ops_copy,
};

static void reshape_infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	struct sgpu_type output = { .dtype = call->type[INPUT].dtype };
	uint64_t count = sgpu_ops_count(&call->type[INPUT]), made = 1;
	const struct sgpu_op_param *params = call->op->params;
	bool fits = true;

	for (int i = 0; i < SGPU_RANK_MAX; i++) {
		if (call->param[i].given && i > 0 && !call->param[i - 1].given) {
			sgpu_op_diagnose(report, NULL, params[i].name, "needs the parameter '%s'",
					 params[i - 1].name);
			return;
		}
		if (call->param[i].given) {
			output.shape[output.rank] = (uint64_t)call->param[i].number;
			fits &= sgpu_mul_u64(made, output.shape[output.rank++], &made);
		}
	}
	if (!fits || made != count) {
		char text[SGPU_TYPE_TEXT_MAX];

		sgpu_type_text(&output, text);
		sgpu_op_diagnose(report, NULL, NULL,
				 "%s does not have the %llu elements of 'input'", text,
				 (unsigned long long)count);
	}
	call->type[OUTPUT] = output;
}

const struct sgpu_op sgpu_op_reshape = {
	.name = "reshape",
	.help = "the same elements in another shape",
	.args = {
	{ "input", false, SGPU_TYPES_ANY, 0, SGPU_RANK_MAX, "the elements" },
	{ "output", false, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "the same elements in the new shape" },
	},
	.params = {
	{ "dim0", SGPU_PARAM_INTEGER, true, 0, UINT32_MAX, 0, NULL, "first dimension" },
	{ "dim1", SGPU_PARAM_INTEGER, false, 0, UINT32_MAX, 0, NULL, "second dimension" },
	{ "dim2", SGPU_PARAM_INTEGER, false, 0, UINT32_MAX, 0, NULL, "third dimension" },
	{ "dim3", SGPU_PARAM_INTEGER, false, 0, UINT32_MAX, 0, NULL, "fourth dimension" },
	},
	.infer = reshape_infer,
	.cpu = sgpu_ops_copy,
};

static void slice_infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
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

static int slice_cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[OUTPUT];
	uint64_t item = sgpu_ops_extent(type, 1, type->rank) * sgpu_dtype_size(type->dtype);

	return sgpu_ops_copy_bytes(launch, call->data[OUTPUT],
				   (const char *)call->data[INPUT] +
					   (uint64_t)call->param[FIRST].number * item,
				   type->shape[0] * item);
}

const struct sgpu_op sgpu_op_slice = {
	.name = "slice",
	.help = "some neighbours along the first dimension",
	.args = {
	{ "input", false, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "items along the first dimension" },
	{ "output", false, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "some of them" },
	},
	.params = {
	{ "first", SGPU_PARAM_INTEGER, false, 0, UINT32_MAX, 0, NULL, "first item, from 0" },
	{ "count", SGPU_PARAM_INTEGER, true, 0, UINT32_MAX, 0, NULL, "number of items" },
	},
	.infer = slice_infer,
	.cpu = slice_cpu,
};
