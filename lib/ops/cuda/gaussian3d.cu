/* SPDX-License-Identifier: Apache-2.0
 *
 * gaussian3d: as cpu/gaussian3d.c, along x, y and z, sums in the same order. A thread makes several neighbours along
 * the axis, so that most of what it reads serves more than one. Along x, rows pass through shared memory to keep
 * accesses to the other memory adjacent; along the other axes threads side by side do that by themselves.
 */
#include "ops/cpu/gaussian3d.h"
#include "ops/cuda/volume.cuh"

enum { INPUT, OUTPUT };
enum { SIGMA, TRUNCATE };
enum {
	EACH = 8,                            /* voxels of a thread, neighbours along the axis */
	SMALL_RADIUS = 8,                    /* up to here all that a thread reads fits its registers */
	ROW_TILE = EACH * SGPU_CUDA_WARP,    /* voxels of a warp along x */
	SHARED_MOST = 48 * 1024,
};

template <typename REAL>
struct weights {
	int radius;
	REAL at[SGPU_GAUSSIAN_RADIUS_MAX + 1];
};

/* The sums of neighbours 0 to EACH - 1; at(d) is the voxel at distance d from the first of them. */
template <typename REAL, typename At>
static __device__ __forceinline__ void smooth_small(const weights<REAL> &w, At at, REAL sum[EACH])
{
	REAL in[EACH + 2 * SMALL_RADIUS];

#pragma unroll
	for (int d = -SMALL_RADIUS; d < EACH + SMALL_RADIUS; d++) {
		in[d + SMALL_RADIUS] = d >= -w.radius && d < EACH + w.radius ? at(d) : (REAL)0;
	}
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		sum[i] = in[SMALL_RADIUS + i] * w.at[0];
	}
#pragma unroll
	for (int k = 1; k <= SMALL_RADIUS; k++) {
		if (k <= w.radius) {
#pragma unroll
			for (int i = 0; i < EACH; i++) {
				sum[i] += (in[SMALL_RADIUS + i - k] + in[SMALL_RADIUS + i + k]) * w.at[k];
			}
		}
	}
}

/* The same for any radius: two windows that move away from the centre. */
template <typename REAL, typename At>
static __device__ __forceinline__ void smooth_any(const weights<REAL> &w, At at, REAL sum[EACH])
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

template <typename REAL, bool SMALL, typename At>
static __device__ __forceinline__ void smooth(const weights<REAL> &w, At at, REAL sum[EACH])
{
	if (SMALL) {
		smooth_small(w, at, sum);
	} else {
		smooth_any(w, at, sum);
	}
}

/* One unused place after as many as there are banks: threads that are EACH places apart meet different banks. */
template <typename REAL>
static __host__ __device__ __forceinline__ unsigned place(unsigned i)
{
	return i + i / (unsigned)(128 / sizeof(REAL));
}

/* A warp takes a tile of a row with its neighbourhood, borders repeated. */
template <typename REAL, bool SMALL>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)
along_rows(const REAL *in, REAL *out, uint64_t rows, uint64_t width, const __grid_constant__ weights<REAL> w)
{
	extern __shared__ __align__(16) unsigned char memory[];
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP, warp = threadIdx.x / SGPU_CUDA_WARP, radius = (unsigned)w.radius;
	unsigned warps = blockDim.x / SGPU_CUDA_WARP;
	REAL *padded = (REAL *)memory + warp * place<REAL>(ROW_TILE + 2 * radius + 1);
	uint64_t tiles = (width + ROW_TILE - 1) / ROW_TILE, step = (uint64_t)gridDim.x * warps;

	for (uint64_t item = (uint64_t)blockIdx.x * warps + warp; item < rows * tiles; item += step) {
		const REAL *row = in + item / tiles * width;
		uint64_t begin = item % tiles * ROW_TILE;
		unsigned count = (unsigned)(width - begin < ROW_TILE ? width - begin : ROW_TILE);
		REAL sum[EACH];

		for (unsigned i = lane; i < count + 2 * radius; i += SGPU_CUDA_WARP) {
			uint64_t x = begin + i < radius ? 0 : begin + i - radius;

			padded[place<REAL>(i)] = row[x < width ? x : width - 1];
		}
		__syncwarp();
		if (lane * EACH < count) {
			smooth<REAL, SMALL>(w, [&](int d) {
				unsigned i = lane * EACH + radius + (unsigned)d, last = count + 2 * radius - 1;

				return padded[place<REAL>(i < last ? i : last)]; /* beyond are sums that nobody wants */
			}, sum);
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

/* The volume as [outer, along, inner]; threads side by side are neighbours in the inner extent. */
template <typename REAL, bool SMALL>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)
across_rows(const REAL *in, REAL *out, uint64_t outer, uint64_t along, uint64_t inner,
	    const __grid_constant__ weights<REAL> w)
{
	uint64_t groups = (along + EACH - 1) / EACH, items = outer * groups * inner;
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t item = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; item < items; item += step) {
		uint64_t x, group, first;
		uint64_t plane = sgpu_cuda_split(sgpu_cuda_split(item, inner, &x), groups, &group) * along * inner;
		int64_t last = (int64_t)along - 1;
		REAL sum[EACH];

		plane += x;
		first = group * EACH;
		smooth<REAL, SMALL>(w, [&](int d) {
			int64_t at = (int64_t)first + d;

			at = at < 0 ? 0 : at < last ? at : last;
			return in[plane + (uint64_t)at * inner];
		}, sum);
#pragma unroll
		for (unsigned i = 0; i < EACH; i++) {
			if (first + i < along) {
				out[plane + (first + i) * inner] = sum[i];
			}
		}
	}
}

template <typename REAL, bool SMALL>
static int passes(struct sgpu_op_call *call, struct sgpu_launch *launch, const weights<REAL> &w)
{
	const uint64_t *shape = call->type[INPUT].shape;
	uint64_t rows = shape[0] * shape[1], tiles = (shape[2] + ROW_TILE - 1) / ROW_TILE;
	size_t shared = place<REAL>(ROW_TILE + 2 * (unsigned)w.radius + 1) * sizeof(REAL);
	unsigned warps = SGPU_CUDA_BLOCK / SGPU_CUDA_WARP;
	REAL *out = (REAL *)call->data[OUTPUT], *between = (REAL *)call->scratch;
	int result;

	while (warps > 1 && warps * shared > SHARED_MOST) {
		warps /= 2;
	}
	result = sgpu_cuda_start(launch, "gaussian3d", along_rows<REAL, SMALL>,
				 dim3(sgpu_cuda_grid(rows * tiles, warps)), dim3(warps * SGPU_CUDA_WARP),
				 warps * shared, (const REAL *)call->data[INPUT], out, rows, shape[2], w);
	if (result) {
		return result;
	}
	result = sgpu_cuda_start(launch, "gaussian3d", across_rows<REAL, SMALL>,
				 dim3(sgpu_cuda_grid(rows * shape[2] / EACH + shape[0] * shape[2], SGPU_CUDA_BLOCK)),
				 dim3(SGPU_CUDA_BLOCK), 0, (const REAL *)out, between, shape[0], shape[1], shape[2], w);
	if (result) {
		return result;
	}
	return sgpu_cuda_start(launch, "gaussian3d", across_rows<REAL, SMALL>,
			       dim3(sgpu_cuda_grid(rows * shape[2] / EACH + shape[1] * shape[2], SGPU_CUDA_BLOCK)),
			       dim3(SGPU_CUDA_BLOCK), 0, (const REAL *)between, out, (uint64_t)1, shape[0],
			       shape[1] * shape[2], w);
}

template <typename REAL>
static int start(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	double wide[SGPU_GAUSSIAN_RADIUS_MAX + 1];
	weights<REAL> w = {};

	w.radius = sgpu_ops_gaussian_weights(call->param[SIGMA].number, call->param[TRUNCATE].number, wide);
	for (int k = 0; k <= w.radius; k++) {
		w.at[k] = (REAL)wide[k];
	}
	return w.radius <= SMALL_RADIUS ? passes<REAL, true>(call, launch, w) : passes<REAL, false>(call, launch, w);
}

extern "C" int sgpu_gaussian3d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	int result = 0;

	if (sgpu_ops_count(&call->type[INPUT]) == 0) {
		return 0;
	}
	SGPU_CUDA_FLOATS(call->type[INPUT].dtype, T, result = start<T>(call, launch));
	return result;
}
