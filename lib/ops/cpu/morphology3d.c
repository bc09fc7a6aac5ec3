/* SPDX-License-Identifier: Apache-2.0
 *
 * morphology3d: erosion by a ball, largest component, dilation by a ball, in this order.
 *
 * Erosion and dilation compare the squared distance to the nearest voxel of the other kind with a
 * bound. Distances up to the radius are found axis by axis: along x by running over the row, along
 * y and z as the least of distance + offset squared.
 */
#include <string.h>

#include "ops/ops_private.h"

enum { INPUT, OUTPUT };
enum { ERODE, LARGEST, DILATE };
enum {
	RADIUS_MAX = 16,
	FAR = 1 << 10, /* above any squared distance that matters; 2 * FAR fits an int16_t */
	TILE = 1024,
	GRAIN = 1 << 16, /* voxels in a piece of work, about */
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = sgpu_ops_extent(type, type->rank - 3, type->rank);

	if (count >= UINT32_MAX) {
		sgpu_op_diagnose(report, "input", NULL,
				 "has %llu voxels in a volume; the limit is %lu",
				 (unsigned long long)count, (unsigned long)UINT32_MAX - 1);
	}
	call->type[OUTPUT] = call->type[INPUT];
}

/* For the distances of all voxels twice, or for a volume's components. */
static uint64_t scratch(const struct sgpu_op_call *call)
{
	uint64_t balls = 2 * sizeof(int16_t) * sgpu_ops_count(&call->type[INPUT]);
	uint64_t components = sgpu_ops_keep_largest_scratch(sgpu_ops_volume(&call->type[INPUT]));

	return call->param[LARGEST].number != 0 && components > balls ? components : balls;
}

struct job {
	const uint64_t *shape; /* of a volume */
	uint64_t rows;	       /* of all volumes */
	const uint8_t *in;
	uint8_t *mask;
	int16_t *first, *second; /* squared distances along x; along x and y */
	int radius;
	bool erode;	      /* measure distances to voxels outside, else to those inside */
	bool last;	      /* the last axis, which decides the mask */
	uint64_t along, step; /* the axis: voxels, and elements between neighbours */
};

static void normalise_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;

	for (uint64_t i = begin; i < end; i++) {
		job->mask[i] = job->in[i] != 0;
	}
}

/* Squared distances along x. Voxels beyond the ends count as outside the mask. */
static void row_distances(const struct job *job, const uint8_t *in, int16_t *out)
{
	uint64_t width = job->shape[2];
	int limit = job->radius + 1;
	int distance = job->erode ? 0 : limit;

	for (uint64_t x = 0; x < width; x++) {
		distance = (in[x] == 0) == job->erode ? 0 : distance < limit ? distance + 1 : limit;
		out[x] = (int16_t)distance;
	}
	distance = job->erode ? 0 : limit;
	for (uint64_t x = width; x-- > 0;) {
		distance = out[x] == 0 ? 0 : distance < limit ? distance + 1 : limit;
		distance = distance < out[x] ? distance : out[x];
		out[x] = (int16_t)(distance * distance);
	}
}

static void rows_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;

	for (uint64_t row = begin; row < end; row++) {
		row_distances(job, job->in + row * job->shape[2], job->first + row * job->shape[2]);
	}
}

SGPU_INLINE void nearer(int16_t *restrict least, const int16_t *in, int add, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		int16_t candidate = (int16_t)(in[i] + add);

		least[i] = candidate < least[i] ? candidate : least[i];
	}
}

/* Squared distances along another axis, from the earlier axes'. `at`: the row's position on it. */
SGPU_CLONES_ATTR static void across(const struct job *job, const int16_t *in, uint64_t at,
				    uint64_t count, int16_t *restrict least)
{
	memcpy(least, in, count * sizeof(*least));
	for (uint64_t k = 1; k <= (uint64_t)job->radius; k++) {
		int add = (int)(k * k);

		if (at >= k) {
			nearer(least, in - k * job->step, add, count);
		}
		if (job->along - 1 - at >= k) {
			nearer(least, in + k * job->step, add, count);
		}
	}
	if (job->erode) {
		uint64_t edge = sgpu_ops_min(at, job->along - 1 - at) + 1;
		int16_t bound = edge <= RADIUS_MAX ? (int16_t)(edge * edge) : FAR;

		for (uint64_t i = 0; i < count; i++) {
			least[i] = least[i] < bound ? least[i] : bound;
		}
	}
}

SGPU_CLONES_ATTR static void decide(const struct job *job, const int16_t *distances, uint64_t count,
				    uint8_t *mask)
{
	int reach = job->radius * job->radius;

	for (uint64_t i = 0; i < count; i++) {
		mask[i] = (distances[i] <= reach) != job->erode;
	}
}

static void across_body(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t width = job->shape[2];
	int16_t least[TILE];

	for (uint64_t row = begin; row < end; row++) {
		uint64_t at = row * width / job->step % job->along;

		for (uint64_t x = 0; x < width; x += TILE) {
			uint64_t count = sgpu_ops_min(width - x, TILE), place = row * width + x;

			if (job->last) {
				across(job, job->second + place, at, count, least);
				decide(job, least, count, job->mask + place);
			} else {
				across(job, job->first + place, at, count, job->second + place);
			}
		}
	}
	sgpu_wipe(least, sizeof(least));
}

static int ball(struct job *job, int radius, bool erode, struct sgpu_launch *launch)
{
	uint64_t grain = GRAIN / (job->shape[2] + 1) + 1;
	int rc;

	job->radius = radius;
	job->erode = erode;
	rc = sgpu_ops_for(launch, job->rows, grain, rows_body, job);
	for (int axis = 1; axis >= 0 && !rc; axis--) {
		job->last = axis == 0;
		job->along = job->shape[axis];
		job->step = job->last ? job->shape[1] * job->shape[2] : job->shape[2];
		rc = sgpu_ops_for(launch, job->rows, grain, across_body, job);
	}
	return rc;
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = sgpu_ops_count(type);
	int erode = (int)call->param[ERODE].number, dilate = (int)call->param[DILATE].number;
	struct job job = { .shape = sgpu_ops_volume(type),
			   .rows = sgpu_ops_extent(type, 0, type->rank - 1),
			   .in = call->data[INPUT],
			   .mask = call->data[OUTPUT],
			   .first = call->scratch };
	int rc;

	job.second = job.first + count;
	if (erode) {
		rc = ball(&job, erode, true, launch);
	} else {
		rc = sgpu_ops_for(launch, count, GRAIN, normalise_body, &job);
	}
	for (uint64_t at = 0; !rc && call->param[LARGEST].number != 0 && at < count;
	     at += sgpu_ops_extent(type, type->rank - 3, type->rank)) {
		rc = sgpu_ops_keep_largest(job.mask + at, job.shape, call->scratch, launch);
	}
	if (!rc && dilate) {
		job.in = job.mask;
		rc = ball(&job, dilate, false, launch);
	}
	return rc;
}

const struct sgpu_op sgpu_op_morphology3d = {
	.name = "morphology3d",
	.help = "erosion, largest component and dilation of a mask",
	.args = {
	{ "input", false, SGPU_TYPE_BIT(SGPU_U8), 3, 4,
	  "mask, or a series of them; every value but 0 is inside" },
	{ "output", false, SGPU_TYPE_BIT(SGPU_U8), 3, 4, "mask of 0 and 1" },
	},
	.params = {
	{ "erode", SGPU_PARAM_INTEGER, false, 0, RADIUS_MAX, 0, NULL,
	  "radius of the erosion, in voxels; first step" },
	{ "largest", SGPU_PARAM_BOOLEAN, false, 0, 1, 0, NULL,
	  "keep only the largest component, by faces; second step" },
	{ "dilate", SGPU_PARAM_INTEGER, false, 0, RADIUS_MAX, 0, NULL,
	  "radius of the dilation, in voxels; last step" },
	},
	.infer = infer,
	.scratch = scratch,
	.cpu = cpu,
};
