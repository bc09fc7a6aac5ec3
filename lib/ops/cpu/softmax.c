/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax: exp(x - max), divided by its sum, over the last axis. Exponentials and sums are f64.
 * Short rows are distributed over the workers; a long row is cut into parts, whose maxima and sums
 * are combined in order.
 */
/* gcc does not vectorise code that must keep exception flags, which nothing here reads. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif
#include "math64.h"
#include "ops/ops_private.h"

/* Sums and maxima have LANES partial results: element i is in lane i % LANES. They are combined in
 * order. */
enum { INPUT, OUTPUT, GRAIN = 1 << 14, LANES = 8 };

/* The largest element; a NaN is ignored here and makes the sum NaN. `count` is at least 1. */
#define TOP(name, type)                                                                    \
	SGPU_CLONES_ATTR static double name(const type *input, uint64_t count)             \
	{                                                                                  \
		type tops[LANES], top;                                                     \
		uint64_t whole = count - count % LANES;                                    \
                                                                                           \
		for (int l = 0; l < LANES; l++) {                                          \
			tops[l] = -(type)INFINITY;                                         \
		}                                                                          \
		for (uint64_t i = 0; i < whole; i += LANES) {                              \
			for (int l = 0; l < LANES; l++) {                                  \
				tops[l] = input[i + l] > tops[l] ? input[i + l] : tops[l]; \
			}                                                                  \
		}                                                                          \
		for (uint64_t i = whole; i < count; i++) {                                 \
			tops[0] = input[i] > tops[0] ? input[i] : tops[0];                 \
		}                                                                          \
		top = tops[0];                                                             \
		for (int l = 1; l < LANES; l++) {                                          \
			top = tops[l] > top ? tops[l] : top;                               \
		}                                                                          \
		return (double)top;                                                        \
	}

/* Writes exp(input - top) and returns the sum. Below `end` the result rounds to 0, and rounding
 * subnormals would be slow. */
#define EXPONENTIALS(name, type, end)                                                        \
	SGPU_CLONES_ATTR static double name(const type *input, type *output, uint64_t count, \
					    double top)                                      \
	{                                                                                    \
		double sums[LANES] = { 0 }, sum = 0;                                         \
		uint64_t whole = count - count % LANES;                                      \
                                                                                             \
		for (uint64_t i = 0; i < whole; i += LANES) {                                \
			for (int l = 0; l < LANES; l++) {                                    \
				double x = (double)input[i + l] - top;                       \
				double e = sgpu_math_exp(x) * (x < end ? 0.0 : 1.0);         \
                                                                                             \
				sums[l] += e;                                                \
				output[i + l] = (type)e;                                     \
			}                                                                    \
		}                                                                            \
		for (uint64_t i = whole; i < count; i++) {                                   \
			double x = (double)input[i] - top;                                   \
			double e = sgpu_math_exp(x) * (x < end ? 0.0 : 1.0);                 \
                                                                                             \
			sums[i - whole] += e;                                                \
			output[i] = (type)e;                                                 \
		}                                                                            \
		for (int l = 0; l < LANES; l++) {                                            \
			sum += sums[l];                                                      \
		}                                                                            \
		return sum;                                                                  \
	}

#define DIVIDE(name, type)                                                          \
	SGPU_CLONES_ATTR static void name(type *output, uint64_t count, double sum) \
	{                                                                           \
		for (uint64_t i = 0; i < count; i++) {                              \
			output[i] = (type)((double)output[i] / sum);                \
		}                                                                   \
	}

TOP(top_f32, float)
TOP(top_f64, double)
EXPONENTIALS(exponentials_f32, float, -104)
EXPONENTIALS(exponentials_f64, double, -708)
DIVIDE(divide_f32, float)
DIVIDE(divide_f64, double)

static double top(const struct sgpu_op_call *call, uint64_t begin, uint64_t count)
{
	return call->type[INPUT].dtype == SGPU_F32
		       ? top_f32((const float *)call->data[INPUT] + begin, count)
		       : top_f64((const double *)call->data[INPUT] + begin, count);
}

static double exponentials(const struct sgpu_op_call *call, uint64_t begin, uint64_t count,
			   double most)
{
	if (call->type[INPUT].dtype == SGPU_F32) {
		return exponentials_f32((const float *)call->data[INPUT] + begin,
					(float *)call->data[OUTPUT] + begin, count, most);
	}
	return exponentials_f64((const double *)call->data[INPUT] + begin,
				(double *)call->data[OUTPUT] + begin, count, most);
}

static void divide(const struct sgpu_op_call *call, uint64_t begin, uint64_t count, double sum)
{
	if (call->type[INPUT].dtype == SGPU_F32) {
		divide_f32((float *)call->data[OUTPUT] + begin, count, sum);
	} else {
		divide_f64((double *)call->data[OUTPUT] + begin, count, sum);
	}
}

static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	uint64_t count = call->type[INPUT].shape[call->type[INPUT].rank - 1];

	for (uint64_t row = begin; row < end; row++) {
		divide(call, row * count, count,
		       exponentials(call, row * count, count, top(call, row * count, count)));
	}
}

/* Scratch memory for devices that divide a long row: two numbers for each part of every row, and
 * two for each row. */
static uint64_t scratch(const struct sgpu_op_call *call)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = type->shape[type->rank - 1],
		 rows = sgpu_ops_extent(type, 0, type->rank - 1);

	return count > SGPU_ROW_PART ? rows * (sgpu_ops_parts(count) + 1) * 2 * sizeof(double) : 0;
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = type->shape[type->rank - 1],
		 rows = sgpu_ops_extent(type, 0, type->rank - 1);

	return sgpu_ops_for(pool, rows, GRAIN / count + 1, body, call, error);
}

const struct sgpu_op sgpu_op_softmax = {
	.name = "softmax",
	.help = "normalised exponentials over the last axis",
	.args = {
	{ "input", false, SGPU_TYPES_FLOAT, 1, SGPU_RANK_MAX, "rows along the last axis" },
	{ "output", false, SGPU_TYPES_FLOAT, 1, SGPU_RANK_MAX, "the type and shape of input" },
	},
	.infer = sgpu_ops_infer_same,
	.scratch = scratch,
	.cpu = cpu,
};
