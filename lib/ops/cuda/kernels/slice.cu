/* SPDX-License-Identifier: Apache-2.0
 *
 * slice: bytes that are copied.
 */
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT, FIRST = 0 };

extern "C" int sgpu_slice_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[OUTPUT];
	uint64_t bytes = sgpu_ops_count(type) * sgpu_dtype_size(type->dtype);
	uint64_t item = sgpu_ops_extent(type, 1, type->rank) * sgpu_dtype_size(type->dtype);
	const char *from =
		(const char *)call->data[INPUT] + (uint64_t)call->param[FIRST].number * item;

	return bytes == 0 ? 0
			  : sgpu_cuda_check(launch, "slice",
					    cudaMemcpyAsync(call->data[OUTPUT], from, bytes,
							    cudaMemcpyDeviceToDevice,
							    sgpu_cuda_stream(launch)));
}
