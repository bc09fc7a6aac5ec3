/* SPDX-License-Identifier: Apache-2.0
 *
 * copy, reshape, slice: the same bytes.
 */
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT, FIRST = 0 };

static int copy(struct sgpu_op_call *call, struct sgpu_launch *launch, uint64_t skipped)
{
	const struct sgpu_type *type = &call->type[OUTPUT];

	return sgpu_cuda_runtime_check(
		launch,
		cudaMemcpyAsync(call->data[OUTPUT], (const char *)call->data[INPUT] + skipped,
				sgpu_ops_count(type) * sgpu_dtype_size(type->dtype),
				cudaMemcpyDeviceToDevice, sgpu_cuda_stream(launch)));
}

extern "C" int sgpu_copy_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return copy(call, launch, 0);
}

extern "C" int sgpu_reshape_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return copy(call, launch, 0);
}

extern "C" int sgpu_slice_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[OUTPUT];

	return copy(call, launch,
		    (uint64_t)call->param[FIRST].number * sgpu_ops_extent(type, 1, type->rank) *
			    sgpu_dtype_size(type->dtype));
}
