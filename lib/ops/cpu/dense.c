/* SPDX-License-Identifier: Apache-2.0
 *
 * dense: activation(input weights + bias), a fully connected layer. The activation is computed in
 * f64.
 */
/* gcc vectorises no code that must keep exception flags, which nothing here reads. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif
#include "ops/cpu/math64.h"
#include "ops/ops_private.h"

enum { INPUT, WEIGHTS, BIAS, OUTPUT, ACTIVATION = 0, TRANSPOSE, GRAIN = 1 << 15 };

const char *const sgpu_ops_activations[] = { "none", "relu", "sigmoid", "tanh", "gelu", NULL };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	bool transpose = call->param[TRANSPOSE].number != 0;
	const struct sgpu_type *input = &call->type[INPUT], *weights = &call->type[WEIGHTS];
	const uint64_t shape[] = { input->shape[0], weights->shape[!transpose] };
	const struct sgpu_type bias = sgpu_ops_type(input->dtype, 1, shape + 1);

	if (sgpu_ops_same_dtype(call, report, INPUT, WEIGHTS) &&
	    sgpu_ops_same_extent(call, report, INPUT, 1, WEIGHTS, transpose) &&
	    sgpu_ops_must_be(call, report, BIAS, &bias)) {
		call->type[OUTPUT] = sgpu_ops_type(input->dtype, 2, shape);
	}
}

/* `activation` is a constant where this is inlined. */
SGPU_INLINE void activate_as(enum sgpu_activation activation, bool wide, void *values,
			     uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		sgpu_real_set(wide, values, i,
			      sgpu_activation(activation, sgpu_real(wide, values, i)));
	}
}

SGPU_INLINE void activate(int activation, bool wide, void *values, uint64_t count)
{
	switch (activation) {
	case SGPU_ACTIVATION_RELU:
		activate_as(SGPU_ACTIVATION_RELU, wide, values, count);
		break;
	case SGPU_ACTIVATION_SIGMOID:
		activate_as(SGPU_ACTIVATION_SIGMOID, wide, values, count);
		break;
	case SGPU_ACTIVATION_TANH:
		activate_as(SGPU_ACTIVATION_TANH, wide, values, count);
		break;
	case SGPU_ACTIVATION_GELU:
		activate_as(SGPU_ACTIVATION_GELU, wide, values, count);
		break;
	default:
		break;
	}
}

SGPU_CLONES_ATTR static void activate_f32(int activation, float *values, uint64_t count)
{
	activate(activation, false, values, count);
}

void sgpu_ops_activate_f32(int activation, float *values, uint64_t count)
{
	activate_f32(activation, values, count);
}

/* Adds the bias and applies the activation. The sum of two f32, rounded to f64 and then to f32, is
 * what one rounding gives. */
SGPU_INLINE void finish(bool wide, const struct sgpu_op_call *call, uint64_t begin, uint64_t end)
{
	const void *bias = call->data[BIAS];
	uint64_t width = call->type[OUTPUT].shape[1];
	void *output = call->data[OUTPUT];

	for (uint64_t i = begin * width; i < end * width && bias; i += width) {
		for (uint64_t k = 0; k < width; k++) {
			sgpu_real_set(wide, output, i + k,
				      sgpu_real(wide, output, i + k) + sgpu_real(wide, bias, k));
		}
	}
	activate((int)call->param[ACTIVATION].number, wide,
		 (char *)output + begin * width * (wide ? sizeof(double) : sizeof(float)),
		 (end - begin) * width);
}
SGPU_OPS_REAL(finish)

struct sgpu_gemm sgpu_op_dense_describe(const struct sgpu_op_call *call)
{
	const struct sgpu_type *output = &call->type[OUTPUT];

	return (struct sgpu_gemm){
		.dtype = output->dtype,
		.a = call->data[INPUT],
		.b = call->data[WEIGHTS],
		.output = call->data[OUTPUT],
		.m = output->shape[0],
		.n = output->shape[1],
		.k = call->type[INPUT].shape[1],
		.transpose_b = call->param[TRANSPOSE].number != 0,
		.lda = call->type[INPUT].shape[1],
		.ldb = call->type[WEIGHTS].shape[1],
		.ldc = output->shape[1],
		.alpha = 1,
		.batch = 1,
	};
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_gemm gemm = sgpu_op_dense_describe(call);
	int rc = sgpu_gemm(&gemm, launch);

	return rc ? rc
		  : sgpu_ops_for(launch, gemm.m, GRAIN / gemm.n + 1,
				 gemm.dtype == SGPU_F32 ? finish_f32 : finish_f64, call);
}

const struct sgpu_op sgpu_op_dense = {
	.name = "dense",
	.help = "fully connected layer with bias and activation",
	.args = {
	{ "input", false, SGPU_TYPES_FLOAT, 2, 2, "[n,k]: a row for each item" },
	{ "weights", false, SGPU_TYPES_FLOAT, 2, 2, "[k,m]; transposed [m,k]" },
	{ "bias", true, SGPU_TYPES_FLOAT, 1, 1, "[m]: added to each row" },
	{ "output", false, SGPU_TYPES_FLOAT, 2, 2, "[n,m]" },
	},
	.params = {
	{ "activation", SGPU_PARAM_CHOICE, false, 0, 0, SGPU_ACTIVATION_NONE, sgpu_ops_activations,
	  "applied to every element" },
	{ "transpose_weights", SGPU_PARAM_BOOLEAN, false, 0, 1, 0, NULL,
	  "the weights are stored [m,k]" },
	},
	.infer = infer,
	.cpu = cpu,
};
