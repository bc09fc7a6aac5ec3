/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product for operations on a CUDA device, as sgpu_gemm is for the CPU.
 */
#ifndef SGPU_OPS_CUDA_KERNELS_GEMM_CUH
#define SGPU_OPS_CUDA_KERNELS_GEMM_CUH

#include "ops/cuda/kernels/common.cuh"

/* output = alpha op(a) op(b) + beta c. `c` has the layout of `output`, and is read only if beta is
 * not 0. Large products go to cuBLAS if it was found. */
int sgpu_cuda_gemm(struct sgpu_launch *launch, const char *what, enum sgpu_dtype dtype,
		   const struct sgpu_gemm *gemm, const void *a, const void *b, const void *c,
		   void *output);

/* Uses the kernel of this library whatever the size. */
int sgpu_cuda_gemm_built_in(struct sgpu_launch *launch, const char *what, enum sgpu_dtype dtype,
			    const struct sgpu_gemm *gemm, const void *a, const void *b,
			    const void *c, void *output);

#endif
