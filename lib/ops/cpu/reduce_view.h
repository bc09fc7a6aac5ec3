/* SPDX-License-Identifier: Apache-2.0
 *
 * How reduce sees its input, and where it cuts it: the same on every device, since sums of floats
 * depend on it.
 */
#ifndef SGPU_OPS_CPU_REDUCE_VIEW_H
#define SGPU_OPS_CPU_REDUCE_VIEW_H

#include "ops/ops_private.h"

enum {
	SGPU_REDUCE_SUM,
	SGPU_REDUCE_MIN,
	SGPU_REDUCE_MAX,
	SGPU_REDUCE_MEAN
}; /* the parameter `operation` */
enum {
	SGPU_REDUCE_PIECE = 65536, /* elements of the axis in a piece when they are adjacent */
	SGPU_REDUCE_PIECE_STRIDED = 4096, /* rows of the axis in a piece when they are not */
	SGPU_REDUCE_LANES =
		8, /* a piece of adjacent elements is added in; element i goes to lane i % 8 */
};

/* The input as [outer, length, inner]; `length` goes away. */
struct sgpu_reduce_view {
	uint64_t outer, length, inner, pieces, piece;
};

/* axis -1: all is the axis. */
static inline struct sgpu_reduce_view sgpu_reduce_view(const struct sgpu_type *type, int axis)
{
	struct sgpu_reduce_view v = { 1, sgpu_ops_count(type), 1, 0, SGPU_REDUCE_PIECE };

	if (axis >= 0) {
		v.outer = sgpu_ops_extent(type, 0, axis);
		v.length = type->shape[axis];
		v.inner = sgpu_ops_extent(type, axis + 1, type->rank);
	}
	if (v.inner > 1) {
		v.piece = SGPU_REDUCE_PIECE_STRIDED;
	}
	v.pieces = v.length / v.piece + (v.length % v.piece != 0);
	return v;
}

#endif
