/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax: exp(x - max) / sum of the same, over the last axis. Exponentials and sums in f64.
 */
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

#define SOFTMAX(name, type)                                                                                  \
	SGPU_CLONES_ATTR static void name(const type *input, type *output, uint64_t count)                   \
	{                                                                                                    \
		double sums[LANES] = { 0 }, sum = 0;                                                         \
		type tops[LANES], top;                                                                       \
		uint64_t whole = count - count % LANES;                                                      \
                                                                                                             \
		for (int l = 0; l < LANES; l++) {                                                            \
			tops[l] = input[0];                                                                  \
		}                                                                                            \
		for (uint64_t i = 0; i < whole; i += LANES) {                                                \
			for (int l = 0; l < LANES; l++) {                                                    \
				tops[l] = input[i + l] > tops[l] ? input[i + l] : tops[l];                   \
			}                                                                                    \
		}                                                                                            \
		top = tops[0];                                                                               \
		for (int l = 1; l < LANES; l++) {                                                            \
			top = tops[l] > top ? tops[l] : top;                                                 \
		}                                                                                            \
		for (uint64_t i = whole; i < count; i++) {                                                   \
			top = input[i] > top ? input[i] : top;                                               \
		}                                                                                            \
		for (uint64_t i = 0; i < whole; i += LANES) {                                                \
			for (int l = 0; l < LANES; l++) {                                                    \
				double e = sgpu_math_exp((double)input[i + l] - (double)top);                \
                                                                                                             \
				sums[l] += e;                                                                \
				output[i + l] = (type)e;                                                     \
			}                                                                                    \
		}                                                                                            \
		for (uint64_t i = whole; i < count; i++) {                                                   \
			double e = sgpu_math_exp((double)input[i] - (double)top);                            \
                                                                                                             \
			sums[i - whole] += e;                                                                \
			output[i] = (type)e;                                                                 \
		}                                                                                            \
		for (int l = 0; l < LANES; l++) {                                                            \
			sum += sums[l];                                                                      \
		}                                                                                            \
		for (uint64_t i = 0; i < count; i++) {                                                       \
			output[i] = (type)((double)output[i] / sum);                                         \
		}                                                                                            \
	}

SOFTMAX(row_f32, float)
SOFTMAX(row_f64, double)

static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = type->shape[type->rank - 1];

	for (uint64_t row = begin; row < end; row++) {
		if (type->dtype == SGPU_F32) {
			row_f32((const float *)call->data[INPUT] + row * count,
				(float *)call->data[OUTPUT] + row * count, count);
		} else {
			row_f64((const double *)call->data[INPUT] + row * count,
				(double *)call->data[OUTPUT] + row * count, count);
		}
	}
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = type->shape[type->rank - 1];

	if (sgpu_ops_count(type) == 0) {
		return 0;
	}
	return sgpu_ops_for(pool, sgpu_ops_extent(type, 0, type->rank - 1), GRAIN / count + 1, body, call, error);
}

const struct sgpu_op sgpu_op_softmax = {
	.name = "softmax",
	.help = "normalised exponentials over the last axis",
	.args = args,
	.infer = infer,
	.cpu = cpu,
};
