/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of conv2d and the windows of max_pool2d, for gradients and all devices, too.
 */
#ifndef SGPU_OPS_CPU_IMAGES_H
#define SGPU_OPS_CPU_IMAGES_H

#include "ops/ops_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- conv2d and its gradients: products of matrices ----
 * The left factor is stored, the right one gathered: k counts planes of an image or a gradient, and
 * rows and columns in a window on them; a column of the product is a place of the window. Columns
 * are cells one after the other, each an image or a channel. The images in k may be cut into parts,
 * each with a product of its own. All numbers are elements. */
struct sgpu_conv2d_product {
	uint64_t rows, columns, parts;
	uint64_t depth, part_depth; /* of k: in all parts, and in each but the last */
	uint64_t window, line;	    /* k = plane * window + row * line + column */
	const float *left;	    /* from one part, plane, and row of the product to the next: */
	uint64_t left_part, left_plane, left_row;
	const float *right; /* the planes */
	uint64_t right_part, right_plane, right_cell;
	int64_t height, width;	      /* of a plane */
	uint64_t cells, cell, across; /* columns in a cell, and in a row of it */
	/* The window of row r of a cell begins at r * begin + offset; its elements are `step`
	 * apart, and only multiples of `stride` exist in the plane. */
	int64_t begin, offset, step, stride;
	const float *bias; /* what the sum of a row begins with; NULL: 0 */
	int activation;
	float *to;
	uint64_t to_part, to_run, to_row, run; /* `run` columns are adjacent */
};
struct sgpu_conv2d_product sgpu_conv2d_forward(const struct sgpu_op_call *call);
struct sgpu_conv2d_product sgpu_conv2d_by_input(const struct sgpu_op_call *call);
/* The gradient of weights and bias, in the scratch memory: a row per output channel, a column per
 * weight of a kernel, and a last one, whose factors are 1, for the bias. */
struct sgpu_conv2d_product sgpu_conv2d_by_weights(const struct sgpu_op_call *call);

/* Where the window of a column is. */
struct sgpu_conv2d_place {
	const float *plane; /* the first one; NULL: all factors are 1 */
	int64_t y, x;
};
SGPU_INLINE struct sgpu_conv2d_place sgpu_conv2d_place(const struct sgpu_conv2d_product *p,
						       uint64_t part, uint64_t column)
{
	uint64_t cell = column / p->cell, at = column % p->cell;
	struct sgpu_conv2d_place place = {
		p->right + part * p->right_part + cell * p->right_cell,
		(int64_t)(at / p->across) * p->begin + p->offset,
		(int64_t)(at % p->across) * p->begin + p->offset,
	};

	place.plane = cell < p->cells ? place.plane : NULL;
	return place;
}

/* The address of a factor, or NULL for 0. */
SGPU_INLINE const float *sgpu_conv2d_factor(const struct sgpu_conv2d_product *p,
					    const struct sgpu_conv2d_place *place, uint64_t plane,
					    uint64_t row, uint64_t column)
{
	int64_t y = place->y + (int64_t)row * p->step, x = place->x + (int64_t)column * p->step;

	if (y < 0 || x < 0) {
		return NULL;
	}
	if (p->stride > 1) {
		if (y % p->stride || x % p->stride) {
			return NULL;
		}
		y /= p->stride;
		x /= p->stride;
	}
	return y < p->height && x < p->width
		       ? place->plane + plane * p->right_plane + (uint64_t)(y * p->width + x)
		       : NULL;
}

/* Adds element i of the products of all parts, in f64. */
SGPU_INLINE void sgpu_conv2d_add_parts(const struct sgpu_conv2d_product *p, uint64_t i,
				       float *weights, float *bias)
{
	uint64_t row = i / p->columns, column = i % p->columns;
	double sum = 0;

	for (uint64_t part = 0; part < p->parts; part++) {
		sum += (double)p->to[part * p->to_part + i];
	}
	if (column + 1 < p->columns && weights) {
		weights[row * (p->columns - 1) + column] = (float)sum;
	} else if (column + 1 == p->columns && bias) {
		bias[row] = (float)sum;
	}
}

/* An output's data; NULL if the output is absent or empty (sgpu_op_run says why). */
static inline float *sgpu_conv2d_output(const struct sgpu_op_call *call, int output)
{
	return sgpu_ops_count(&call->type[output]) ? (float *)call->data[output] : NULL;
}

/* ---- max_pool2d ---- */
struct sgpu_pool2d {
	uint64_t planes, height, width; /* of the input: a plane for each image and channel */
	uint64_t out_height, out_width;
	uint64_t size, stride, padding;
};

/* The index in the plane of a window's largest element, the first of equal ones; NaN is the
 * largest. Padding is below size, so no window is empty. */
SGPU_INLINE uint64_t sgpu_pool2d_place(const struct sgpu_pool2d *p, const float *plane,
				       uint64_t out_y, uint64_t out_x)
{
	uint64_t y = out_y * p->stride, x = out_x * p->stride;
	uint64_t top = y > p->padding ? y - p->padding : 0,
		 left = x > p->padding ? x - p->padding : 0;
	uint64_t bottom = y + p->size - p->padding, right = x + p->size - p->padding;
	uint64_t place = top * p->width + left;

	bottom = sgpu_ops_min(bottom, p->height);
	right = sgpu_ops_min(right, p->width);
	for (y = top; y < bottom; y++) {
		for (x = left; x < right; x++) {
			float best = plane[place], value = plane[y * p->width + x];

			place = value > best || (value != value && best == best) ? y * p->width + x
										 : place;
		}
	}
	return place;
}

/* For max_pool2d or its gradient, whose first argument is the input and whose first parameters are
 * size, stride, padding. */
struct sgpu_pool2d sgpu_pool2d_describe(const struct sgpu_op_call *call);

#ifdef __cplusplus
}
#endif
#endif
