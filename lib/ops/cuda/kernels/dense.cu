/* SPDX-License-Identifier: Apache-2.0
 *
 * dense: a matrix product, then bias and activation where it stands.
 */
#include "ops/cuda/kernels/convert.cuh"
#include "ops/cuda/kernels/gemm.cuh"

enum { INPUT, WEIGHTS, BIAS, OUTPUT, ACTIVATION = 0, TRANSPOSE };

template <typename T>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)
	finish(uint64_t count, uint64_t width, enum sgpu_activation activation, const T *bias,
	       T *values)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
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
	struct sgpu_gemm gemm = {};
	int result;

	gemm.m = output->shape[0];
	gemm.n = output->shape[1];
	gemm.k = call->type[INPUT].shape[1];
	gemm.transpose_b = call->param[TRANSPOSE].number != 0;
	gemm.lda = call->type[INPUT].shape[1];
	gemm.ldb = call->type[WEIGHTS].shape[1];
	gemm.ldc = output->shape[1];
	gemm.alpha = 1;
	if (count == 0) {
		return 0;
	}
	result = sgpu_cuda_gemm(launch, "dense", output->dtype, &gemm, call->data[INPUT],
				call->data[WEIGHTS], NULL, call->data[OUTPUT]);
	if (result || (!call->data[BIAS] && activation == SGPU_ACTIVATION_NONE)) {
		return result;
	}
	SGPU_CUDA_FLOATS(output->dtype, T,
			 result = sgpu_cuda_start(
				 launch, "dense", finish<T>, sgpu_cuda_grid(count, SGPU_CUDA_BLOCK),
				 SGPU_CUDA_BLOCK, 0, count, gemm.n, activation,
				 (const T *)call->data[BIAS], (T *)call->data[OUTPUT]));
	return result;
}
