/* SPDX-License-Identifier: Apache-2.0
 *
 * max_pool2d: a thread for each window.
 */
#include "ops/cpu/images.h"
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };

static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)
	pool(struct sgpu_pool2d p, const float *input, float *output)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x,
		 count = p.planes * p.out_height * p.out_width;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
		uint64_t x = i % p.out_width, y = i / p.out_width % p.out_height;
		const float *plane = input + i / p.out_width / p.out_height * p.height * p.width;

		output[i] = plane[sgpu_pool2d_place(&p, plane, y, x)];
	}
}

extern "C" int sgpu_max_pool2d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);
	uint64_t count = sgpu_ops_count(&call->type[OUTPUT]);

	return count == 0 ? 0
			  : sgpu_cuda_start(launch, "max_pool2d", pool,
					    sgpu_cuda_grid(count, SGPU_CUDA_BLOCK), SGPU_CUDA_BLOCK,
					    0, p, (const float *)call->data[INPUT],
					    (float *)call->data[OUTPUT]);
}
