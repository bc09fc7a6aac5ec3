/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations on a CUDA device, all of SGPU_OPS; common.cuh has their shared code and rules.
 */
#ifndef SGPU_OPS_CUDA_OPS_CUDA_H
#define SGPU_OPS_CUDA_OPS_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/device.h>

#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sgpu_gemm; /* ops_private.h, the matrix product */

/* An operation's implementation, or NULL if there is no such operation. */
sgpu_op_fn sgpu_cuda_op(const char *name);

/* Whether cuBLAS was found; the first call looks for it. `text` becomes "13.1.0, libcublas.so.13",
 * or what is missing (below 160 characters). */
bool sgpu_cuda_cublas_status(char *text, size_t size);

/* Returns 0, or SGPU_ENOMEM or SGPU_EDEVICE with the text "out of memory
 * (cudaErrorMemoryAllocation)". */
SGPU_MUST_CHECK int sgpu_cuda_runtime_check(struct sgpu_launch *launch, cudaError_t code);

/* Enqueues a matrix product on cuBLAS if sgpu_cublas_fits, else on this library's kernels. */
SGPU_MUST_CHECK int sgpu_cuda_gemm(struct sgpu_launch *launch, const struct sgpu_gemm *gemm);
/* On this library's kernels, whatever the size. */
SGPU_MUST_CHECK int sgpu_cuda_gemm_built_in(struct sgpu_launch *launch,
					    const struct sgpu_gemm *gemm);

/* ---- cublas.c: NVIDIA's matrix products, found at run time ---- */
/* Whether the product is large enough and cuBLAS is there, for which the first such call looks. */
bool sgpu_cublas_fits(const struct sgpu_gemm *gemm);

/* cuBLAS's workspace is cleared before it is freed. */
SGPU_MUST_CHECK int sgpu_cublas_gemm(struct sgpu_launch *launch, const struct sgpu_gemm *gemm);

#ifdef __cplusplus
}
#endif
#endif
