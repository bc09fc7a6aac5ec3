/* SPDX-License-Identifier: Apache-2.0
 *
 * activation_gradient and sgd: the code of the CPU, for one element after the other.
 */
#include "ops/cpu/training.h"
#include "ops/cuda/kernels/common.cuh"

typedef void elements(bool wide, const struct sgpu_op_call *call, uint64_t begin, uint64_t end);

template <elements *F>
SGPU_KERNEL each(const __grid_constant__ struct sgpu_op_call call, uint64_t count)
{
	bool wide = call.type[0].dtype == SGPU_F64;

	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		F(wide, &call, i, i + 1);
	}
}

extern "C" int sgpu_activation_gradient_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[0]);

	return sgpu_cuda_run(launch, each<sgpu_slopes>, sgpu_cuda_grid(count, SGPU_CUDA_BLOCK),
			     *call, count);
}

extern "C" int sgpu_sgd_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[0]);

	return sgpu_cuda_run(launch, each<sgpu_descend>, sgpu_cuda_grid(count, SGPU_CUDA_BLOCK),
			     *call, count);
}
