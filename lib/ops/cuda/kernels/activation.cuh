/* SPDX-License-Identifier: Apache-2.0
 *
 * The activations of dense and conv2d.
 */
#ifndef SGPU_OPS_CUDA_KERNELS_ACTIVATION_CUH
#define SGPU_OPS_CUDA_KERNELS_ACTIVATION_CUH

#include "ops/cpu/activation.h"
#include "ops/cuda/kernels/common.cuh"

static __device__ __forceinline__ double sgpu_cuda_activation(enum sgpu_activation activation,
							      double x, bool single)
{
	switch (activation) {
	case SGPU_ACTIVATION_RELU:
		return sgpu_relu(x);
	case SGPU_ACTIVATION_SIGMOID:
		return sgpu_sigmoid(x);
	case SGPU_ACTIVATION_TANH:
		return sgpu_tangent(x);
	case SGPU_ACTIVATION_GELU:
		return single ? sgpu_gelu_single(x) : sgpu_gelu_double(x);
	default:
		return x;
	}
}

template <typename T>
static __device__ __forceinline__ T sgpu_cuda_activate(enum sgpu_activation activation, T x)
{
	return activation == SGPU_ACTIVATION_NONE
		       ? x
		       : (T)sgpu_cuda_activation(activation, (double)x, sizeof(T) == 4);
}

#endif
