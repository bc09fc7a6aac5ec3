/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d: the matrix of weights, with a row for each output channel, times a matrix that is never
 * stored, with a column for each element of an output image and a row for each weight of a kernel.
 * Products are added in the order channel, row, column with two roundings, and padding is
 * multiplied as 0, so the bytes are those of the CPU.
 */
#include "ops/cpu/images.h"
#include "ops/cuda/kernels/convert.cuh"
#include "ops/cuda/kernels/tile.cuh"
#include "ops/cuda/kernels/volume.cuh"

enum { INPUT, WEIGHTS, BIAS, OUTPUT };
enum { ACTIVATION = 3 };

using large = sgpu_tile<float, 64, 128, 8, 4, 8>;
using small = sgpu_tile<float, 32, 128, 8, 4, 4>; /* few output channels */

struct job {
	struct sgpu_conv2d c;
	const float *input, *weights, *bias;
	float *output;
	enum sgpu_activation activation;
	/* elements of an output image, of its row, of a kernel, of the kernel's row */
	divisor plane, line, window, window_line;
};

/* The column of the matrix that this thread copies. It is the same for all elements of the
 * thread. */
struct window : sgpu_columns {
	const job &j;
	const float *image; /* NULL: no such column */
	int64_t top, left;  /* of the kernel in the image */
	uint64_t depth;

	template <bool WHOLE> __device__ __forceinline__ const float *where(int, uint64_t k) const
	{
		uint64_t rest, kx, channel, ky;
		int64_t y, x;

		if (!image || k >= depth) {
			return NULL;
		}
		channel = divide(k, j.window, &rest);
		ky = divide(rest, j.window_line, &kx);
		y = top + (int64_t)ky * j.c.dilation;
		x = left + (int64_t)kx * j.c.dilation;
		return y >= 0 && y < (int64_t)j.c.height && x >= 0 && x < (int64_t)j.c.width
			       ? image + ((channel * j.c.height + (uint64_t)y) * j.c.width +
					  (uint64_t)x)
			       : NULL;
	}
};

static __device__ window find_window(const job &j, uint64_t pixel, uint64_t depth)
{
	uint64_t rest, x, image = divide(pixel, j.plane, &rest), y = divide(rest, j.line, &x);
	bool inside = image < j.c.images;

	return { {},
		 j,
		 inside ? j.input + image * j.c.channels * j.c.height * j.c.width : NULL,
		 (int64_t)y * j.c.stride - j.c.padding,
		 (int64_t)x * j.c.stride - j.c.padding,
		 depth };
}

template <typename TILE>
static __global__ void __launch_bounds__(TILE::THREADS, TILE::RESIDENT) convolve(job j)
{
	static_assert(TILE::THREADS % TILE::COLUMNS == 0, "a thread reads one column");
	__shared__ typename TILE::buffers shared;
	uint64_t depth = j.c.channels * j.c.kernel_height * j.c.kernel_width,
		 plane = j.c.out_height * j.c.out_width;
	uint64_t pixels = j.c.images * plane, down = sgpu_ops_ceil(j.c.outputs, TILE::ROWS);
	uint64_t across = sgpu_ops_ceil(pixels, TILE::COLUMNS);

	for (uint64_t tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
		uint64_t row = tile % down * TILE::ROWS, column = tile / down * TILE::COLUMNS;
		sgpu_along_k<float> weights = { j.weights + row * depth, depth, j.c.outputs - row,
						depth };
		window from = find_window(j, column + threadIdx.x % TILE::COLUMNS, depth);
		float sums[TILE::DOWN][TILE::ACROSS];

#pragma unroll
		for (int i = 0; i < TILE::DOWN; i++) {
			uint64_t channel = row + TILE::row(i);
			float start = j.bias && channel < j.c.outputs ? j.bias[channel] : 0.0f;

#pragma unroll
			for (int k = 0; k < TILE::ACROSS; k++) {
				sums[i][k] = start;
			}
		}
		sgpu_tile_product<TILE, sgpu_step_plain>(weights, from, depth, shared, sums);
#pragma unroll
		for (int k = 0; k < TILE::ACROSS; k++) {
			uint64_t pixel = column + TILE::column(k), at,
				 image = divide(pixel, j.plane, &at);

#pragma unroll
			for (int i = 0; i < TILE::DOWN; i++) {
				uint64_t channel = row + TILE::row(i);

				if (pixel < pixels && channel < j.c.outputs) {
					j.output[(image * j.c.outputs + channel) * plane + at] =
						sgpu_cuda_activate(j.activation, sums[i][k]);
				}
			}
		}
	}
}

template <typename TILE> static int start(struct sgpu_launch *launch, const job &j)
{
	uint64_t pixels = j.c.images * j.c.out_height * j.c.out_width;
	uint64_t tiles =
		sgpu_ops_ceil(j.c.outputs, TILE::ROWS) * sgpu_ops_ceil(pixels, TILE::COLUMNS);

	return sgpu_cuda_start(launch, convolve<TILE>, sgpu_cuda_blocks(tiles), TILE::THREADS, 0,
			       j);
}

extern "C" int sgpu_conv2d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_conv2d c = sgpu_conv2d_describe(call, &call->type[OUTPUT]);
	job j = {
		c,
		(const float *)call->data[INPUT],
		(const float *)call->data[WEIGHTS],
		(const float *)call->data[BIAS],
		(float *)call->data[OUTPUT],
		(enum sgpu_activation)(int)call->param[ACTIVATION].number,
		make_divisor(c.out_height * c.out_width),
		make_divisor(c.out_width),
		make_divisor(c.kernel_height * c.kernel_width),
		make_divisor(c.kernel_width),
	};

	return j.c.outputs <= (uint64_t)small::ROWS ? start<small>(launch, j)
						    : start<large>(launch, j);
}
