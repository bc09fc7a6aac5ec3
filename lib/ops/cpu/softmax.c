/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax: exp(x - max), divided by its sum, over the last axis. Exponentials and sums are f64.
 */
/* gcc vectorises no code that must keep exception flags, which nothing here reads. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif
#include "math64.h"
#include "ops/ops_private.h"

/* A sum has LANES partial results, added in order: element i is in lane i % LANES. */
enum { INPUT, OUTPUT, GRAIN = 1 << 14, LANES = 8 };

/* Where the result rounds to 0, since rounding subnormals would be slow. */
SGPU_INLINE double exponential(bool wide, double less)
{
	return sgpu_math_exp(less) * (less < (wide ? -708 : -104) ? 0.0 : 1.0);
}

/* Writes exp(input - top) from element `first` on and returns the sum. */
SGPU_INLINE double exponentials(bool wide, const struct sgpu_op_call *call, uint64_t first,
				uint64_t count, double top)
{
	const void *input = call->data[INPUT];
	double sums[LANES] = { 0 }, sum = 0;
	uint64_t whole = first + count - count % LANES;

	for (uint64_t i = first; i < whole; i += LANES) {
		for (int l = 0; l < LANES; l++) {
			double e = exponential(wide, sgpu_real(wide, input, i + l) - top);

			sums[l] += e;
			sgpu_real_set(wide, call->data[OUTPUT], i + l, e);
		}
	}
	for (uint64_t i = whole; i < first + count; i++) {
		double e = exponential(wide, sgpu_real(wide, input, i) - top);

		sums[i - whole] += e;
		sgpu_real_set(wide, call->data[OUTPUT], i, e);
	}
	for (int l = 0; l < LANES; l++) {
		sum += sums[l];
	}
	return sum;
}

/* The search for the largest element ignores a NaN, which makes the sum NaN. */
SGPU_INLINE void rows(bool wide, const struct sgpu_op_call *call, uint64_t begin, uint64_t end)
{
	uint64_t count = call->type[INPUT].shape[call->type[INPUT].rank - 1];
	void *output = call->data[OUTPUT];

	for (uint64_t first = begin * count; first < end * count; first += count) {
		double top = -(double)INFINITY, sum;

		for (uint64_t i = first; i < first + count; i++) {
			double x = sgpu_real(wide, call->data[INPUT], i);

			top = x > top ? x : top;
		}
		sum = exponentials(wide, call, first, count, top);
		for (uint64_t i = first; i < first + count; i++) {
			sgpu_real_set(wide, output, i, sgpu_real(wide, output, i) / sum);
		}
	}
}
SGPU_OPS_REAL(rows)

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = type->shape[type->rank - 1],
		 rows = sgpu_ops_extent(type, 0, type->rank - 1);

	return sgpu_ops_for(launch, rows, GRAIN / count + 1,
			    type->dtype == SGPU_F32 ? rows_f32 : rows_f64, call);
}

const struct sgpu_op sgpu_op_softmax = {
	.name = "softmax",
	.help = "normalised exponentials over the last axis",
	.args = {
	{ "input", false, SGPU_TYPES_FLOAT, 1, SGPU_RANK_MAX, "rows along the last axis" },
	{ "output", false, SGPU_TYPES_FLOAT, 1, SGPU_RANK_MAX, "the type and shape of input" },
	},
	.infer = sgpu_ops_infer_same,
	.scratch = sgpu_ops_parts_scratch, /* two numbers */
	.cpu = cpu,
};
