/* SPDX-License-Identifier: Apache-2.0
 *
 * scale: input * gain + bias, an affine calibration. Computed in f64 and rounded once.
 */
#include <float.h>

#include "ops/ops_private.h"

enum { INPUT, CALIBRATION, OUTPUT, GAIN = 0, BIAS = 1, GRAIN = 1 << 16, BLOCK = 512 };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	struct sgpu_type *calibration = &call->type[CALIBRATION];

	if (call->present[CALIBRATION] && calibration->dtype == SGPU_NONE) {
		*calibration = sgpu_ops_type(SGPU_F32, 1, (const uint64_t[]){ 2 });
	} else if (call->present[CALIBRATION] && calibration->shape[0] != 2) {
		sgpu_op_diagnose(report, "calibration", NULL,
				 "has %llu elements, must have 2: gain and bias",
				 (unsigned long long)calibration->shape[0]);
	}
	for (int i = GAIN; i <= BIAS && call->present[CALIBRATION]; i++) {
		if (call->param[i].given) {
			sgpu_op_diagnose(report, NULL, call->op->params[i].name,
					 "the argument 'calibration' gives this already");
		}
	}
	call->type[OUTPUT] = call->type[INPUT];
	call->type[OUTPUT].dtype = call->type[INPUT].dtype == SGPU_F64 ? SGPU_F64 : SGPU_F32;
}

struct job {
	struct sgpu_op_call *call;
	double gain, bias;
};

SGPU_CLONES_ATTR static void affine(double *values, uint64_t count, double gain, double bias)
{
	for (uint64_t i = 0; i < count; i++) {
		values[i] = values[i] * gain + bias;
	}
}

static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	struct sgpu_op_call *call = job->call;
	double block[BLOCK];

	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t count = sgpu_ops_min(end - at, BLOCK);

		sgpu_ops_load_f64(call->type[INPUT].dtype, call->data[INPUT], at, count, block);
		affine(block, count, job->gain, job->bias);
		sgpu_ops_store_f64(call->type[OUTPUT].dtype, call->data[OUTPUT], at, count, block);
	}
	sgpu_wipe(block, sizeof(block));
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct job job = { .call = call,
			   .gain = call->param[GAIN].number,
			   .bias = call->param[BIAS].number };
	const float *calibration = call->data[CALIBRATION];

	if (calibration) {
		job.gain = (double)calibration[0];
		job.bias = (double)calibration[1];
	}
	return sgpu_ops_for(launch, sgpu_ops_count(&call->type[INPUT]), GRAIN, body, &job);
}

const struct sgpu_op sgpu_op_scale = {
	.name = "scale",
	.help = "multiply by a gain and add a bias",
	.args = {
	{ "input", false, SGPU_TYPES_ALL, 0, SGPU_RANK_MAX, "what is calibrated" },
	{ "calibration", true, SGPU_TYPE_BIT(SGPU_F32), 1, 1,
	  "{ gain, bias }, in place of the parameters" },
	{ "output", false, SGPU_TYPES_FLOAT, 0, SGPU_RANK_MAX,
	  "the same shape; f64 for an f64 input, else f32" },
	},
	.params = {
	{ "gain", SGPU_PARAM_NUMBER, false, -DBL_MAX, DBL_MAX, 1, NULL, "factor" },
	{ "bias", SGPU_PARAM_NUMBER, false, -DBL_MAX, DBL_MAX, 0, NULL,
	  "what is added to the product" },
	},
	.infer = infer,
	.cpu = cpu,
};
