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

#define REAL float
#define NAME(name) name##_f32
#define ROUNDS_TO_0 -104
#include "ops/cpu/softmax_rows.h"
#undef REAL
#undef NAME
#undef ROUNDS_TO_0
#define REAL double
#define NAME(name) name##_f64
#define ROUNDS_TO_0 -708
#include "ops/cpu/softmax_rows.h"

/* Scratch memory for devices that divide a long row: two numbers for each part of every row, and
 * two for each row. */
static uint64_t scratch(const struct sgpu_op_call *call)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = type->shape[type->rank - 1],
		 rows = sgpu_ops_extent(type, 0, type->rank - 1);

	return count > SGPU_ROW_PART ? rows * (sgpu_ops_parts(count) + 1) * 2 * sizeof(double) : 0;
}

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
	.scratch = scratch,
	.cpu = cpu,
};
