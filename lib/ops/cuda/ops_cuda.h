/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations on a CUDA device, all of SGPU_OPS. An implementation enqueues its kernels on
 * launch->native and returns without waiting. common.cuh has shared code and the rules.
 */
#ifndef SGPU_OPS_CUDA_OPS_CUDA_H
#define SGPU_OPS_CUDA_OPS_CUDA_H

#include <cuda_runtime_api.h>

#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The implementation of an operation, or NULL when there is no such operation. */
sgpu_op_fn sgpu_cuda_op(const char *name);

/* Returns 0, or SGPU_ENOMEM or SGPU_EDEVICE with the text "vector_add: out of memory
 * (cudaErrorMemoryAllocation)". */
SGPU_MUST_CHECK int sgpu_cuda_runtime_check(struct sgpu_launch *launch, const char *what,
					    cudaError_t code);

#ifdef __cplusplus
}
#endif
#endif
