/* SPDX-License-Identifier: Apache-2.0
 *
 * squared_error: a warp for each row, whose lanes are those of cpu/training.h.
 */
#include "ops/cpu/training.h"
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, TARGET, OUTPUT_LOSS, OUTPUT_GRADIENT };
static_assert((int)SGPU_LANES == (int)SGPU_CUDA_WARP, "a lane for each sum");

template <typename T>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)
	rows(uint64_t count, uint64_t width, const T *input, const T *target, T *loss, T *gradient)
{
	uint64_t self = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x,
		 step = (uint64_t)gridDim.x * blockDim.x;
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;
	double share = (double)(count * width);

	for (uint64_t row = self / SGPU_CUDA_WARP; row < count; row += step / SGPU_CUDA_WARP) {
		double mine = 0;

		for (uint64_t i = row * width + lane; i < (row + 1) * width; i += SGPU_CUDA_WARP) {
			double x = (double)input[i] - (double)target[i];

			mine += x * x;
			if (gradient) {
				gradient[i] = (T)(2 * x / share);
			}
		}
		mine = sgpu_cuda_warp_reduce(mine, sgpu_cuda_sum());
		if (loss && lane == 0) {
			loss[row] = (T)(mine / (double)width);
		}
	}
}

extern "C" int sgpu_squared_error_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t count = type->shape[0], width = sgpu_ops_extent(type, 1, type->rank);
	int result = 0;

	if (count == 0) {
		return 0;
	}
	SGPU_CUDA_FLOATS(type->dtype, T,
			 result = sgpu_cuda_start(
				 launch, "squared_error", rows<T>,
				 sgpu_cuda_grid(count, SGPU_CUDA_BLOCK / SGPU_CUDA_WARP),
				 SGPU_CUDA_BLOCK, 0, count, width, (const T *)call->data[INPUT],
				 (const T *)call->data[TARGET], (T *)call->data[OUTPUT_LOSS],
				 (T *)call->data[OUTPUT_GRADIENT]));
	return result;
}
