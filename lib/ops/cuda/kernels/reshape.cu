/* SPDX-License-Identifier: Apache-2.0
 *
 * reshape: bytes that are copied.
 */
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };

extern "C" int sgpu_reshape_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[OUTPUT];
	uint64_t bytes = sgpu_ops_count(type) * sgpu_dtype_size(type->dtype);

	return bytes == 0 ? 0
			  : sgpu_cuda_check(launch, "reshape",
					    cudaMemcpyAsync(call->data[OUTPUT], call->data[INPUT],
							    bytes, cudaMemcpyDeviceToDevice,
							    sgpu_cuda_stream(launch)));
}
