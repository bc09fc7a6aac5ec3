/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d and conv2d_gradient: the products of cpu/images.h, added in the order of cpu/conv2d.c with
 * two roundings; factors outside are multiplied as 0. So the bytes are the CPU's.
 */
#include "ops/cpu/images.h"
#include "ops/cuda/kernels/convert.cuh"
#include "ops/cuda/kernels/tile.cuh"
#include "ops/cuda/kernels/volume.cuh"

enum { OUTPUT_INPUT = 3, OUTPUT_WEIGHTS, OUTPUT_BIAS };

using large = sgpu_tile<float, 64, 128, 8, 4, 8>;
using small = sgpu_tile<float, 32, 128, 8, 4, 4>; /* few rows */

/* The factors of the bias. */
static __device__ const float one[1] = { 1.0f };

struct job {
	struct sgpu_conv2d_product p;
	divisor window, line;
};

/* The left factor's rows from a tile's first one on. */
struct left_factor {
	static constexpr bool along_k = true;
	const job &j;
	const float *data;
	uint64_t extent, depth;

	__device__ __forceinline__ bool inside(int rows) const
	{
		return extent >= (uint64_t)rows;
	}
	template <bool WHOLE>
	__device__ __forceinline__ const float *where(int row, uint64_t k) const
	{
		uint64_t at, plane = divide(k, j.window, &at);

		return WHOLE || ((uint64_t)row < extent && k < depth)
			       ? data + (plane * j.p.left_plane + (uint64_t)row * j.p.left_row + at)
			       : NULL;
	}
};

/* The right factor's column that this thread copies. */
struct right_factor : sgpu_columns {
	const job &j;
	struct sgpu_conv2d_place place;
	bool exists;
	uint64_t depth;

	template <bool WHOLE> __device__ __forceinline__ const float *where(int, uint64_t k) const
	{
		uint64_t at, x, plane, y;

		if (!exists || k >= depth || !place.plane) {
			return exists && k < depth ? one : NULL;
		}
		plane = divide(k, j.window, &at);
		y = divide(at, j.line, &x);
		return sgpu_conv2d_factor(&j.p, &place, plane, y, x);
	}
};

template <typename TILE>
static __global__ void __launch_bounds__(TILE::THREADS, TILE::RESIDENT)
	multiply(const __grid_constant__ job j)
{
	static_assert(TILE::THREADS % TILE::COLUMNS == 0, "a thread reads one column");
	__shared__ typename TILE::buffers shared;
	const struct sgpu_conv2d_product &p = j.p;
	uint64_t down = sgpu_ops_ceil(p.rows, TILE::ROWS),
		 across = sgpu_ops_ceil(p.columns, TILE::COLUMNS);

	for (uint64_t at = blockIdx.x; at < p.parts * down * across; at += gridDim.x) {
		uint64_t part = at / (down * across), row = at % down * TILE::ROWS,
			 column = at / down % across * TILE::COLUMNS;
		uint64_t own = column + threadIdx.x % TILE::COLUMNS;
		uint64_t left_depth = p.depth - part * p.part_depth,
			 depth = sgpu_ops_min(left_depth, p.part_depth);
		left_factor left = { j, p.left + part * p.left_part + row * p.left_row,
				     p.rows - row, depth };
		right_factor right = {
			{}, j, sgpu_conv2d_place(&p, part, own), own < p.columns, depth
		};
		float sums[TILE::DOWN][TILE::ACROSS];

#pragma unroll
		for (int i = 0; i < TILE::DOWN; i++) {
			uint64_t y = row + TILE::row(i);
			float start = p.bias && y < p.rows ? p.bias[y] : 0.0f;

#pragma unroll
			for (int k = 0; k < TILE::ACROSS; k++) {
				sums[i][k] = start;
			}
		}
		sgpu_tile_product<TILE, sgpu_step_plain>(left, right, depth, shared, sums);
#pragma unroll
		for (int k = 0; k < TILE::ACROSS; k++) {
			uint64_t x = column + TILE::column(k), rest,
				 run = sgpu_cuda_split(x, p.run, &rest);
			float *to = p.to + part * p.to_part + run * p.to_run + rest;

#pragma unroll
			for (int i = 0; i < TILE::DOWN; i++) {
				uint64_t y = row + TILE::row(i);

				if (x < p.columns && y < p.rows) {
					to[y * p.to_row] = sgpu_cuda_activate(
						(enum sgpu_activation)p.activation, sums[i][k]);
				}
			}
		}
	}
}

template <typename TILE> static int start_tiles(struct sgpu_launch *launch, const job &j)
{
	uint64_t tiles = j.p.parts * sgpu_ops_ceil(j.p.rows, TILE::ROWS) *
			 sgpu_ops_ceil(j.p.columns, TILE::COLUMNS);

	return sgpu_cuda_start(launch, multiply<TILE>, sgpu_cuda_blocks(tiles), TILE::THREADS, 0,
			       j);
}

static int start(struct sgpu_launch *launch, const struct sgpu_conv2d_product &p)
{
	const job j = { p, make_divisor(p.window), make_divisor(p.line) };

	return p.rows <= (uint64_t)small::ROWS ? start_tiles<small>(launch, j)
					       : start_tiles<large>(launch, j);
}

extern "C" int sgpu_conv2d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return start(launch, sgpu_conv2d_forward(call));
}

SGPU_KERNEL finish(struct sgpu_conv2d_product p, float *weights, float *bias)
{
	for (uint64_t i = sgpu_cuda_self(); i < p.to_part; i += sgpu_cuda_step()) {
		sgpu_conv2d_add_parts(&p, i, weights, bias);
	}
}

extern "C" int sgpu_conv2d_gradient_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_conv2d_product p = sgpu_conv2d_by_weights(call);
	float *weights = sgpu_conv2d_output(call, OUTPUT_WEIGHTS),
	      *bias = sgpu_conv2d_output(call, OUTPUT_BIAS);
	int rc = 0;

	if (sgpu_conv2d_output(call, OUTPUT_INPUT)) {
		rc = start(launch, sgpu_conv2d_by_input(call));
	}
	if (rc || (!weights && !bias)) {
		return rc;
	}
	rc = start(launch, p);
	return rc ? rc
		  : sgpu_cuda_run(launch, finish, sgpu_cuda_grid(p.to_part, SGPU_CUDA_BLOCK), p,
				  weights, bias);
}
