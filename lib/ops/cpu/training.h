/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of training, in f64, the same source for every device: slopes of activations,
 * losses, and sums over a row, whose element i is added to lane i % SGPU_LANES before the lanes are
 * added as a tree.
 */
#ifndef SGPU_OPS_CPU_TRAINING_H
#define SGPU_OPS_CPU_TRAINING_H

#include "ops/cpu/math64.h"

/* The values are in the order of the parameter's choices. */
enum sgpu_slope { SGPU_SLOPE_RELU, SGPU_SLOPE_SIGMOID, SGPU_SLOPE_TANH };

/* The gradient at the input of an activation whose output is `activated`. A NaN remains NaN. */
SGPU_INLINE double sgpu_slope(enum sgpu_slope kind, double activated, double gradient)
{
	if (kind == SGPU_SLOPE_RELU) {
		return activated > 0 ? gradient : activated == activated ? 0 : activated;
	}
	return gradient * (kind == SGPU_SLOPE_SIGMOID ? activated * (1 - activated)
						      : 1 - activated * activated);
}

enum { SGPU_LANES = 32 };

/* Sums as a warp of a GPU does: a tree that adds neighbours first. */
SGPU_INLINE double sgpu_lanes_sum(double lanes[SGPU_LANES])
{
	for (int step = 1; step < SGPU_LANES; step *= 2) {
		for (int l = 0; l < SGPU_LANES; l += 2 * step) {
			lanes[l] += lanes[l + step];
		}
	}
	return lanes[0];
}

/* A row's loss. `sum`: of all exp(element - top); `x`: the label's element. sgpu_math_log takes no
 * NaN. */
SGPU_INLINE double sgpu_entropy(double sum, double x, double top)
{
	return sum == sum ? sgpu_math_log(sum) - (x - top) : sum;
}

/* An element of the gradient: the value of softmax, less 1 at the label, divided by the number of
 * rows. */
SGPU_INLINE double sgpu_entropy_gradient(double x, double top, double sum, bool labelled,
					 double rows)
{
	return (sgpu_math_exp(x - top) / sum - (labelled ? 1.0 : 0.0)) / rows;
}

SGPU_INLINE bool sgpu_label_fits(int64_t label, uint64_t classes)
{
	return label >= 0 && (uint64_t)label < classes;
}

#endif
