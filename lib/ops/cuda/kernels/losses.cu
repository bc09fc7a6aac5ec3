/* SPDX-License-Identifier: Apache-2.0
 *
 * cross_entropy and squared_error: a warp for each row, whose lanes are those of cpu/training.h.
 */
#include "ops/cpu/training.h"
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, LABELS, TARGET = 1, OUTPUT_LOSS, OUTPUT_GRADIENT };
static_assert((int)SGPU_LANES == (int)SGPU_CUDA_WARP, "a lane for each sum");

template <typename T, typename L>
SGPU_KERNEL rows(uint64_t count, uint64_t width, const T *input, const L *labels, T *loss,
		 T *gradient)
{
	uint64_t self = sgpu_cuda_self(), step = sgpu_cuda_step();
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;

	for (uint64_t row = self / SGPU_CUDA_WARP; row < count; row += step / SGPU_CUDA_WARP) {
		const T *from = input + row * width;
		int64_t label = labels[row];
		bool fits = sgpu_label_fits(label, width);
		double top = -(double)INFINITY, total = 0,
		       shared = fits ? (double)count : (double)NAN;

		for (uint64_t i = lane; i < width; i += SGPU_CUDA_WARP) {
			top = (double)from[i] > top ? (double)from[i] : top;
		}
		top = sgpu_cuda_warp_reduce(top, sgpu_cuda_larger());
		for (uint64_t i = lane; i < width; i += SGPU_CUDA_WARP) {
			total += sgpu_math_exp((double)from[i] - top);
		}
		total = sgpu_cuda_warp_reduce(total, sgpu_cuda_sum());
		if (loss && lane == 0) {
			loss[row] = (T)(fits ? sgpu_entropy(total, (double)from[label], top)
					     : (double)NAN);
		}
		for (uint64_t i = lane; gradient && i < width; i += SGPU_CUDA_WARP) {
			gradient[row * width + i] = (T)sgpu_entropy_gradient(
				(double)from[i], top, total, fits && i == (uint64_t)label, shared);
		}
	}
}

template <typename T, typename L>
static int start(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const uint64_t *shape = call->type[INPUT].shape;

	return sgpu_cuda_run(launch, rows<T, L>,
			     sgpu_cuda_grid(shape[0], SGPU_CUDA_BLOCK / SGPU_CUDA_WARP), shape[0],
			     shape[1], call->data[INPUT], call->data[LABELS],
			     call->data[OUTPUT_LOSS], call->data[OUTPUT_GRADIENT]);
}

extern "C" int sgpu_cross_entropy_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	bool bytes = call->type[LABELS].dtype == SGPU_U8;

	return SGPU_CUDA_FLOATS(call->type[INPUT].dtype, T,
				bytes ? start<T, uint8_t>(call, launch)
				      : start<T, int32_t>(call, launch));
}

template <typename T>
SGPU_KERNEL squares(uint64_t count, uint64_t width, const T *input, const T *target, T *loss,
		    T *gradient)
{
	uint64_t self = sgpu_cuda_self(), step = sgpu_cuda_step();
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

	return SGPU_CUDA_FLOATS(
		type->dtype, T,
		sgpu_cuda_run(launch, squares<T>,
			      sgpu_cuda_grid(count, SGPU_CUDA_BLOCK / SGPU_CUDA_WARP), count, width,
			      call->data[INPUT], call->data[TARGET], call->data[OUTPUT_LOSS],
			      call->data[OUTPUT_GRADIENT]));
}
