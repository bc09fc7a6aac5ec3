/* SPDX-License-Identifier: Apache-2.0
 *
 * reshape: the same elements in another shape.
 */
#include "ops/ops_private.h"

enum { INPUT, OUTPUT };

static const struct sgpu_op_argument args[] = {
	{ "input", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "the elements" },
	{ "output", false, SGPU_TYPES_ALL, 1, SGPU_RANK_MAX, "the same elements in the new shape" },
	{ .name = NULL },
};

#define DIMENSION_MAX UINT32_MAX

static const struct sgpu_op_param params[] = {
	{ .name = "dim0",
	  .kind = SGPU_PARAM_INTEGER,
	  .required = true,
	  .max = DIMENSION_MAX,
	  .help = "first dimension" },
	{ .name = "dim1",
	  .kind = SGPU_PARAM_INTEGER,
	  .max = DIMENSION_MAX,
	  .help = "second dimension" },
	{ .name = "dim2",
	  .kind = SGPU_PARAM_INTEGER,
	  .max = DIMENSION_MAX,
	  .help = "third dimension" },
	{ .name = "dim3",
	  .kind = SGPU_PARAM_INTEGER,
	  .max = DIMENSION_MAX,
	  .help = "fourth dimension" },
	{ .name = NULL },
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	struct sgpu_type output = { .dtype = call->type[INPUT].dtype };
	uint64_t count = sgpu_ops_count(&call->type[INPUT]), made = 1;
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
	.args = args,
	.params = params,
	.infer = infer,
	.cpu = sgpu_ops_copy,
};
