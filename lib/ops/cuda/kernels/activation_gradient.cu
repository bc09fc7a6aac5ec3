/* SPDX-License-Identifier: Apache-2.0
 *
 * activation_gradient: as cpu/activation_gradient.c.
 */
#include "ops/cpu/training.h"
#include "ops/cuda/kernels/common.cuh"

enum { ACTIVATED, GRADIENT, OUTPUT, ACTIVATION = 0 };

template <typename T> struct slope {
	enum sgpu_slope kind;

	__device__ T operator()(T activated, T gradient) const
	{
		return (T)sgpu_slope(kind, (double)activated, (double)gradient);
	}
};

extern "C" int sgpu_activation_gradient_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	enum sgpu_slope kind = (enum sgpu_slope)(int)call->param[ACTIVATION].number;
	uint64_t count = sgpu_ops_count(&call->type[OUTPUT]);

	return SGPU_CUDA_FLOATS(call->type[OUTPUT].dtype, T,
				sgpu_cuda_map<16 / sizeof(T)>(launch, count, slope<T>{ kind },
							      (T *)call->data[OUTPUT],
							      (const T *)call->data[ACTIVATED],
							      (const T *)call->data[GRADIENT]));
}
