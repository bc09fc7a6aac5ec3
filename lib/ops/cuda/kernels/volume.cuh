/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by operations on images and volumes.
 */
#ifndef SGPU_OPS_CUDA_KERNELS_VOLUME_CUH
#define SGPU_OPS_CUDA_KERNELS_VOLUME_CUH

#include "ops/cuda/kernels/common.cuh"

/* number / by, with the remainder in *rest. Usually 32 bits are enough, and faster. */
SGPU_DEVICE uint64_t sgpu_cuda_split(uint64_t number, uint64_t by, uint64_t *rest)
{
	uint64_t quotient = (number | by) >> 32 ? number / by : (uint32_t)number / (uint32_t)by;

	*rest = number - quotient * by;
	return quotient;
}

/* Repeated division by one number: n / by = n * factor >> shift, exact for n and `by` below
 * 2^31. */
struct divisor {
	uint64_t by;
	uint32_t factor, shift; /* factor 0: `by` is too large */
};

static inline divisor make_divisor(uint64_t by)
{
	divisor made = { by, 0, 31 };

	if (by == 0 || by >> 31) {
		return made;
	}
	while ((uint64_t)1 << (made.shift - 31) < by) {
		made.shift++;
	}
	/* by <= 2^(shift - 31) < 2 by, so the factor is in [2^31, 2^32 - 1], 2^31 if `by` is 1 */
	made.factor = (uint32_t)((((uint64_t)1 << made.shift) - 1) / by + 1);
	return made;
}

SGPU_DEVICE uint64_t divide(uint64_t n, const divisor &d, uint64_t *rest)
{
	uint64_t quotient =
		d.factor && n >> 31 == 0 ? (uint64_t)(uint32_t)n * d.factor >> d.shift : n / d.by;

	*rest = n - quotient * d.by;
	return quotient;
}

/* A volume as [outer, along, inner], for work along its middle axis, on which a thread computes
 * `each` neighbours. A block has `lanes` adjacent threads in the inner extent, and groups along the
 * axis, which share a multiprocessor's cache. */
struct sgpu_cuda_axis {
	uint64_t outer, along, inner;
	uint64_t groups, group_tiles, inner_tiles;
	unsigned each, lanes;
};

static inline struct sgpu_cuda_axis sgpu_cuda_axis(uint64_t outer, uint64_t along, uint64_t inner,
						   unsigned each)
{
	struct sgpu_cuda_axis axis = { outer, along, inner, sgpu_ops_ceil(along, each),
				       0,     0,     each,  SGPU_CUDA_WARP };
	unsigned rows;

	while (axis.lanes / 2 >= inner) {
		axis.lanes /= 2;
	}
	rows = SGPU_CUDA_BLOCK / axis.lanes;
	axis.group_tiles = sgpu_ops_ceil(axis.groups, rows);
	axis.inner_tiles = (inner + axis.lanes - 1) / axis.lanes;
	return axis;
}

static inline uint64_t sgpu_cuda_axis_tiles(const struct sgpu_cuda_axis *axis)
{
	return axis->outer * axis->group_tiles * axis->inner_tiles;
}

/* Finds where a thread begins in a tile; returns false if it has no voxel there. */
SGPU_DEVICE bool sgpu_cuda_axis_at(const struct sgpu_cuda_axis &axis, uint64_t tile,
				   uint64_t *first, uint64_t *start)
{
	uint64_t across, group, x, plane;

	plane = sgpu_cuda_split(sgpu_cuda_split(tile, axis.inner_tiles, &across), axis.group_tiles,
				&group);
	group = group * (SGPU_CUDA_BLOCK / axis.lanes) + threadIdx.x / axis.lanes;
	x = across * axis.lanes + threadIdx.x % axis.lanes;
	*first = group * axis.each;
	*start = (plane * axis.along + *first) * axis.inner + x;
	return group < axis.groups && x < axis.inner;
}

/* As sgpu_ops_keep_largest, with the same scratch memory. */
int sgpu_cuda_keep_largest(uint8_t *mask, const uint64_t shape[3], void *scratch,
			   struct sgpu_launch *launch);

#endif
