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
SGPU_INLINE void step(bool wide, const struct sgpu_op_call *call, uint64_t begin, uint64_t end)
{
	const void *velocity = call->data[VELOCITY];
	void *output_velocity = call->data[OUTPUT_VELOCITY];
	double rate = call->param[RATE].number, momentum = call->param[MOMENTUM].number;

	for (uint64_t i = begin; i < end; i++) {
		double before = velocity ? momentum * sgpu_real(wide, velocity, i) : 0.0;
		double sum = before + sgpu_real(wide, call->data[GRADIENT], i);
		double now = wide ? sum : (double)(float)sum;

		sgpu_real_set(wide, call->data[OUTPUT], i,
			      sgpu_real(wide, call->data[WEIGHTS], i) - rate * now);
		if (output_velocity) {
			sgpu_real_set(wide, output_velocity, i, now);
		}
	}
}
SGPU_OPS_REAL(step)

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return sgpu_ops_for(launch, sgpu_ops_count(&call->type[OUTPUT]), GRAIN,
			    call->type[OUTPUT].dtype == SGPU_F32 ? step_f32 : step_f64, call);
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
