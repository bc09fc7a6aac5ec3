/* SPDX-License-Identifier: Apache-2.0
 *
 * activation_gradient: the gradient at an activation's input, from its output and the gradient
 * there. sgd: a step of stochastic gradient descent, with momentum.
 */
#include <float.h>

#include "ops/cpu/training.h"

enum { GRAIN = 1 << 16 };

static const char *const activations[] = { "relu", "sigmoid", "tanh", NULL };

SGPU_OPS_REAL(sgpu_slopes)

static int slopes_cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return sgpu_ops_for(launch, sgpu_ops_count(&call->type[0]), GRAIN,
			    call->type[0].dtype == SGPU_F32 ? sgpu_slopes_f32 : sgpu_slopes_f64,
			    call);
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
	.infer = sgpu_ops_infer_same,
	.cpu = slopes_cpu,
};

/* ---- sgd ---- */
SGPU_OPS_REAL(sgpu_descend)

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return sgpu_ops_for(launch, sgpu_ops_count(&call->type[0]), GRAIN,
			    call->type[0].dtype == SGPU_F32 ? sgpu_descend_f32 : sgpu_descend_f64,
			    call);
}

const struct sgpu_op sgpu_op_sgd = {
	.name = "sgd",
	.help = "step of stochastic gradient descent with momentum",
	.args = {
	{ "weights", false, SGPU_TYPES_FLOAT, 0, SGPU_RANK_MAX, "before the step" },
	{ "gradient", false, SGPU_TYPES_FLOAT, 0, SGPU_RANK_MAX, "of the loss by the weights" },
	{ "velocity", true, SGPU_TYPES_FLOAT, 0, SGPU_RANK_MAX, "of the step before; 0 if absent" },
	{ "output", false, SGPU_TYPES_FLOAT, 0, SGPU_RANK_MAX, "the weights after the step" },
	{ "output_velocity", true, SGPU_TYPES_FLOAT, 0, SGPU_RANK_MAX, "for the next step" },
	},
	.params = {
	{ "rate", SGPU_PARAM_NUMBER, true, 0, (double)FLT_MAX, 0, NULL, "factor of the velocity" },
	{ "momentum", SGPU_PARAM_NUMBER, false, 0, 1, 0, NULL, "share of the velocity that stays" },
	},
	.infer = sgpu_ops_infer_same,
	.cpu = cpu,
};
