/* SPDX-License-Identifier: Apache-2.0
 *
 * The activations of dense, in f64, for every device.
 */
#ifndef SGPU_OPS_CPU_ACTIVATION_H
#define SGPU_OPS_CPU_ACTIVATION_H

#include "ops/cpu/math64.h"

/* In the order of the parameter's choices. */
enum sgpu_activation {
	SGPU_ACTIVATION_NONE,
	SGPU_ACTIVATION_RELU,
	SGPU_ACTIVATION_SIGMOID,
	SGPU_ACTIVATION_TANH,
	SGPU_ACTIVATION_GELU,
};

SGPU_INLINE double sgpu_relu(double x)
{
	return x > 0 || x != x ? x : 0;
}

SGPU_INLINE double sgpu_sigmoid(double x)
{
	return 1 / (1 + sgpu_math_exp(-x));
}

/* Near 0 the quotient would lose the leading digits: the series instead, and for NaN. */
SGPU_INLINE double sgpu_tangent(double x)
{
	double e = sgpu_math_exp(x < 0 ? 2 * x : -2 * x), z = x * x;
	double far = (1 - e) / (1 + e), signed_far = x < 0 ? -far : far;
	double near =
		x + x * z * (-1.0 / 3 + z * (2.0 / 15 + z * (-17.0 / 315 + z * (62.0 / 2835))));

	return z >= 4e-4 ? signed_far : near;
}

/* x P(X <= x) for a normal X. Below `end` the type has nothing but 0; rounding to it would be slow.
 */
SGPU_INLINE double sgpu_gelu(double x, double end)
{
	double bounded = x < end ? end : x, size = bounded < 0 ? -bounded : bounded;
	double tail = sgpu_math_normal_tail(size > 40 ? 40 : size), share = 1 - tail;

	share = x < 0 ? tail : share;
	return bounded * (share * (x < end ? 0.0 : 1.0));
}

SGPU_INLINE double sgpu_gelu_single(double x)
{
	return sgpu_gelu(x, -14.4);
}

SGPU_INLINE double sgpu_gelu_double(double x)
{
	return sgpu_gelu(x, -37.6);
}

#endif
