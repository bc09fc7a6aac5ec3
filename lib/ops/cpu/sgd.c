/* SPDX-License-Identifier: Apache-2.0
 *
 * sgd: a step of stochastic gradient descent, with momentum.
 */
#include <float.h>

#include "ops/ops_private.h"

enum { WEIGHTS, GRADIENT, VELOCITY, OUTPUT, OUTPUT_VELOCITY, RATE = 0, MOMENTUM, GRAIN = 1 << 16 };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	if (sgpu_ops_same_type(call, report, WEIGHTS, GRADIENT) &&
	    sgpu_ops_must_be(call, report, VELOCITY, &call->type[WEIGHTS])) {
		call->type[OUTPUT] = call->type[WEIGHTS];
		call->type[OUTPUT_VELOCITY] = call->type[WEIGHTS];
	}
}

/* The new velocity is rounded to the type before it moves the weight. */
#define STEP(name, type)                                                                           \
	SGPU_CLONES_ATTR static void name(void *argument, uint64_t begin, uint64_t end)            \
	{                                                                                          \
		const struct sgpu_op_call *call = argument;                                        \
		const type *weights = call->data[WEIGHTS], *gradient = call->data[GRADIENT];       \
		const type *velocity = call->data[VELOCITY];                                       \
		type *output = call->data[OUTPUT], *output_velocity = call->data[OUTPUT_VELOCITY]; \
		double rate = call->param[RATE].number, momentum = call->param[MOMENTUM].number;   \
                                                                                                   \
		for (uint64_t i = begin; i < end; i++) {                                           \
			double before = velocity ? momentum * (double)velocity[i] : 0.0;           \
			type now = (type)(before + (double)gradient[i]);                           \
                                                                                                   \
			output[i] = (type)((double)weights[i] - rate * (double)now);               \
			if (output_velocity) {                                                     \
				output_velocity[i] = now;                                          \
			}                                                                          \
		}                                                                                  \
	}

STEP(step_f32, float)
STEP(step_f64, double)

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	return sgpu_ops_for(pool, sgpu_ops_count(&call->type[OUTPUT]), GRAIN,
			    call->type[OUTPUT].dtype == SGPU_F32 ? step_f32 : step_f64, call,
			    error);
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
	.infer = infer,
	.cpu = cpu,
};
