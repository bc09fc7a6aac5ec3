/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_gradient: two matrix products, of each of which one factor is never stored. Products are
 * added in the order of cpu/conv2d.c with two roundings, and elements outside count as 0, so the
 * bytes are the same.
 */
#include "ops/cpu/images.h"
#include "ops/cuda/kernels/tile.cuh"
#include "ops/cuda/kernels/volume.cuh"

enum { INPUT, WEIGHTS, GRADIENT, OUTPUT_INPUT, OUTPUT_WEIGHTS, OUTPUT_BIAS };

using tile = sgpu_tile<float, 32, 128, 8, 4, 4>;
static_assert(tile::THREADS % tile::COLUMNS == 0, "a thread reads one column");

/* The factor of the bias. */
static __device__ const float one[1] = { 1.0f };

struct job {
	struct sgpu_conv2d c;
	const float *input, *weights, *gradient;
	float *output_input, *output_weights, *output_bias, *parts;
	uint64_t part_images, part_count, columns;
	/* elements of an output image, of its row, of a kernel, of the kernel's row */
	divisor plane, line, window, window_line;
};

/* ---- by input: rows are channels, columns are pixels, k is (output channel, row, column of the
 * kernel) ---- */
struct kernels {
	static constexpr bool along_k = true;
	const job &j;
	uint64_t first, depth;

	__device__ __forceinline__ bool inside(int rows) const
	{
		return j.c.channels - first >= (uint64_t)rows;
	}
	template <bool WHOLE>
	__device__ __forceinline__ const float *where(int row, uint64_t k) const
	{
		uint64_t channel = first + (uint64_t)row, weight,
			 output = divide(k, j.window, &weight);

		return WHOLE || (channel < j.c.channels && k < depth)
			       ? j.weights +
					 ((output * j.c.channels + channel) * j.window.by + weight)
			       : NULL;
	}
};

/* The column that this thread copies: the elements of the gradient that contribute to one pixel. */
struct windows : sgpu_columns {
	const job &j;
	const float *gradient; /* of the image; NULL: no such column */
	int64_t y, x;	       /* of the pixel, in the padded image */
	uint64_t depth;

	template <bool WHOLE> __device__ __forceinline__ const float *where(int, uint64_t k) const
	{
		uint64_t weight, output, kx, ky;
		int64_t v, u;

		if (!gradient || k >= depth) {
			return NULL;
		}
		output = divide(k, j.window, &weight);
		ky = divide(weight, j.window_line, &kx);
		v = y - (int64_t)ky * j.c.dilation;
		u = x - (int64_t)kx * j.c.dilation;
		if (v < 0 || u < 0) {
			return NULL;
		}
		if (j.c.stride > 1) {
			if (v % j.c.stride || u % j.c.stride) {
				return NULL;
			}
			v /= j.c.stride;
			u /= j.c.stride;
		}
		return v < (int64_t)j.c.out_height && u < (int64_t)j.c.out_width
			       ? gradient + (output * j.plane.by + (uint64_t)v * j.c.out_width +
					     (uint64_t)u)
			       : NULL;
	}
};

static __global__ void __launch_bounds__(tile::THREADS, tile::RESIDENT) by_input(job j)
{
	__shared__ typename tile::buffers shared;
	uint64_t depth = j.c.outputs * j.window.by, image_pixels = j.c.height * j.c.width;
	uint64_t pixels = j.c.images * image_pixels, down = sgpu_ops_ceil(j.c.channels, tile::ROWS);
	uint64_t across = sgpu_ops_ceil(pixels, tile::COLUMNS);

	for (uint64_t at = blockIdx.x; at < down * across; at += gridDim.x) {
		uint64_t row = at % down * tile::ROWS, column = at / down * tile::COLUMNS;
		uint64_t pixel = column + threadIdx.x % tile::COLUMNS, place = pixel % image_pixels;
		const float *image = j.gradient + pixel / image_pixels * j.c.outputs * j.plane.by;
		kernels weights = { j, row, depth };
		windows from = { {},
				 j,
				 pixel < pixels ? image : NULL,
				 (int64_t)(place / j.c.width) + j.c.padding,
				 (int64_t)(place % j.c.width) + j.c.padding,
				 depth };
		float sums[tile::DOWN][tile::ACROSS] = {};

		sgpu_tile_product<tile, sgpu_step_plain>(weights, from, depth, shared, sums);
#pragma unroll
		for (int k = 0; k < tile::ACROSS; k++) {
			uint64_t to = column + tile::column(k);

#pragma unroll
			for (int i = 0; i < tile::DOWN; i++) {
				uint64_t channel = row + tile::row(i);

				if (to < pixels && channel < j.c.channels) {
					j.output_input[(to / image_pixels * j.c.channels +
							channel) *
							       image_pixels +
						       to % image_pixels] = sums[i][k];
				}
			}
		}
	}
}

/* ---- by weights and bias: rows are output channels, k is (image of the part, row, column of the
 * output) ---- */
struct outputs {
	static constexpr bool along_k = true;
	const job &j;
	const float *gradient; /* of the part's first image */
	uint64_t first, depth;

	__device__ __forceinline__ bool inside(int rows) const
	{
		return j.c.outputs - first >= (uint64_t)rows;
	}
	template <bool WHOLE>
	__device__ __forceinline__ const float *where(int row, uint64_t k) const
	{
		uint64_t output = first + (uint64_t)row, element,
			 image = divide(k, j.plane, &element);

		return WHOLE || (output < j.c.outputs && k < depth)
			       ? gradient + ((image * j.c.outputs + output) * j.plane.by + element)
			       : NULL;
	}
};

/* The column that this thread copies: the factors for a weight or for the bias. */
struct images : sgpu_columns {
	const job &j;
	const float *input; /* the channel in the part's first image; NULL: no such column */
	int64_t y, x;	    /* of the weight, minus the padding */
	uint64_t depth;
	bool bias;

	template <bool WHOLE> __device__ __forceinline__ const float *where(int, uint64_t k) const
	{
		uint64_t element, image, ox, oy;
		int64_t v, u;

		if (k >= depth || bias || !input) {
			return k < depth && bias ? one : NULL;
		}
		image = divide(k, j.plane, &element);
		oy = divide(element, j.line, &ox);
		v = (int64_t)oy * j.c.stride + y;
		u = (int64_t)ox * j.c.stride + x;
		return v >= 0 && u >= 0 && v < (int64_t)j.c.height && u < (int64_t)j.c.width
			       ? input + ((image * j.c.channels * j.c.height + (uint64_t)v) *
						  j.c.width +
					  (uint64_t)u)
			       : NULL;
	}
};

static __device__ images find_column(const job &j, uint64_t column, uint64_t first_image,
				     uint64_t depth)
{
	uint64_t weight, channel = divide(column, j.window, &weight), kx,
			 ky = divide(weight, j.window_line, &kx);
	const float *input =
		j.input + (first_image * j.c.channels + channel) * j.c.height * j.c.width;

	return { {},
		 j,
		 channel < j.c.channels ? input : NULL,
		 (int64_t)ky * j.c.dilation - j.c.padding,
		 (int64_t)kx * j.c.dilation - j.c.padding,
		 depth,
		 column + 1 == j.columns };
}

static __global__ void __launch_bounds__(tile::THREADS, tile::RESIDENT) by_weights(job j)
{
	__shared__ typename tile::buffers shared;
	uint64_t down = sgpu_ops_ceil(j.c.outputs, tile::ROWS);
	uint64_t across = sgpu_ops_ceil(j.columns, tile::COLUMNS);

	for (uint64_t at = blockIdx.x; at < j.part_count * down * across; at += gridDim.x) {
		uint64_t part = at / (down * across), row = at % down * tile::ROWS;
		uint64_t column = at / down % across * tile::COLUMNS, first = part * j.part_images;
		uint64_t left = j.c.images - first,
			 depth = sgpu_ops_min(left, j.part_images) * j.plane.by;
		outputs gradient = { j, j.gradient + first * j.c.outputs * j.plane.by, row, depth };
		images from = find_column(j, column + threadIdx.x % tile::COLUMNS, first, depth);
		float sums[tile::DOWN][tile::ACROSS] = {};

		sgpu_tile_product<tile, sgpu_step_plain>(gradient, from, depth, shared, sums);
#pragma unroll
		for (int i = 0; i < tile::DOWN; i++) {
			uint64_t output = row + tile::row(i);

#pragma unroll
			for (int k = 0; k < tile::ACROSS; k++) {
				uint64_t to = column + tile::column(k);

				if (to < j.columns && output < j.c.outputs) {
					j.parts[(part * j.c.outputs + output) * j.columns + to] =
						sums[i][k];
				}
			}
		}
	}
}

/* Adds the parts' matrices, in f64. */
SGPU_KERNEL finish(job j)
{
	uint64_t elements = j.c.outputs * j.columns;

	for (uint64_t i = sgpu_cuda_self(); i < elements; i += sgpu_cuda_step()) {
		uint64_t row = i / j.columns, column = i % j.columns;
		double sum = 0;

		for (uint64_t part = 0; part < j.part_count; part++) {
			sum += (double)j.parts[part * elements + i];
		}
		if (column + 1 < j.columns && j.output_weights) {
			j.output_weights[row * (j.columns - 1) + column] = (float)sum;
		} else if (column + 1 == j.columns && j.output_bias) {
			j.output_bias[row] = (float)sum;
		}
	}
}

static uint64_t count_tiles(uint64_t rows, uint64_t columns)
{
	return sgpu_ops_ceil(rows, tile::ROWS) * sgpu_ops_ceil(columns, tile::COLUMNS);
}

extern "C" int sgpu_conv2d_gradient_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_conv2d c = sgpu_conv2d_describe(call, &call->type[GRADIENT]);
	job j = {
		c,
		(const float *)call->data[INPUT],
		(const float *)call->data[WEIGHTS],
		(const float *)call->data[GRADIENT],
		sgpu_conv2d_output(call, OUTPUT_INPUT),
		sgpu_conv2d_output(call, OUTPUT_WEIGHTS),
		sgpu_conv2d_output(call, OUTPUT_BIAS),
		(float *)call->scratch,
		sgpu_conv2d_part_images(c.images),
		sgpu_conv2d_parts(c.images),
		sgpu_conv2d_columns(&c),
		make_divisor(c.out_height * c.out_width),
		make_divisor(c.out_width),
		make_divisor(c.kernel_height * c.kernel_width),
		make_divisor(c.kernel_width),
	};
	uint64_t pixels = c.images * c.height * c.width, elements = c.outputs * j.columns;
	int rc = 0;

	if (j.output_input && c.channels * pixels > 0) {
		rc = sgpu_cuda_start(launch, by_input,
				     sgpu_cuda_blocks(count_tiles(c.channels, pixels)),
				     tile::THREADS, 0, j);
	}
	if (rc || (!j.output_weights && !j.output_bias) || elements == 0) {
		return rc;
	}
	if (j.part_count > 0) {
		rc = sgpu_cuda_start(
			launch, by_weights,
			sgpu_cuda_blocks(j.part_count * count_tiles(c.outputs, j.columns)),
			tile::THREADS, 0, j);
	}
	return rc ? rc
		  : sgpu_cuda_run(launch, finish, sgpu_cuda_grid(elements, SGPU_CUDA_BLOCK), j);
}
