/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax: a warp for a short row, a block for a long one.
 */
#include "ops/cpu/math64.h"
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT, WARP_ROW_MAX = 1024, WARPS = SGPU_CUDA_BLOCK / SGPU_CUDA_WARP };

/* NaN is passed over here and shows in the sum. */
template <typename T>
static __device__ __forceinline__ double scan_top(const T *row, uint64_t count, unsigned first,
						  unsigned step)
{
	T top = -(T)INFINITY;

	for (uint64_t i = first; i < count; i += step) {
		top = row[i] > top ? row[i] : top;
	}
	return (double)top;
}

/* Writes the exponentials of elements first, + step, ... and returns their sum; below `end` the
 * type has nothing but 0. */
template <typename T>
static __device__ __forceinline__ double scan_exponentials(const T *row, T *output, uint64_t count,
							   double top, unsigned first,
							   unsigned step)
{
	const double end = sizeof(T) == 4 ? -104 : -708;
	double total = 0;

	for (uint64_t i = first; i < count; i += step) {
		double x = (double)row[i] - top, e = sgpu_math_exp(x) * (x < end ? 0.0 : 1.0);

		output[i] = (T)e;
		total += e;
	}
	return total;
}

template <typename T>
static __device__ __forceinline__ void scan_divide(T *output, uint64_t count, double total,
						   unsigned first, unsigned step)
{
	double share = 1 / total;

	for (uint64_t i = first; i < count; i += step) {
		output[i] = (T)((double)output[i] * share);
	}
}

/* A warp for each row. */
template <typename T>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)
	warp_rows(uint64_t rows, uint64_t count, const T *input, T *output)
{
	const uint64_t step = (uint64_t)gridDim.x * WARPS;
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;

	for (uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / SGPU_CUDA_WARP; row < rows;
	     row += step) {
		const T *from = input + row * count;
		T *to = output + row * count;
		double top = sgpu_cuda_warp_reduce(scan_top(from, count, lane, SGPU_CUDA_WARP),
						   sgpu_cuda_larger());
		double total = scan_exponentials(from, to, count, top, lane, SGPU_CUDA_WARP);

		scan_divide(to, count, sgpu_cuda_warp_reduce(total, sgpu_cuda_sum()), lane,
			    SGPU_CUDA_WARP);
	}
}

template <typename T>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)
	block_rows(uint64_t rows, uint64_t count, const T *input, T *output)
{
	/* Two, since each is read until the other is written. */
	__shared__ double shared_top[32], shared_sum[32];

	for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
		const T *from = input + row * count;
		T *to = output + row * count;
		double mine = scan_top(from, count, threadIdx.x, SGPU_CUDA_BLOCK);
		double top = sgpu_cuda_block_reduce(mine, sgpu_cuda_larger(), shared_top);
		double total =
			scan_exponentials(from, to, count, top, threadIdx.x, SGPU_CUDA_BLOCK);

		total = sgpu_cuda_block_reduce(total, sgpu_cuda_sum(), shared_sum);
		scan_divide(to, count, total, threadIdx.x, SGPU_CUDA_BLOCK);
	}
}

template <typename T>
static int start(struct sgpu_launch *launch, const struct sgpu_op_call *call, uint64_t rows,
		 uint64_t count)
{
	const T *input = (const T *)call->data[INPUT];
	T *output = (T *)call->data[OUTPUT];

	if (count > WARP_ROW_MAX) {
		return sgpu_cuda_start(launch, "softmax", block_rows<T>, sgpu_cuda_grid(rows, 1),
				       SGPU_CUDA_BLOCK, 0, rows, count, input, output);
	}
	return sgpu_cuda_start(launch, "softmax", warp_rows<T>, sgpu_cuda_grid(rows, WARPS),
			       SGPU_CUDA_BLOCK, 0, rows, count, input, output);
}

extern "C" int sgpu_softmax_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t rows = sgpu_ops_extent(type, 0, type->rank - 1),
		 count = type->shape[type->rank - 1];
	int result = 0;

	if (rows == 0 || count == 0) {
		return 0;
	}
	SGPU_CUDA_FLOATS(type->dtype, T, result = start<T>(launch, call, rows, count));
	return result;
}
