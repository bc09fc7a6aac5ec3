/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of a matrix and a few vectors, whose time is that of reading the matrix.
 */
#ifndef SGPU_OPS_CUDA_KERNELS_THIN_CUH
#define SGPU_OPS_CUDA_KERNELS_THIN_CUH

#include "ops/cuda/kernels/common.cuh"

enum { SGPU_THIN_MAX = 4 };

/* Whether m or n is so small; batch is at least 1. */
static inline bool sgpu_thin_fits(const struct sgpu_gemm *gemm)
{
	return gemm->k > 0 && (gemm->m <= SGPU_THIN_MAX || gemm->n <= SGPU_THIN_MAX);
}

/* As sgpu_cuda_gemm, for a product that fits. */
int sgpu_thin_gemm(struct sgpu_launch *launch, const char *what, enum sgpu_dtype dtype,
		   const struct sgpu_gemm *gemm, const void *a, const void *b, const void *c,
		   void *output);

#endif
