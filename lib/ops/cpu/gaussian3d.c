/* SPDX-License-Identifier: Apache-2.0
 *
 * gaussian3d: smoothing of volumes by a Gaussian, axis by axis; voxels outside count as the nearest
 * one inside. Sums are made in the element type, from the centre outwards, pairs first: c*w0 +
 * (l1+r1)*w1 + ...
 */
#include "ops/cpu/math64.h"
#include "ops/ops_private.h"

enum { INPUT, OUTPUT };
enum { SIGMA, TRUNCATE };
enum {
	RADIUS_MAX = SGPU_GAUSSIAN_RADIUS_MAX,
	TILE = 512,	 /* voxels of a row that are computed at a time */
	GRAIN = 1 << 15, /* voxels in a piece of work, about */
};

static uint64_t scratch(const struct sgpu_op_call *call)
{
	return sgpu_ops_count(&call->type[INPUT]) * sgpu_dtype_size(call->type[INPUT].dtype);
}

struct job {
	uint64_t shape[3];
	uint64_t along, step; /* the axis: voxels, and elements between neighbours */
	const void *in;
	void *out;
	int radius;
	double weight[RADIUS_MAX + 1];
	float weight_f32[RADIUS_MAX + 1];
};

int sgpu_ops_gaussian_weights(double sigma, double truncate, double weights[RADIUS_MAX + 1])
{
	int radius = (int)(truncate * sigma + 0.5);
	double sum = 1.0;

	for (int k = 0; k <= radius; k++) {
		weights[k] = sgpu_math_exp(-0.5 * ((double)k / sigma) * ((double)k / sigma));
		sum += k ? 2.0 * weights[k] : 0.0;
	}
	for (int k = 0; k <= radius; k++) {
		weights[k] /= sum;
	}
	return radius;
}

#define REAL float
#define NAME(name) name##_f32
#define WEIGHT(job) (job)->weight_f32
#include "ops/cpu/gaussian3d_passes.h"
#undef REAL
#undef NAME
#undef WEIGHT
#define REAL double
#define NAME(name) name##_f64
#define WEIGHT(job) (job)->weight
#include "ops/cpu/gaussian3d_passes.h"

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const uint64_t *shape = sgpu_ops_volume(&call->type[INPUT]);
	bool wide = call->type[INPUT].dtype == SGPU_F64;
	uint64_t rows = sgpu_ops_extent(&call->type[INPUT], 0, call->type[INPUT].rank - 1),
		 grain = sgpu_ops_grain(shape[2], GRAIN);
	struct job job = { .shape = { shape[0], shape[1], shape[2] },
			   .in = call->data[INPUT],
			   .out = call->data[OUTPUT] };
	int rc;

	job.radius = sgpu_ops_gaussian_weights(call->param[SIGMA].number,
					       call->param[TRUNCATE].number, job.weight);
	for (int k = 0; k <= job.radius; k++) {
		job.weight_f32[k] = (float)job.weight[k];
	}
	rc = sgpu_ops_for(launch, rows, grain, wide ? along_rows_f64 : along_rows_f32, &job);
	for (int axis = 1; axis >= 0 && !rc; axis--) {
		job.in = axis ? call->data[OUTPUT] : call->scratch;
		job.out = axis ? call->scratch : call->data[OUTPUT];
		job.along = shape[axis];
		job.step = axis ? shape[2] : shape[1] * shape[2];
		rc = sgpu_ops_for(launch, rows, grain, wide ? across_rows_f64 : across_rows_f32,
				  &job);
	}
	return rc;
}

const struct sgpu_op sgpu_op_gaussian3d = {
	.name = "gaussian3d",
	.help = "smoothing of volumes by a Gaussian",
	.args = {
	{ "input", false, SGPU_TYPES_FLOAT, 3, 4, "volume, or a series of them" },
	{ "output", false, SGPU_TYPES_FLOAT, 3, 4, "smoothed, same type" },
	},
	.params = {
	{ "sigma", SGPU_PARAM_NUMBER, true, 0.01, SGPU_GAUSSIAN_SIGMA_MAX, 1.0, NULL,
	  "standard deviation in voxels" },
	{ "truncate", SGPU_PARAM_NUMBER, false, 0.5, SGPU_GAUSSIAN_TRUNCATE_MAX, 4.0, NULL,
	  "standard deviations after which the kernel ends" },
	},
	.infer = sgpu_ops_infer_same,
	.scratch = scratch,
	.cpu = cpu,
};
