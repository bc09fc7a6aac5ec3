/* SPDX-License-Identifier: Apache-2.0
 *
 * concatenate: arrays one after the other along an axis.
 */
#include "ops/ops_private.h"

enum { OUTPUT = 7, AXIS = 0 };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	struct sgpu_type output = call->type[0];
	int axis = (int)call->param[AXIS].number;

	if (axis >= output.rank) {
		sgpu_op_diagnose(report, NULL, "axis", "%d is not below the rank of 'a', %d", axis,
				 output.rank);
		return;
	}
	for (int i = 1; i < OUTPUT; i++) {
		struct sgpu_type same = call->type[i];

		if (same.dtype == SGPU_NONE) {
			continue;
		}
		same.shape[axis] = call->type[0].shape[axis];
		if (!sgpu_type_equal(&same, &call->type[0])) {
			sgpu_op_diagnose(report, call->op->args[i].name, NULL,
					 "may differ from 'a' in the extent of axis %d only", axis);
			return;
		}
		output.shape[axis] += call->type[i].shape[axis]; /* each is below 2^53 */
	}
	call->type[OUTPUT] = output;
}

struct sgpu_move sgpu_concatenate_move(const struct sgpu_op_call *call, int input)
{
	const struct sgpu_type *in = &call->type[input], *out = &call->type[OUTPUT];
	int axis = (int)call->param[AXIS].number;
	uint64_t width = sgpu_ops_extent(in, axis, in->rank);

	return (struct sgpu_move){ { { 1, 0, 0 },
				     { 1, 0, 0 },
				     { sgpu_ops_extent(in, 0, axis), width,
				       sgpu_ops_extent(out, axis, out->rank) },
				     { width, 1, 1 } } };
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	size_t size = sgpu_dtype_size(call->type[OUTPUT].dtype);
	char *out = call->data[OUTPUT];
	int rc = 0;

	for (int i = 0; i < OUTPUT && !rc; i++) {
		struct sgpu_move move;

		if (call->data[i]) {
			move = sgpu_concatenate_move(call, i);
			rc = sgpu_ops_move_rows(launch, out, call->data[i], &move, size);
			out += move.axis[3].extent * size;
		}
	}
	return rc;
}

const struct sgpu_op sgpu_op_concatenate = {
	.name = "concatenate",
	.help = "arrays one after the other along an axis",
	.args = {
	{ "a", false, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "the first" },
	{ "b", false, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "the second" },
	{ "c", true, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "the third" },
	{ "d", true, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "the fourth" },
	{ "e", true, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "the fifth" },
	{ "f", true, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "the sixth" },
	{ "g", true, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "the seventh" },
	{ "output", false, SGPU_TYPES_ANY, 1, SGPU_RANK_MAX, "all of them" },
	},
	.params = {
	{ "axis", SGPU_PARAM_INTEGER, false, 0, SGPU_RANK_MAX - 1, 0, NULL,
	  "dimension along which they follow each other, from 0" },
	},
	.infer = infer,
	.cpu = cpu,
};
