/* SPDX-License-Identifier: Apache-2.0
 *
 * dense: activation(input weights + bias), a fully connected layer. The activation is computed in
 * f64.
 */
/* gcc does not vectorise code that must keep exception flags, which nothing here reads. */
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
	uint64_t inner = weights->shape[transpose ? 1 : 0],
		 width = weights->shape[transpose ? 0 : 1];
	struct sgpu_type bias;

	if (!sgpu_ops_same_dtype(call, report, INPUT, WEIGHTS)) {
		return;
	}
	if (inner != input->shape[1]) {
		sgpu_op_diagnose(report, "weights", NULL,
				 "takes items of %llu elements, but 'input' has items of %llu",
				 (unsigned long long)inner, (unsigned long long)input->shape[1]);
		return;
	}
	bias = sgpu_ops_type(input->dtype, 1, &width);
	if (!sgpu_ops_must_be(call, report, BIAS, &bias)) {
		return;
	}
	call->type[OUTPUT] =
		sgpu_ops_type(input->dtype, 2, (const uint64_t[]){ input->shape[0], width });
}

#define ACTIVATE(name, type, function)                                  \
	SGPU_CLONES_ATTR static void name(type *values, uint64_t count) \
	{                                                               \
		for (uint64_t i = 0; i < count; i++) {                  \
			values[i] = (type)function((double)values[i]);  \
		}                                                       \
	}

#define LAYER(T, type)                                                                       \
	ACTIVATE(relu_##T, type, sgpu_relu)                                                  \
	ACTIVATE(sigmoid_##T, type, sgpu_sigmoid)                                            \
	ACTIVATE(tanh_##T, type, sgpu_tangent)                                               \
	ACTIVATE(gelu_##T, type, sgpu_gelu)                                                  \
	static void (*const activations_##T[])(type * values, uint64_t count) = {            \
		[SGPU_ACTIVATION_RELU] = relu_##T,                                           \
		[SGPU_ACTIVATION_SIGMOID] = sigmoid_##T,                                     \
		[SGPU_ACTIVATION_TANH] = tanh_##T,                                           \
		[SGPU_ACTIVATION_GELU] = gelu_##T,                                           \
	};                                                                                   \
	SGPU_CLONES_ATTR static void add_##T(type *values, const type *bias, uint64_t count) \
	{                                                                                    \
		for (uint64_t i = 0; i < count; i++) {                                       \
			values[i] += bias[i];                                                \
		}                                                                            \
	}

LAYER(f32, float)
LAYER(f64, double)

void sgpu_ops_activate_f32(int activation, float *values, uint64_t count)
{
	if (activation != SGPU_ACTIVATION_NONE) {
		activations_f32[activation](values, count);
	}
}

/* Adds the bias to rows and applies the activation. */
static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	uint64_t width = call->type[OUTPUT].shape[1];
	enum sgpu_activation activation = (enum sgpu_activation)(int)call->param[ACTIVATION].number;
	void *output = call->data[OUTPUT];
	bool single = call->type[OUTPUT].dtype == SGPU_F32;

	for (uint64_t row = begin; row < end && call->data[BIAS]; row++) {
		if (single) {
			add_f32((float *)output + row * width, call->data[BIAS], width);
		} else {
			add_f64((double *)output + row * width, call->data[BIAS], width);
		}
	}
	if (single) {
		sgpu_ops_activate_f32(activation, (float *)output + begin * width,
				      (end - begin) * width);
	} else if (activation != SGPU_ACTIVATION_NONE) {
		activations_f64[activation]((double *)output + begin * width,
					    (end - begin) * width);
	}
}

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

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	const struct sgpu_gemm gemm = sgpu_op_dense_describe(call);
	int rc = sgpu_gemm(&gemm, pool, error);

	return rc ? rc : sgpu_ops_for(pool, gemm.m, GRAIN / gemm.n + 1, body, call, error);
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
