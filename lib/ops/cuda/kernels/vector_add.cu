/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_add: a + b, as cpu/vector_add.c.
 */
#include "ops/cuda/kernels/common.cuh"

enum { A, B, OUTPUT };

template <typename T> struct sum {
	__device__ T operator()(T a, T b) const
	{
		return a + b;
	}
};

template <> struct sum<int32_t> {
	__device__ int32_t operator()(int32_t a, int32_t b) const
	{
		return (int32_t)((uint32_t)a + (uint32_t)b);
	}
};

template <> struct sum<int16_t> {
	__device__ int16_t operator()(int16_t a, int16_t b) const
	{
		return (int16_t)(uint16_t)((uint16_t)a + (uint16_t)b);
	}
};

template <> struct sum<uint8_t> {
	__device__ uint8_t operator()(uint8_t a, uint8_t b) const
	{
		return (uint8_t)(a + b);
	}
};

template <> struct sum<sgpu_half> {
	__device__ sgpu_half operator()(sgpu_half a, sgpu_half b) const
	{
		return { sgpu_half_from_float(sgpu_half_to_float(a.bits) +
					      sgpu_half_to_float(b.bits)) };
	}
};

extern "C" int sgpu_vector_add_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[A]);

	return SGPU_CUDA_TYPES(call->type[A].dtype, T,
			       sgpu_cuda_map<16 / sizeof(T)>(launch, "vector_add", count, sum<T>(),
							     (T *)call->data[OUTPUT],
							     (const T *)call->data[A],
							     (const T *)call->data[B]));
}
