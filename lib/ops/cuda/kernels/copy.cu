/* SPDX-License-Identifier: Apache-2.0
 *
 * copy: the same bytes.
 */
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };

extern "C" int sgpu_copy_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t bytes =
		sgpu_ops_count(&call->type[INPUT]) * sgpu_dtype_size(call->type[INPUT].dtype);

	return bytes == 0 ? 0
			  : sgpu_cuda_check(launch, "copy",
					    cudaMemcpyAsync(call->data[OUTPUT], call->data[INPUT],
							    bytes, cudaMemcpyDeviceToDevice,
							    sgpu_cuda_stream(launch)));
}
