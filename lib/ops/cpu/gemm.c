/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm: alpha op(a) op(b) + beta c, one matrix or a batch of them.
 */
#include <float.h>

#include "ops/ops_private.h"

enum { A, B, C, OUTPUT, TRANSPOSE_A = 0, TRANSPOSE_B, ALPHA, BETA };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *a = &call->type[A], *b = &call->type[B];
	int down_a = a->rank - (call->param[TRANSPOSE_A].number != 0 ? 1 : 2);
	int down_b = b->rank - (call->param[TRANSPOSE_B].number != 0 ? 1 : 2);
	int across_a = 2 * a->rank - 3 - down_a, across_b = 2 * b->rank - 3 - down_b;
	struct sgpu_type output = *a;

	if (a->rank != b->rank) {
		sgpu_op_diagnose(report, "b", NULL, "has rank %d, but 'a' has rank %d", b->rank,
				 a->rank);
		return;
	}
	if (!sgpu_ops_same_dtype(call, report, A, B) ||
	    (a->rank == 3 && !sgpu_ops_same_extent(call, report, A, 0, B, 0)) ||
	    !sgpu_ops_same_extent(call, report, A, across_a, B, down_b)) {
		return;
	}
	output.shape[a->rank - 2] = a->shape[down_a];
	output.shape[a->rank - 1] = b->shape[across_b];
	call->type[OUTPUT] = output;
	sgpu_ops_must_be(call, report, C, &output);
	if (!call->present[C] && call->param[BETA].given && call->param[BETA].number != 0) {
		sgpu_op_diagnose(report, NULL, "beta", "needs the argument 'c'");
	}
}

struct sgpu_gemm sgpu_op_gemm_describe(const struct sgpu_op_call *call)
{
	const struct sgpu_type *a = &call->type[A], *b = &call->type[B],
			       *output = &call->type[OUTPUT];
	int row = output->rank - 2, column = output->rank - 1;
	struct sgpu_gemm gemm = {
		.dtype = output->dtype,
		.a = call->data[A],
		.b = call->data[B],
		.c = call->data[C],
		.output = call->data[OUTPUT],
		.m = output->shape[row],
		.n = output->shape[column],
		.transpose_a = call->param[TRANSPOSE_A].number != 0,
		.transpose_b = call->param[TRANSPOSE_B].number != 0,
		.lda = a->shape[column],
		.ldb = b->shape[column],
		.ldc = output->shape[column],
		.alpha = call->param[ALPHA].number,
		.beta = call->data[C] ? call->param[BETA].number : 0,
		.batch = output->rank == 3 ? output->shape[0] : 1,
		.stride_a = a->shape[row] * a->shape[column],
		.stride_b = b->shape[row] * b->shape[column],
		.stride_c = output->shape[row] * output->shape[column],
	};

	if (gemm.alpha != 0) {
		gemm.k = gemm.transpose_a ? a->shape[row] : a->shape[column];
	}
	return gemm;
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_gemm gemm = sgpu_op_gemm_describe(call);
	uint64_t bytes = sgpu_ops_count(&call->type[OUTPUT]) * sgpu_dtype_size(gemm.dtype);
	int rc = gemm.beta != 0 ? sgpu_ops_copy_bytes(launch, gemm.output, gemm.c, bytes) : 0;

	return rc ? rc : sgpu_gemm(&gemm, launch);
}

const struct sgpu_op sgpu_op_gemm = {
	.name = "gemm",
	.help = "multiply matrices",
	.args = {
	{ "a", false, SGPU_TYPES_FLOAT, 2, 3, "left matrix, [m,k]; [batch,m,k]; transposed [k,m]" },
	{ "b", false, SGPU_TYPES_FLOAT, 2, 3,
	  "right matrix, [k,n]; [batch,k,n]; transposed [n,k]" },
	{ "c", true, SGPU_TYPES_FLOAT, 2, 3, "what beta times is added, [m,n]; [batch,m,n]" },
	{ "output", false, SGPU_TYPES_FLOAT, 2, 3, "[m,n]; [batch,m,n]" },
	},
	.params = {
	{ "transpose_a", SGPU_PARAM_BOOLEAN, false, 0, 1, 0, NULL, "a is stored transposed" },
	{ "transpose_b", SGPU_PARAM_BOOLEAN, false, 0, 1, 0, NULL, "b is stored transposed" },
	{ "alpha", SGPU_PARAM_NUMBER, false, -(double)FLT_MAX, (double)FLT_MAX, 1, NULL,
	  "factor of the product" },
	{ "beta", SGPU_PARAM_NUMBER, false, -(double)FLT_MAX, (double)FLT_MAX, 1, NULL,
	  "factor of c" },
	},
	.infer = infer,
	.cpu = cpu,
};
