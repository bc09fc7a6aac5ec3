/* SPDX-License-Identifier: Apache-2.0
 *
 * The losses of training and their gradients. cross_entropy: the loss of each row of scores whose
 * class is known, after softmax, and the gradient of the mean loss. squared_error: the mean squared
 * difference of each row, and the gradient of the mean over all rows.
 */
#include "ops/cpu/training.h"

enum { INPUT, LABELS, TARGET = 1, OUTPUT_LOSS, OUTPUT_GRADIENT };
enum { GRAIN = 1 << 13, SQUARES_GRAIN = 1 << 15 };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *input = &call->type[INPUT], *labels = &call->type[LABELS];

	if (input->shape[1] == 0) {
		sgpu_op_diagnose(report, "input", NULL, "has no classes");
	}
	if (labels->shape[0] != input->shape[0]) {
		sgpu_op_diagnose(
			report, "labels", NULL, "has %llu elements, but 'input' has %llu rows",
			(unsigned long long)labels->shape[0], (unsigned long long)input->shape[0]);
	}
	call->type[OUTPUT_LOSS] = sgpu_ops_type(input->dtype, 1, input->shape);
	call->type[OUTPUT_GRADIENT] = *input;
}

static int64_t label_of(const struct sgpu_op_call *call, uint64_t row)
{
	return call->type[LABELS].dtype == SGPU_U8 ? ((const uint8_t *)call->data[LABELS])[row]
						   : ((const int32_t *)call->data[LABELS])[row];
}

/* The search for the largest element ignores a NaN; the sum then becomes NaN. */
#define ROWS(name, T)                                                                            \
	SGPU_CLONES_ATTR static void name##_row(const struct sgpu_op_call *call, uint64_t row,   \
						int64_t label)                                   \
	{                                                                                        \
		uint64_t width = call->type[INPUT].shape[1];                                     \
		bool fits = sgpu_label_fits(label, width);                                       \
		const T *input = (const T *)call->data[INPUT] + row * width;                     \
		T *loss = call->data[OUTPUT_LOSS], *gradient = call->data[OUTPUT_GRADIENT];      \
		double lanes[SGPU_LANES] = { 0 }, top = -(double)INFINITY, rows, sum;            \
                                                                                                 \
		rows = fits ? (double)call->type[INPUT].shape[0] : (double)NAN;                  \
		for (uint64_t i = 0; i < width; i++) {                                           \
			top = (double)input[i] > top ? (double)input[i] : top;                   \
		}                                                                                \
		for (uint64_t i = 0; i < width; i++) {                                           \
			lanes[i % SGPU_LANES] += sgpu_math_exp((double)input[i] - top);          \
		}                                                                                \
		sum = sgpu_lanes_sum(lanes);                                                     \
		if (loss) {                                                                      \
			loss[row] = (T)(fits ? sgpu_entropy(sum, (double)input[label], top)      \
					     : (double)NAN);                                     \
		}                                                                                \
		for (uint64_t i = 0; gradient && i < width; i++) {                               \
			gradient[row * width + i] = (T)sgpu_entropy_gradient(                    \
				(double)input[i], top, sum, fits && i == (uint64_t)label, rows); \
		}                                                                                \
	}                                                                                        \
	static void name(void *argument, uint64_t begin, uint64_t end)                           \
	{                                                                                        \
		for (uint64_t row = begin; row < end; row++) {                                   \
			name##_row(argument, row, label_of(argument, row));                      \
		}                                                                                \
	}

ROWS(rows_f32, float)
ROWS(rows_f64, double)

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	const uint64_t *shape = call->type[INPUT].shape;

	return sgpu_ops_for(pool, shape[0], GRAIN / shape[1] + 1,
			    call->type[INPUT].dtype == SGPU_F32 ? rows_f32 : rows_f64, call, error);
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

/* ---- squared_error ---- */
static void infer_squares(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *input = &call->type[INPUT];

	if (sgpu_ops_extent(input, 1, input->rank) == 0) {
		sgpu_op_diagnose(report, "input", NULL, "has rows without elements");
	}
	if (sgpu_ops_same_type(call, report, INPUT, TARGET)) {
		call->type[OUTPUT_LOSS] = sgpu_ops_type(input->dtype, 1, input->shape);
		call->type[OUTPUT_GRADIENT] = *input;
	}
}

#define SQUARES(name, T)                                                                         \
	SGPU_CLONES_ATTR static void name(void *argument, uint64_t begin, uint64_t end)          \
	{                                                                                        \
		const struct sgpu_op_call *call = argument;                                      \
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

SQUARES(squares_f32, float)
SQUARES(squares_f64, double)

static int squares_cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t width = sgpu_ops_extent(type, 1, type->rank);

	return sgpu_ops_for(pool, type->shape[0], SQUARES_GRAIN / width + 1,
			    type->dtype == SGPU_F32 ? squares_f32 : squares_f64, call, error);
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
