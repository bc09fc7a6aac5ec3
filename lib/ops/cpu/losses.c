/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of training. cross_entropy: the loss of each row of scores whose class is known, after
 * softmax, and the gradient of the mean loss. squared_error: each row's mean squared difference,
 * and the gradient of the mean over all rows.
 */
#include "ops/cpu/training.h"

enum { INPUT, LABELS, TARGET = 1, OUTPUT_LOSS, OUTPUT_GRADIENT };
enum { GRAIN = 1 << 13, SQUARES_GRAIN = 1 << 15 };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *input = &call->type[INPUT];

	if (input->shape[1] == 0) {
		sgpu_op_diagnose(report, "input", NULL, "has no classes");
	}
	sgpu_ops_same_extent(call, report, INPUT, 0, LABELS, 0);
	call->type[OUTPUT_LOSS] = sgpu_ops_type(input->dtype, 1, input->shape);
	call->type[OUTPUT_GRADIENT] = *input;
}

/* The search for the largest element ignores a NaN, which makes the sum NaN. */
SGPU_INLINE void row_loss(bool wide, const struct sgpu_op_call *call, uint64_t row)
{
	uint64_t width = call->type[INPUT].shape[1], first = row * width;
	int64_t label = sgpu_ops_label(call->data[LABELS], call->type[LABELS].dtype, row);
	bool fits = sgpu_label_fits(label, width);
	const void *input = call->data[INPUT];
	double lanes[SGPU_LANES] = { 0 }, top = -(double)INFINITY, rows, sum;

	rows = fits ? (double)call->type[INPUT].shape[0] : (double)NAN;
	for (uint64_t i = 0; i < width; i++) {
		double x = sgpu_real(wide, input, first + i);

		top = x > top ? x : top;
	}
	for (uint64_t i = 0; i < width; i++) {
		lanes[i % SGPU_LANES] += sgpu_math_exp(sgpu_real(wide, input, first + i) - top);
	}
	sum = sgpu_lanes_sum(lanes);
	if (call->data[OUTPUT_LOSS]) {
		double x = fits ? sgpu_real(wide, input, first + (uint64_t)label) : 0;

		sgpu_real_set(wide, call->data[OUTPUT_LOSS], row,
			      fits ? sgpu_entropy(sum, x, top) : (double)NAN);
	}
	for (uint64_t i = 0; call->data[OUTPUT_GRADIENT] && i < width; i++) {
		sgpu_real_set(wide, call->data[OUTPUT_GRADIENT], first + i,
			      sgpu_entropy_gradient(sgpu_real(wide, input, first + i), top, sum,
						    fits && i == (uint64_t)label, rows));
	}
}

SGPU_INLINE void rows(bool wide, const struct sgpu_op_call *call, uint64_t begin, uint64_t end)
{
	for (uint64_t row = begin; row < end; row++) {
		row_loss(wide, call, row);
	}
}
SGPU_OPS_REAL(rows)

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const uint64_t *shape = call->type[INPUT].shape;

	return sgpu_ops_for(launch, shape[0], GRAIN / shape[1] + 1,
			    call->type[INPUT].dtype == SGPU_F32 ? rows_f32 : rows_f64, call);
}

const struct sgpu_op sgpu_op_cross_entropy = {
	.name = "cross_entropy",
	.help = "loss of a classifier after softmax, and its gradient",
	.args = {
	{ "input", false, SGPU_TYPES_FLOAT, 2, 2, "[n,m]: a score for each of m classes" },
	{ "labels", false, SGPU_TYPE_BIT(SGPU_I32) | SGPU_TYPE_BIT(SGPU_U8), 1, 1,
	  "[n]: classes, from 0" },
	{ "output_loss", true, SGPU_TYPES_FLOAT, 1, 1, "[n]: of each row" },
	{ "output_gradient", true, SGPU_TYPES_FLOAT, 2, 2, "of the mean loss by input" },
	},
	.infer = infer,
	.cpu = cpu,
};

static void infer_squares(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *input = &call->type[INPUT];

	if (sgpu_ops_extent(input, 1, input->rank) == 0) {
		sgpu_op_diagnose(report, "input", NULL, "has rows without elements");
	}
	if (sgpu_ops_must_be(call, report, TARGET, input)) {
		call->type[OUTPUT_LOSS] = sgpu_ops_type(input->dtype, 1, input->shape);
		call->type[OUTPUT_GRADIENT] = *input;
	}
}

SGPU_INLINE void squares(bool wide, const struct sgpu_op_call *call, uint64_t begin, uint64_t end)
{
	uint64_t width = sgpu_ops_extent(&call->type[INPUT], 1, call->type[INPUT].rank);
	double share = (double)sgpu_ops_count(&call->type[INPUT]);
	void *loss = call->data[OUTPUT_LOSS], *gradient = call->data[OUTPUT_GRADIENT];

	for (uint64_t row = begin; row < end; row++) {
		double lanes[SGPU_LANES] = { 0 };

		for (uint64_t i = 0; i < width; i++) {
			uint64_t at = row * width + i;
			double x = sgpu_real(wide, call->data[INPUT], at) -
				   sgpu_real(wide, call->data[TARGET], at);

			lanes[i % SGPU_LANES] += x * x;
			if (gradient) {
				sgpu_real_set(wide, gradient, at, 2 * x / share);
			}
		}
		if (loss) {
			sgpu_real_set(wide, loss, row, sgpu_lanes_sum(lanes) / (double)width);
		}
	}
}
SGPU_OPS_REAL(squares)

static int squares_cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t width = sgpu_ops_extent(type, 1, type->rank);

	return sgpu_ops_for(launch, type->shape[0], SQUARES_GRAIN / width + 1,
			    type->dtype == SGPU_F32 ? squares_f32 : squares_f64, call);
}

const struct sgpu_op sgpu_op_squared_error = {
	.name = "squared_error",
	.help = "mean squared error of each row, and its gradient",
	.args = {
	{ "input", false, SGPU_TYPES_FLOAT, 2, SGPU_RANK_MAX, "[n, ...]: a row for each item" },
	{ "target", false, SGPU_TYPES_FLOAT, 2, SGPU_RANK_MAX,
	  "what it should be, the type and shape of input" },
	{ "output_loss", true, SGPU_TYPES_FLOAT, 1, 1, "[n]: of each row" },
	{ "output_gradient", true, SGPU_TYPES_FLOAT, 2, SGPU_RANK_MAX,
	  "of the mean loss by input" },
	},
	.infer = infer_squares,
	.cpu = squares_cpu,
};
