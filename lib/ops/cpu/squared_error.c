/* SPDX-License-Identifier: Apache-2.0
 *
 * squared_error: the mean squared difference of each row, and the gradient of the mean over all
 * rows.
 */
#include "ops/cpu/training.h"

enum { INPUT, TARGET, OUTPUT_LOSS, OUTPUT_GRADIENT, GRAIN = 1 << 15 };

static const struct sgpu_op_argument args[] = {
	{ "input", false, SGPU_TYPES_FLOAT, 2, SGPU_RANK_MAX, "[n, ...]: a row for each item" },
	{ "target", false, SGPU_TYPES_FLOAT, 2, SGPU_RANK_MAX,
	  "what it should be, the type and shape of input" },
	{ "output_loss", true, SGPU_TYPES_FLOAT, 1, 1, "[n]: of each row" },
	{ "output_gradient", true, SGPU_TYPES_FLOAT, 2, SGPU_RANK_MAX,
	  "of the mean loss by input" },
	{ .name = NULL },
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *input = &call->type[INPUT];

	if (sgpu_ops_extent(input, 1, input->rank) == 0) {
		sgpu_op_diagnose(report, "input", NULL, "has rows without elements");
	}
	if (!call->present[OUTPUT_LOSS] && !call->present[OUTPUT_GRADIENT]) {
		sgpu_op_diagnose(report, NULL, NULL,
				 "one of 'output_loss' and 'output_gradient' must be given");
	}
	if (sgpu_ops_same_type(call, report, INPUT, TARGET)) {
		call->type[OUTPUT_LOSS] = sgpu_ops_type(input->dtype, 1, input->shape);
		call->type[OUTPUT_GRADIENT] = *input;
	}
}

#define ROWS(name, T)                                                                            \
	SGPU_CLONES_ATTR static void name(const struct sgpu_op_call *call, uint64_t begin,       \
					  uint64_t end)                                          \
	{                                                                                        \
		uint64_t width = sgpu_ops_extent(&call->type[INPUT], 1, call->type[INPUT].rank); \
		double share = (double)sgpu_ops_count(&call->type[INPUT]);                       \
		const T *input = call->data[INPUT], *target = call->data[TARGET];                \
		T *loss = call->data[OUTPUT_LOSS], *gradient = call->data[OUTPUT_GRADIENT];      \
                                                                                                 \
		for (uint64_t row = begin; row < end; row++) {                                   \
			double lanes[SGPU_LANES] = { 0 };                                        \
                                                                                                 \
			for (uint64_t i = 0; i < width; i++) {                                   \
				double x = (double)input[row * width + i] -                      \
					   (double)target[row * width + i];                      \
                                                                                                 \
				lanes[i % SGPU_LANES] += x * x;                                  \
				if (gradient) {                                                  \
					gradient[row * width + i] = (T)(2 * x / share);          \
				}                                                                \
			}                                                                        \
			if (loss) {                                                              \
				loss[row] = (T)(sgpu_lanes_sum(lanes) / (double)width);          \
			}                                                                        \
		}                                                                                \
	}

ROWS(rows_f32, float)
ROWS(rows_f64, double)

static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;

	if (call->type[INPUT].dtype == SGPU_F32) {
		rows_f32(call, begin, end);
	} else {
		rows_f64(call, begin, end);
	}
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t width = sgpu_ops_extent(type, 1, type->rank);

	return sgpu_ops_for(pool, type->shape[0], GRAIN / width + 1, body, call, error);
}

const struct sgpu_op sgpu_op_squared_error = {
	.name = "squared_error",
	.help = "mean squared error of each row, and its gradient",
	.args = args,
	.infer = infer,
	.cpu = cpu,
};
