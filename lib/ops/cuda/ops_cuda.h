/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations on a CUDA device: one .cu file each, listed in table.c. An implementation enqueues
 * its kernels on launch->native and returns; nothing may wait there. common.cuh has what they share
 * and the rules.
 */
#ifndef SGPU_OPS_CUDA_OPS_CUDA_H
#define SGPU_OPS_CUDA_OPS_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/device.h>
#include <sgpu/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

int sgpu_activation_gradient_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_argmax_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_black_scholes_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_cast_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_conv2d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_conv2d_gradient_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_copy_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_cross_entropy_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_dense_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_gaussian3d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_gemm_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_histogram_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_max_pool2d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_max_pool2d_gradient_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_morphology3d_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_nearest_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_reduce_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_reshape_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_scale_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_sgd_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_slice_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_softmax_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_squared_error_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_threshold_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);
int sgpu_vector_add_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch);

/* The implementation of an operation, or NULL when there is no such operation. */
sgpu_op_fn sgpu_cuda_op(const char *name);

/* Whether cuBLAS was found, which computes large products: true, with "13.1.0, libcublas.so.13" in
 * `text`, or false, with what is missing (below 160 characters). Looks for it at the first call. */
bool sgpu_cuda_cublas_status(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
