/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS, found at run time: NVIDIA's library for matrix products. Nothing of it is needed to
 * build.
 */
#ifndef SGPU_OPS_CUDA_CUBLAS_H
#define SGPU_OPS_CUDA_CUBLAS_H

#include "ops/cuda/ops_cuda.h"
#include "ops/ops_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether it is there, and the product (batch at least 1, k 0 when nothing is multiplied) is worth
 * it: what comes of it depends on the sizes and the installation alone. Looks for the library when
 * a product is large enough. */
bool sgpu_cublas_fits(const struct sgpu_gemm *gemm);

/* As sgpu_cuda_gemm. Enqueues; the memory that the library works in is cleared before it is given
 * back. */
SGPU_MUST_CHECK int sgpu_cublas_gemm(struct sgpu_launch *launch, const char *what,
				     enum sgpu_dtype dtype, const struct sgpu_gemm *gemm,
				     const void *a, const void *b, const void *c, void *output);

#ifdef __cplusplus
}
#endif
#endif
