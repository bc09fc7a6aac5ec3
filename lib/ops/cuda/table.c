/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of the CUDA device by name.
 */
#include <string.h>

#include "ops/cuda/ops_cuda.h"

static const struct {
	const char *name;
	sgpu_op_fn run;
} table[] = {
	{ "activation_gradient", sgpu_activation_gradient_cuda },
	{ "argmax", sgpu_argmax_cuda },
	{ "black_scholes", sgpu_black_scholes_cuda },
	{ "cast", sgpu_cast_cuda },
	{ "conv2d", sgpu_conv2d_cuda },
	{ "conv2d_gradient", sgpu_conv2d_gradient_cuda },
	{ "copy", sgpu_copy_cuda },
	{ "cross_entropy", sgpu_cross_entropy_cuda },
	{ "dense", sgpu_dense_cuda },
	{ "gaussian3d", sgpu_gaussian3d_cuda },
	{ "gemm", sgpu_gemm_cuda },
	{ "histogram", sgpu_histogram_cuda },
	{ "max_pool2d", sgpu_max_pool2d_cuda },
	{ "max_pool2d_gradient", sgpu_max_pool2d_gradient_cuda },
	{ "morphology3d", sgpu_morphology3d_cuda },
	{ "nearest", sgpu_nearest_cuda },
	{ "reduce", sgpu_reduce_cuda },
	{ "reshape", sgpu_reshape_cuda },
	{ "scale", sgpu_scale_cuda },
	{ "sgd", sgpu_sgd_cuda },
	{ "slice", sgpu_slice_cuda },
	{ "softmax", sgpu_softmax_cuda },
	{ "squared_error", sgpu_squared_error_cuda },
	{ "threshold", sgpu_threshold_cuda },
	{ "vector_add", sgpu_vector_add_cuda },
};

sgpu_op_fn sgpu_cuda_op(const char *name)
{
	for (size_t i = 0; name && i < SGPU_ARRAY_LENGTH(table); i++) {
		if (strcmp(table[i].name, name) == 0) {
			return table[i].run;
		}
	}
	return NULL;
}
