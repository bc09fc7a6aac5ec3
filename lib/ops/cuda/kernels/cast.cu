/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: as cpu/cast.c, through f64 with one rounding.
 */
#include "ops/cuda/kernels/convert.cuh"

enum { INPUT, OUTPUT };

template <typename I, typename O> struct conversion {
	__device__ O operator()(I value) const
	{
		return sgpu_cuda_narrow<O>(sgpu_cuda_widen(value));
	}
};

template <typename I>
static int from(struct sgpu_op_call *call, struct sgpu_launch *launch, uint64_t count)
{
	return SGPU_CUDA_TYPES(call->type[OUTPUT].dtype, O,
			       sgpu_cuda_map<sgpu_cuda_together<I, O>>(
				       launch, "cast", count, conversion<I, O>(),
				       (O *)call->data[OUTPUT], (const I *)call->data[INPUT]));
}

extern "C" int sgpu_cast_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[INPUT]);

	/* The same type is copied: a conversion would change the bits of a signalling NaN. */
	if (call->type[INPUT].dtype == call->type[OUTPUT].dtype) {
		return sgpu_copy_cuda(call, launch);
	}
	return SGPU_CUDA_TYPES(call->type[INPUT].dtype, I, from<I>(call, launch, count));
}
