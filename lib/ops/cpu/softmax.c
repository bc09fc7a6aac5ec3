/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax: exp(x - max) / sum of the same, over the last axis. Exponentials and sums in f64. Rows
 * are shared out among the workers.
 */
/* Nothing here looks at the exception flags; to keep them would keep gcc from using vectors. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif
#include "math64.h"
#include "ops/ops_private.h"

/* Sums and maxima keep LANES partial results, element i in lane i % LANES, combined in order. */
enum { INPUT, OUTPUT, GRAIN = 1 << 14, LANES = 8 };

static const struct sgpu_op_argument args[] = {
	{ "input", false, SGPU_TYPES_FLOAT, 1, SGPU_RANK_MAX, "rows along the last axis" },
	{ "output", false, SGPU_TYPES_FLOAT, 1, SGPU_RANK_MAX, "the type and shape of input" },
	{ .name = NULL },
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	(void)report;
	call->type[OUTPUT] = call->type[INPUT];
}

/* The largest element of a row is passed over where it is NaN, which shows in the sum. Below `end`
 * the type has nothing but 0; rounding to it is slow. */
#define SOFTMAX(name, type, end)                                                           \
	SGPU_CLONES_ATTR static void name(const type *input, type *output, uint64_t count) \
	{                                                                                  \
		double sums[LANES] = { 0 }, sum = 0;                                       \
		uint64_t whole = count - count % LANES;                                    \
		type tops[LANES], top;                                                     \
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
		for (uint64_t i = 0; i < whole; i += LANES) {                              \
			for (int l = 0; l < LANES; l++) {                                  \
				double x = (double)input[i + l] - (double)top;             \
				double e = sgpu_math_exp(x) * (x < end ? 0.0 : 1.0);       \
                                                                                           \
				sums[l] += e;                                              \
				output[i + l] = (type)e;                                   \
			}                                                                  \
		}                                                                          \
		for (uint64_t i = whole; i < count; i++) {                                 \
			double x = (double)input[i] - (double)top;                         \
			double e = sgpu_math_exp(x) * (x < end ? 0.0 : 1.0);               \
                                                                                           \
			sums[i - whole] += e;                                              \
			output[i] = (type)e;                                               \
		}                                                                          \
		for (int l = 0; l < LANES; l++) {                                          \
			sum += sums[l];                                                    \
		}                                                                          \
		for (uint64_t i = 0; i < count; i++) {                                     \
			output[i] = (type)((double)output[i] / sum);                       \
		}                                                                          \
	}
SOFTMAX(softmax_f32, float, -104)
SOFTMAX(softmax_f64, double, -708)

static void rows_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	uint64_t count = call->type[INPUT].shape[call->type[INPUT].rank - 1];

	for (uint64_t row = begin; row < end; row++) {
		if (call->type[INPUT].dtype == SGPU_F32) {
			softmax_f32((const float *)call->data[INPUT] + row * count,
				    (float *)call->data[OUTPUT] + row * count, count);
		} else {
			softmax_f64((const double *)call->data[INPUT] + row * count,
				    (double *)call->data[OUTPUT] + row * count, count);
		}
	}
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = type->shape[type->rank - 1];

	return sgpu_ops_count(type) == 0
		       ? 0
		       : sgpu_ops_for(pool, sgpu_ops_extent(type, 0, type->rank - 1),
				      GRAIN / count + 1, rows_body, call, error);
}

const struct sgpu_op sgpu_op_softmax = {
	.name = "softmax",
	.help = "normalised exponentials over the last axis",
	.args = args,
	.infer = infer,
	.cpu = cpu,
};
