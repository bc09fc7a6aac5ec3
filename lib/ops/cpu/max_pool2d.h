/* SPDX-License-Identifier: Apache-2.0
 *
 * The windows of max_pool2d, the same for every device and for its gradient.
 */
#ifndef SGPU_OPS_CPU_MAX_POOL2D_H
#define SGPU_OPS_CPU_MAX_POOL2D_H

#include "ops/ops_private.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sgpu_pool2d {
	uint64_t planes, height, width; /* of the input: a plane for each image and channel */
	uint64_t out_height, out_width;
	uint64_t size, stride, padding;
};

/* Where the largest element of a window stands in its plane: the first of equals, and a NaN is the
 * largest. Padding is below size, so no window is empty. */
SGPU_INLINE uint64_t sgpu_pool2d_place(const struct sgpu_pool2d *p, const float *plane,
				       uint64_t out_y, uint64_t out_x)
{
	uint64_t y = out_y * p->stride, x = out_x * p->stride;
	uint64_t top = y > p->padding ? y - p->padding : 0,
		 left = x > p->padding ? x - p->padding : 0;
	uint64_t bottom = y + p->size - p->padding, right = x + p->size - p->padding;
	uint64_t place = top * p->width + left;

	bottom = bottom < p->height ? bottom : p->height;
	right = right < p->width ? right : p->width;
	for (y = top; y < bottom; y++) {
		for (x = left; x < right; x++) {
			float best = plane[place], value = plane[y * p->width + x];

			place = value > best || (value != value && best == best) ? y * p->width + x
										 : place;
		}
	}
	return place;
}

/* The extents of a call of either operation, whose input and parameters are the first ones: size,
 * stride, padding. */
struct sgpu_pool2d sgpu_pool2d_describe(const struct sgpu_op_call *call);
/* The output's type; false after a diagnostic. */
bool sgpu_pool2d_infer(const struct sgpu_op_call *call, struct sgpu_op_report *report,
		       struct sgpu_type *output);
extern const struct sgpu_op_param sgpu_pool2d_params[];

#ifdef __cplusplus
}
#endif
#endif
