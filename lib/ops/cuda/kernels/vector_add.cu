/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_add: a + b, as cpu/vector_add.c.
 */
#include <type_traits>

#include "ops/cuda/kernels/common.cuh"

enum { A, B, OUTPUT };

template <typename T> struct sum {
	__device__ T operator()(T a, T b) const
	{
		if constexpr (std::is_same_v<T, sgpu_half>) {
			return { sgpu_half_from_float(sgpu_half_to_float(a.bits) +
						      sgpu_half_to_float(b.bits)) };
		} else if constexpr (std::is_integral_v<T>) {
			return (T)((uint32_t)a + (uint32_t)b);
		} else {
			return a + b;
		}
	}
};

extern "C" int sgpu_vector_add_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[A]);

	return SGPU_CUDA_TYPES(
		call->type[A].dtype, T,
		sgpu_cuda_map<16 / sizeof(T)>(launch, count, sum<T>(), (T *)call->data[OUTPUT],
					      (const T *)call->data[A], (const T *)call->data[B]));
}
