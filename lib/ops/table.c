/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations: one row each, sorted by name.
 */
#include <string.h>

#include "ops_private.h"

static const struct sgpu_op *const table[] = {
	&sgpu_op_activation_gradient,
	&sgpu_op_argmax,
	&sgpu_op_black_scholes,
	&sgpu_op_cast,
	&sgpu_op_conv2d,
	&sgpu_op_conv2d_gradient,
	&sgpu_op_copy,
	&sgpu_op_cross_entropy,
	&sgpu_op_dense,
	&sgpu_op_gaussian3d,
	&sgpu_op_gemm,
	&sgpu_op_histogram,
	&sgpu_op_max_pool2d,
	&sgpu_op_max_pool2d_gradient,
	&sgpu_op_morphology3d,
	&sgpu_op_nearest,
	&sgpu_op_reduce,
	&sgpu_op_reshape,
	&sgpu_op_scale,
	&sgpu_op_sgd,
	&sgpu_op_slice,
	&sgpu_op_softmax,
	&sgpu_op_squared_error,
	&sgpu_op_threshold,
	&sgpu_op_vector_add,
	NULL,
};

const struct sgpu_op *const *sgpu_ops(void)
{
	return table;
}

const struct sgpu_op *sgpu_op_find(const char *name)
{
	size_t low = 0, high = SGPU_ARRAY_LENGTH(table) - 1;

	while (name && low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, table[middle]->name);

		if (order == 0) {
			return table[middle];
		}
		if (order < 0) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return NULL;
}

int sgpu_op_arg(const struct sgpu_op *op, const char *name)
{
	for (int i = 0; op->args[i].name; i++) {
		if (strcmp(op->args[i].name, name) == 0) {
			return i;
		}
	}
	return -1;
}

int sgpu_op_param(const struct sgpu_op *op, const char *name)
{
	for (int i = 0; op->params && op->params[i].name; i++) {
		if (strcmp(op->params[i].name, name) == 0) {
			return i;
		}
	}
	return -1;
}
