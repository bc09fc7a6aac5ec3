/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of training, in f64, the same source for every device. Element i of a row is added
 * to lane i % SGPU_LANES before the lanes are added as a tree.
 */
#ifndef SGPU_OPS_CPU_TRAINING_H
#define SGPU_OPS_CPU_TRAINING_H

#include "ops/cpu/math64.h"

/* In the order of the parameter's choices. */
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

/* ---- elements [begin, end) of a call, for f64 (wide) or f32 ---- */
SGPU_INLINE void sgpu_slopes(bool wide, const struct sgpu_op_call *call, uint64_t begin,
			     uint64_t end)
{
	enum { ACTIVATED, GRADIENT, OUTPUT };
	enum sgpu_slope kind = (enum sgpu_slope)(int)call->param[0].number;

	for (uint64_t i = begin; i < end; i++) {
		sgpu_real_set(wide, call->data[OUTPUT], i,
			      sgpu_slope(kind, sgpu_real(wide, call->data[ACTIVATED], i),
					 sgpu_real(wide, call->data[GRADIENT], i)));
	}
}

/* The new velocity is rounded to the type before it moves the weight. */
SGPU_INLINE void sgpu_descend(bool wide, const struct sgpu_op_call *call, uint64_t begin,
			      uint64_t end)
{
	enum { WEIGHTS, GRADIENT, VELOCITY, OUTPUT, OUTPUT_VELOCITY, RATE = 0, MOMENTUM };
	const void *velocity = call->data[VELOCITY];
	void *output_velocity = call->data[OUTPUT_VELOCITY];
	double rate = call->param[RATE].number, momentum = call->param[MOMENTUM].number;

	for (uint64_t i = begin; i < end; i++) {
		double before = velocity ? momentum * sgpu_real(wide, velocity, i) : 0.0;
		double sum = before + sgpu_real(wide, call->data[GRADIENT], i);
		double now = wide ? sum : (double)(float)sum;

		sgpu_real_set(wide, call->data[OUTPUT], i,
			      sgpu_real(wide, call->data[WEIGHTS], i) - rate * now);
		if (output_velocity) {
			sgpu_real_set(wide, output_velocity, i, now);
		}
	}
}

/* ---- losses ---- */
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

/* An element of the gradient: softmax, less 1 at the label, divided by the number of rows. */
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
