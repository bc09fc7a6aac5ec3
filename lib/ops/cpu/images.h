/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the operations on images, their gradients and all devices: the extents of conv2d, and
 * the windows of max_pool2d.
 */
#ifndef SGPU_OPS_CPU_IMAGES_H
#define SGPU_OPS_CPU_IMAGES_H

#include "ops/ops_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- conv2d ---- */
enum { SGPU_CONV2D_STEP_MAX = 1024 };

struct sgpu_conv2d {
	uint64_t images, channels, height, width; /* of the input */
	uint64_t outputs, out_height, out_width;
	uint64_t kernel_height, kernel_width;
	int64_t stride, padding, dilation;
};
struct sgpu_conv2d sgpu_conv2d_describe(const struct sgpu_op_call *call,
					const struct sgpu_type *output);

/* ---- the gradient ----
 * The gradient of weights and bias is a matrix with a row for each output channel, a column for
 * each weight of a kernel, and a last column, whose factors are 1, for the bias. It is summed over
 * the images of each part, then over the parts.
 */
enum { SGPU_CONV2D_PARTS_MAX = 64 };
SGPU_INLINE uint64_t sgpu_conv2d_part_images(uint64_t images)
{
	return sgpu_ops_ceil(images, SGPU_CONV2D_PARTS_MAX);
}
SGPU_INLINE uint64_t sgpu_conv2d_parts(uint64_t images)
{
	uint64_t each = sgpu_conv2d_part_images(images);

	return each ? sgpu_ops_ceil(images, each) : 0;
}
SGPU_INLINE uint64_t sgpu_conv2d_columns(const struct sgpu_conv2d *c)
{
	return c->channels * c->kernel_height * c->kernel_width + 1;
}

/* An output's data, or NULL if the output is absent or empty. If one extent is 0, memory does not
 * bound the others, so loops over them could take forever and write nothing. */
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

/* Returns the index in the plane of a window's largest element: the first of equal ones; NaN is the
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

/* The extents of a call of max_pool2d or its gradient, whose first argument is the input and whose
 * first parameters are: size, stride, padding. */
struct sgpu_pool2d sgpu_pool2d_describe(const struct sgpu_op_call *call);

#ifdef __cplusplus
}
#endif
#endif
