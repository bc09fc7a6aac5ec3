/* SPDX-License-Identifier: Apache-2.0
 *
 * dense: a matrix product, then bias and activation in place.
 */
#include "ops/cuda/kernels/convert.cuh"

enum { BIAS = 2, OUTPUT, ACTIVATION = 0 };

template <typename T>
SGPU_KERNEL finish(uint64_t count, uint64_t width, enum sgpu_activation activation, const T *bias,
		   T *values)
{
	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		T x = values[i];

		if (bias) {
			x += bias[count >> 32 ? i % width : (uint32_t)i % (uint32_t)width];
		}
		values[i] = sgpu_cuda_activate(activation, x);
	}
}

extern "C" int sgpu_dense_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *output = &call->type[OUTPUT];
	enum sgpu_activation activation = (enum sgpu_activation)(int)call->param[ACTIVATION].number;
	uint64_t count = sgpu_ops_count(output);
	const struct sgpu_gemm gemm = sgpu_op_dense_describe(call);
	int rc = sgpu_cuda_gemm(launch, &gemm);

	if (rc || (!call->data[BIAS] && activation == SGPU_ACTIVATION_NONE)) {
		return rc;
	}
	return SGPU_CUDA_FLOATS(output->dtype, T,
				sgpu_cuda_run(launch, finish<T>,
					      sgpu_cuda_grid(count, SGPU_CUDA_BLOCK), count, gemm.n,
					      activation, call->data[BIAS], call->data[OUTPUT]));
}
