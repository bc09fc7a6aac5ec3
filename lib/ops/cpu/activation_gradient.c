/* SPDX-License-Identifier: Apache-2.0
 *
 * activation_gradient: the gradient at the input of an activation, from the gradient at its output
 * and the output itself.
 */
#include "ops/cpu/training.h"

enum { ACTIVATED, GRADIENT, OUTPUT, ACTIVATION = 0, GRAIN = 1 << 16 };

static const char *const activations[] = { "relu", "sigmoid", "tanh", NULL };

SGPU_INLINE void slopes(bool wide, const struct sgpu_op_call *call, uint64_t begin, uint64_t end)
{
	enum sgpu_slope kind = (enum sgpu_slope)(int)call->param[ACTIVATION].number;

	for (uint64_t i = begin; i < end; i++) {
		sgpu_real_set(wide, call->data[OUTPUT], i,
			      sgpu_slope(kind, sgpu_real(wide, call->data[ACTIVATED], i),
					 sgpu_real(wide, call->data[GRADIENT], i)));
	}
}
SGPU_OPS_REAL(slopes)

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return sgpu_ops_for(launch, sgpu_ops_count(&call->type[OUTPUT]), GRAIN,
			    call->type[OUTPUT].dtype == SGPU_F32 ? slopes_f32 : slopes_f64, call);
}

const struct sgpu_op sgpu_op_activation_gradient = {
	.name = "activation_gradient",
	.help = "gradient of relu, sigmoid or tanh",
	.args = {
	{ "activated", false, SGPU_TYPES_FLOAT, 0, SGPU_RANK_MAX, "what the activation gave" },
	{ "gradient", false, SGPU_TYPES_FLOAT, 0, SGPU_RANK_MAX,
	  "of the loss by it, the type and shape of activated" },
	{ "output", false, SGPU_TYPES_FLOAT, 0, SGPU_RANK_MAX,
	  "of the loss by what the activation got" },
	},
	.params = {
	{ "activation", SGPU_PARAM_CHOICE, true, 0, 0, 0, activations, "which one it was" },
	},
	.infer = sgpu_ops_infer_pair,
	.cpu = cpu,
};
