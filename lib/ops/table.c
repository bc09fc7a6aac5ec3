/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations: one row each, sorted by name.
 */
#include <string.h>

#include "ops_private.h"

static const struct sgpu_op *const table[] = {
#if __has_include("cpu/argmax.c")
	&sgpu_op_argmax,
#endif
#if __has_include("cpu/black_scholes.c")
	&sgpu_op_black_scholes,
#endif
#if __has_include("cpu/cast.c")
	&sgpu_op_cast,
#endif
#if __has_include("cpu/conv2d.c")
	&sgpu_op_conv2d,
#endif
#if __has_include("cpu/copy.c")
	&sgpu_op_copy,
#endif
#if __has_include("cpu/dense.c")
	&sgpu_op_dense,
#endif
#if __has_include("cpu/gaussian3d.c")
	&sgpu_op_gaussian3d,
#endif
#if __has_include("cpu/gemm.c")
	&sgpu_op_gemm,
#endif
#if __has_include("cpu/histogram.c")
	&sgpu_op_histogram,
#endif
#if __has_include("cpu/morphology3d.c")
	&sgpu_op_morphology3d,
#endif
#if __has_include("cpu/nearest.c")
	&sgpu_op_nearest,
#endif
#if __has_include("cpu/reduce.c")
	&sgpu_op_reduce,
#endif
#if __has_include("cpu/scale.c")
	&sgpu_op_scale,
#endif
#if __has_include("cpu/softmax.c")
	&sgpu_op_softmax,
#endif
#if __has_include("cpu/threshold.c")
	&sgpu_op_threshold,
#endif
#if __has_include("cpu/vector_add.c")
	&sgpu_op_vector_add,
#endif
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
