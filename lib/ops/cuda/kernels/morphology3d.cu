/* SPDX-License-Identifier: Apache-2.0
 *
 * morphology3d: as cpu/morphology3d.c. Along x, a warp has its voxels and those around them as bits
 * of words; along other axes, a thread computes several neighbours together.
 */
#include "ops/cuda/kernels/volume.cuh"

enum { INPUT, OUTPUT };
enum { ERODE, LARGEST, DILATE };
enum {
	RADIUS_MAX = 16, /* below the bits of a word; its square is below 2^15 */
	SMALL_RADIUS = 8,
	FAR = 1 << 10, /* above any squared distance that matters */
	EACH = 8,      /* a thread's voxels, neighbours along the axis */
};

struct is_inside {
	__device__ uint8_t operator()(uint8_t value) const
	{
		return value != 0;
	}
};

/* Squared distances along x to the nearest target: for erosion, voxels outside the mask or beyond
 * the ends; for dilation, voxels in the mask. */
SGPU_KERNEL along_rows(const uint8_t *in, uint16_t *out, uint64_t rows, uint64_t width, int radius,
		       bool erode)
{
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;
	uint64_t words = (width + 31) / 32,
		 step = (uint64_t)gridDim.x * (blockDim.x / SGPU_CUDA_WARP);
	uint64_t item = sgpu_cuda_self() / SGPU_CUDA_WARP;

	for (; item < rows * words; item += step) {
		uint64_t word, row = sgpu_cuda_split(item, words, &word) * width,
			       x = word * 32 + lane;
		unsigned bits[3];
		uint64_t before, after;
		int left, right;

#pragma unroll
		for (int i = 0; i < 3; i++) {
			/* before the first word this wraps around */
			uint64_t at = x + (uint64_t)(i * 32) - 32;

			bits[i] = __ballot_sync(0xffffffffu,
						at < width ? (in[row + at] == 0) == erode : erode);
		}
		before = ((uint64_t)bits[1] << 32 | bits[0]) << (31 - lane);
		after = ((uint64_t)bits[2] << 32 | bits[1]) >> lane;
		left = before ? __clzll((long long)before) : FAR;
		right = after ? __ffsll((long long)after) - 1 : FAR;
		left = left < right ? left : right;
		left = left <= radius ? left : radius + 1;
		if (x < width) {
			out[row + x] = (uint16_t)(left * left);
		}
	}
}

/* Squared distances along another axis, from the earlier axes'. The last axis writes the mask. */
template <int RADIUS, typename OUT>
SGPU_KERNEL across_rows(const uint16_t *in, OUT *out, const struct sgpu_cuda_axis axis,
			uint64_t tiles, int radius, bool erode)
{
	int beyond = erode ? 0 : FAR;

	for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		uint64_t first, start, at;
		int near[EACH + 2 * RADIUS], low, high;

		if (!sgpu_cuda_axis_at(axis, tile, &first, &start)) {
			continue;
		}
		low = -(int)min(first, (uint64_t)radius);
		high = (int)min(axis.along - first, (uint64_t)(EACH + radius));
		at = start - RADIUS * axis.inner; /* may wrap around; then it is not used */
#pragma unroll
		for (int d = -RADIUS; d < EACH + RADIUS; d++) {
			near[d + RADIUS] = d >= low && d < high ? (int)in[at] : beyond;
			at += axis.inner;
		}
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			int least = near[RADIUS + i];

#pragma unroll
			for (int k = 1; k <= RADIUS; k++) {
				if (k <= radius) {
					least = min(least, min(near[RADIUS + i - k],
							       near[RADIUS + i + k]) +
								   k * k);
				}
			}
			if (i < high) {
				out[start + (uint64_t)i * axis.inner] =
					(OUT)(sizeof(OUT) == 1 ? (least <= radius * radius) != erode
							       : least);
			}
		}
	}
}

template <typename OUT>
static int across(struct sgpu_launch *launch, const uint16_t *in, OUT *out,
		  struct sgpu_cuda_axis axis, int radius, bool erode)
{
	uint64_t tiles = sgpu_cuda_axis_tiles(&axis);

	return sgpu_cuda_run(launch,
			     radius <= SMALL_RADIUS ? across_rows<SMALL_RADIUS, OUT>
						    : across_rows<RADIUS_MAX, OUT>,
			     sgpu_cuda_grid(tiles, 1), in, out, axis, tiles, radius, erode);
}

static int ball(struct sgpu_launch *launch, const struct sgpu_type *type, const uint8_t *in,
		uint8_t *out, void *scratch, int radius, bool erode)
{
	const uint64_t *shape = sgpu_ops_volume(type);
	uint64_t planes = sgpu_ops_extent(type, 0, type->rank - 2), rows = planes * shape[1],
		 words = (shape[2] + 31) / 32;
	uint16_t *first = (uint16_t *)scratch, *second = first + rows * shape[2];
	int rc;

	rc = sgpu_cuda_run(launch, along_rows,
			   sgpu_cuda_grid(rows * words, SGPU_CUDA_BLOCK / SGPU_CUDA_WARP), in,
			   first, rows, shape[2], radius, erode);
	rc = rc ? rc
		: across(launch, first, second, sgpu_cuda_axis(planes, shape[1], shape[2], EACH),
			 radius, erode);
	return rc ? rc
		  : across(launch, second, out,
			   sgpu_cuda_axis(planes / shape[0], shape[0], shape[1] * shape[2], EACH),
			   radius, erode);
}

extern "C" int sgpu_morphology3d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = sgpu_ops_count(type);
	int erode = (int)call->param[ERODE].number, dilate = (int)call->param[DILATE].number, rc;
	const uint8_t *in = (const uint8_t *)call->data[INPUT];
	uint8_t *mask = (uint8_t *)call->data[OUTPUT];

	if (erode) {
		rc = ball(launch, type, in, mask, call->scratch, erode, true);
	} else {
		rc = sgpu_cuda_map<16>(launch, count, is_inside(), mask, in);
	}
	for (uint64_t at = 0; !rc && call->param[LARGEST].number != 0 && at < count;
	     at += sgpu_ops_extent(type, type->rank - 3, type->rank)) {
		rc = sgpu_cuda_keep_largest(mask + at, sgpu_ops_volume(type), call->scratch,
					    launch);
	}
	if (!rc && dilate) {
		rc = ball(launch, type, mask, mask, call->scratch, dilate, false);
	}
	return rc;
}
