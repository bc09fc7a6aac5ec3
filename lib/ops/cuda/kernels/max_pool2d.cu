/* SPDX-License-Identifier: Apache-2.0
 *
 * max_pool2d: a thread per window. max_pool2d_gradient: a thread per element of the input, which
 * visits the windows that contain it in the order in which the CPU adds their gradients.
 */
#include "ops/cpu/images.h"
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT, GRADIENT = 1, OUTPUT_INPUT };

SGPU_KERNEL pool(struct sgpu_pool2d p, const float *input, float *output)
{
	uint64_t count = p.planes * p.out_height * p.out_width;

	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		uint64_t x = i % p.out_width, y = i / p.out_width % p.out_height;
		const float *plane = input + i / p.out_width / p.out_height * p.height * p.width;

		output[i] = plane[sgpu_pool2d_place(&p, plane, y, x)];
	}
}

extern "C" int sgpu_max_pool2d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);
	uint64_t count = sgpu_ops_count(&call->type[OUTPUT]);

	return sgpu_cuda_run(launch, pool, sgpu_cuda_grid(count, SGPU_CUDA_BLOCK), p,
			     call->data[INPUT], call->data[OUTPUT]);
}

/* ---- max_pool2d_gradient ---- */
/* The first window along one dimension that contains an element. */
SGPU_DEVICE uint64_t first_window(const struct sgpu_pool2d &p, uint64_t at)
{
	uint64_t end = at + p.padding + 1;

	return end > p.size ? (end - p.size + p.stride - 1) / p.stride : 0;
}

SGPU_KERNEL spread(struct sgpu_pool2d p, const float *input, const float *gradient, float *output)
{
	uint64_t count = p.planes * p.height * p.width;

	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		uint64_t at = i % (p.height * p.width), plane = i / (p.height * p.width);
		uint64_t y = at / p.width, x = at % p.width;
		const float *from = input + plane * p.height * p.width;
		const float *of = gradient + plane * p.out_height * p.out_width;
		float sum = 0;

		for (uint64_t v = first_window(p, y);
		     v < p.out_height && v * p.stride <= y + p.padding; v++) {
			for (uint64_t u = first_window(p, x);
			     u < p.out_width && u * p.stride <= x + p.padding; u++) {
				if (sgpu_pool2d_place(&p, from, v, u) == at) {
					sum += of[v * p.out_width + u];
				}
			}
		}
		output[i] = sum;
	}
}

extern "C" int sgpu_max_pool2d_gradient_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);
	uint64_t count = sgpu_ops_count(&call->type[OUTPUT_INPUT]);

	return sgpu_cuda_run(launch, spread, sgpu_cuda_grid(count, SGPU_CUDA_BLOCK), p,
			     call->data[INPUT], call->data[GRADIENT], call->data[OUTPUT_INPUT]);
}
