/* SPDX-License-Identifier: Apache-2.0
 *
 * gaussian3d: as cpu/gaussian3d.c, along x, y and z, sums in the same order. A thread computes
 * several neighbours along the axis, so that most voxels that it reads serve several sums. Along x,
 * rows pass through shared memory to coalesce accesses to global memory; along other axes, those of
 * adjacent threads coalesce anyway.
 */
#include "ops/cuda/kernels/volume.cuh"

enum { INPUT, OUTPUT };
enum { SIGMA, TRUNCATE };
enum {
	EACH = 8,			  /* a thread's voxels, neighbours along the axis */
	ROW_TILE = EACH * SGPU_CUDA_WARP, /* a warp's voxels along x */
	SHARED_MOST = 48 * 1024,
};

template <typename REAL> struct weights {
	int radius;
	REAL at[SGPU_GAUSSIAN_RADIUS_MAX + 1];
};

/* Computes the sums of EACH neighbours, with two windows that move away from the centre. at(d), the
 * voxel at distance d from the first, is called for d = 0, 1, ... and for d = -1, -2, ... */
template <typename REAL, typename At>
SGPU_DEVICE void smooth(const weights<REAL> &w, At at, REAL sum[EACH])
{
	REAL left[EACH], right[EACH];

#pragma unroll
	for (int i = 0; i < EACH; i++) {
		left[i] = right[i] = at(i);
		sum[i] = left[i] * w.at[0];
	}
#pragma unroll 8
	for (int k = 1; k <= w.radius; k++) {
#pragma unroll
		for (int i = 0; i + 1 < EACH; i++) {
			left[EACH - 1 - i] = left[EACH - 2 - i];
			right[i] = right[i + 1];
		}
		left[0] = at(-k);
		right[EACH - 1] = at(EACH - 1 + k);
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			sum[i] += (left[i] + right[i]) * w.at[k];
		}
	}
}

/* Leaves a word unused per row of banks: threads with voxels EACH apart use different banks. */
template <typename REAL> static __host__ __device__ __forceinline__ unsigned place(unsigned i)
{
	return i + i / (unsigned)(128 / sizeof(REAL));
}

/* Words for a tile, its neighbourhood, and what the last thread reads beyond it. */
template <typename REAL> static __host__ __device__ __forceinline__ unsigned row_places(int radius)
{
	return place<REAL>(ROW_TILE + 2 * (unsigned)radius + EACH) + 1;
}

/* A warp smooths a tile of a row. Beyond a border, its voxel is repeated. */
template <typename REAL>
SGPU_KERNEL along_rows(const REAL *in, REAL *out, uint64_t rows, uint64_t width,
		       const __grid_constant__ weights<REAL> w)
{
	extern __shared__ __align__(16) unsigned char memory[];
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP, warp = threadIdx.x / SGPU_CUDA_WARP,
		 radius = (unsigned)w.radius;
	unsigned warps = blockDim.x / SGPU_CUDA_WARP;
	REAL *padded = (REAL *)memory + warp * row_places<REAL>(w.radius);
	uint64_t tiles = sgpu_ops_ceil(width, ROW_TILE), step = (uint64_t)gridDim.x * warps;

	for (uint64_t item = (uint64_t)blockIdx.x * warps + warp; item < rows * tiles;
	     item += step) {
		const REAL *row = in + item / tiles * width;
		uint64_t begin = item % tiles * ROW_TILE;
		unsigned count = (unsigned)sgpu_ops_min(width - begin, ROW_TILE);
		REAL sum[EACH];

		for (unsigned i = lane; i < count + 2 * radius; i += SGPU_CUDA_WARP) {
			uint64_t x = begin + i < radius ? 0 : begin + i - radius;

			padded[place<REAL>(i)] = row[x < width ? x : width - 1];
		}
		__syncwarp();
		if (lane * EACH < count) {
			smooth(
				w,
				[&](int d) {
					return padded[place<REAL>(lane * EACH + radius +
								  (unsigned)d)];
				},
				sum); /* sums beyond the tile's end do not reach out */
		}
		__syncwarp();
#pragma unroll
		for (unsigned i = 0; i < EACH; i++) {
			if (lane * EACH < count) {
				padded[place<REAL>(lane * EACH + i)] = sum[i];
			}
		}
		__syncwarp();
		for (unsigned i = lane; i < count; i += SGPU_CUDA_WARP) {
			out[item / tiles * width + begin + i] = padded[place<REAL>(i)];
		}
		__syncwarp();
	}
}

/* The voxels along an axis, both ways from the first one. Beyond an end, its voxel is repeated. */
template <typename REAL> struct walk {
	const REAL *up, *down;
	uint64_t step;
	int top, bottom; /* the distances of the ends */

	__device__ __forceinline__ walk(const REAL *first, uint64_t at, uint64_t along,
					uint64_t one)
	    : up(first), down(first), step(one)
	{
		const uint64_t far = SGPU_GAUSSIAN_RADIUS_MAX + EACH;

		top = (int)sgpu_ops_min(along - 1 - at, far);
		bottom = -(int)sgpu_ops_min(at, far);
	}

	__device__ __forceinline__ REAL operator()(int d)
	{
		REAL voxel;

		if (d < 0) {
			down -= d >= bottom ? step : 0;
			return *down;
		}
		voxel = *up;
		up += d < top ? step : 0;
		return voxel;
	}
};

template <typename REAL>
SGPU_KERNEL across_rows(const REAL *in, REAL *out, const struct sgpu_cuda_axis axis, uint64_t tiles,
			const __grid_constant__ weights<REAL> w)
{
	for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		uint64_t first, start;
		REAL sum[EACH], *to;

		if (!sgpu_cuda_axis_at(axis, tile, &first, &start)) {
			continue;
		}
		smooth(w, walk<REAL>(in + start, first, axis.along, axis.inner), sum);
		to = out + start;
#pragma unroll
		for (unsigned i = 0; i < EACH; i++) {
			if (first + i < axis.along) {
				*to = sum[i];
				to += axis.inner;
			}
		}
	}
}

template <typename REAL> static int start(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	const uint64_t *shape = sgpu_ops_volume(type);
	uint64_t planes = sgpu_ops_extent(type, 0, type->rank - 2), rows = planes * shape[1];
	REAL *out = (REAL *)call->data[OUTPUT], *between = (REAL *)call->scratch;
	unsigned warps = SGPU_CUDA_BLOCK / SGPU_CUDA_WARP;
	double wide[SGPU_GAUSSIAN_RADIUS_MAX + 1];
	weights<REAL> w = {};
	size_t shared;
	int rc;

	w.radius = sgpu_ops_gaussian_weights(call->param[SIGMA].number,
					     call->param[TRUNCATE].number, wide);
	for (int k = 0; k <= w.radius; k++) {
		w.at[k] = (REAL)wide[k];
	}
	shared = row_places<REAL>(w.radius) * sizeof(REAL);
	while (warps > 1 && warps * shared > SHARED_MOST) {
		warps /= 2;
	}
	rc = sgpu_cuda_start(launch, along_rows<REAL>,
			     sgpu_cuda_grid(rows * sgpu_ops_ceil(shape[2], ROW_TILE), warps),
			     warps * SGPU_CUDA_WARP, warps * shared, call->data[INPUT], out, rows,
			     shape[2], w);
	for (int along = 1; along >= 0 && !rc; along--) {
		const struct sgpu_cuda_axis axis =
			sgpu_cuda_axis(along ? planes : planes / shape[0], shape[along],
				       along ? shape[2] : shape[1] * shape[2], EACH);
		uint64_t tiles = sgpu_cuda_axis_tiles(&axis);

		rc = sgpu_cuda_run(launch, across_rows<REAL>, sgpu_cuda_grid(tiles, 1),
				   along ? out : between, along ? between : out, axis, tiles, w);
	}
	return rc;
}

extern "C" int sgpu_gaussian3d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return SGPU_CUDA_FLOATS(call->type[INPUT].dtype, T, start<T>(call, launch));
}
