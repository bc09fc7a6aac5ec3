/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, log and the normal distribution from additions, multiplications and divisions alone: they
 * give the same bytes everywhere, and loops over them vectorise. The C library's versions, chosen
 * by CPU, differ in the last bits; tests/unit/test_ops_black_scholes.c compares with them.
 */
#ifndef SGPU_OPS_CPU_MATH64_H
#define SGPU_OPS_CPU_MATH64_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ops/ops_private.h"

SGPU_INLINE uint64_t sgpu_math_bits(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

SGPU_INLINE double sgpu_math_from_bits(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* e^x to 1 unit in the last place; 0 below -708 (no denormals), infinite above 709, NaN for NaN. */
SGPU_INLINE double sgpu_math_exp(double x)
{
	/* adding this rounds to an integer, which then is in the low bits */
	const double shift = 0x1.8p52;
	double bounded = x < -708.0 ? -708.0 : x > 709.0 ? 709.0 : x;
	double rounded = bounded * 0x1.71547652b82fep0 + shift;
	double n = rounded - shift;
	double r = bounded - n * 0x1.62e42fefa3800p-1 - n * 0x1.ef35793c76730p-45;
	double p = 1.0 / 6227020800.0;

	p = p * r + 1.0 / 479001600.0;
	p = p * r + 1.0 / 39916800.0;
	p = p * r + 1.0 / 3628800.0;
	p = p * r + 1.0 / 362880.0;
	p = p * r + 1.0 / 40320.0;
	p = p * r + 1.0 / 5040.0;
	p = p * r + 1.0 / 720.0;
	p = p * r + 1.0 / 120.0;
	p = p * r + 1.0 / 24.0;
	p = p * r + 1.0 / 6.0;
	p = p * r + 0.5;
	p = 1.0 + (r + r * r * p);
	p *= sgpu_math_from_bits((sgpu_math_bits(rounded) + 1023) << 52);
	p = x < -708.0 ? 0.0 : p;
	p = x > 709.0 ? (double)INFINITY : p;
	return x != x ? x : p;
}

/* ln of a normal, positive, finite number, within 2 units in the last place. */
SGPU_INLINE double sgpu_math_log(double x)
{
	/* sqrt(1/2): the mantissa lies in [sqrt(1/2), sqrt(2)) */
	const uint64_t half_root = 0x3fe6a09e667f3bcdu;
	uint64_t bits = sgpu_math_bits(x);
	uint64_t biased = (bits - half_root + ((uint64_t)1024 << 52)) >> 52; /* exponent + 1024 */
	double e = sgpu_math_from_bits(0x4330000000000000u + biased) - (0x1p52 + 1024.0);
	double m = sgpu_math_from_bits(bits - ((biased - 1024) << 52));
	double f = m - 1.0;
	double s = f / (2.0 + f);
	double z = s * s;
	double p = 2.0 / 23.0;

	p = p * z + 2.0 / 21.0;
	p = p * z + 2.0 / 19.0;
	p = p * z + 2.0 / 17.0;
	p = p * z + 2.0 / 15.0;
	p = p * z + 2.0 / 13.0;
	p = p * z + 2.0 / 11.0;
	p = p * z + 2.0 / 9.0;
	p = p * z + 2.0 / 7.0;
	p = p * z + 2.0 / 5.0;
	p = p * z + 2.0 / 3.0;
	/* log(1 + f) = f - s (f - z p) keeps the digits that 2 s would lose in rounding */
	return e * 0x1.62e42fefa3800p-1 + (f - (s * (f - z * p) - e * 0x1.ef35793c76730p-45));
}

/* P(X > x) of the normal distribution for x >= 0: J. F. Hart et al., Computer Approximations, 1968,
 * number 5666, in the form of G. West, Better approximations to cumulative normal functions, 2005.
 * Relative error below 3e-9 up to x = 7, and below 4e-6 beyond, where the value is under 2e-12. */
SGPU_INLINE double sgpu_math_normal_tail(double x)
{
	double up = 3.52624965998911e-02, down = 8.83883476483184e-02;

	up = up * x + 0.700383064443688;
	up = up * x + 6.37396220353165;
	up = up * x + 33.912866078383;
	up = up * x + 112.079291497871;
	up = up * x + 221.213596169931;
	up = up * x + 220.206867912376;
	down = down * x + 1.75566716318264;
	down = down * x + 16.064177579207;
	down = down * x + 86.7807322029461;
	down = down * x + 296.564248779674;
	down = down * x + 637.333633378831;
	down = down * x + 793.826512519948;
	down = down * x + 440.413735824752;
	return sgpu_math_exp(-0.5 * x * x) * (up / down);
}

/* ---- black_scholes ---- */
/* Bounds d to 40 standard deviations, beyond which the tail is 0 in f64. */
SGPU_INLINE double sgpu_math_bounded(double d)
{
	return d > 40.0 ? 40.0 : d < -40.0 ? -40.0 : d;
}

struct sgpu_option {
	double call, put;
};

/* The prices; NaN where an input is negative or NaN. `deviation` is the standard one over all
 * `years`; if it is 0 (no time left, or no volatility), only whether price exceeds the discounted
 * strike counts. */
SGPU_INLINE struct sgpu_option sgpu_math_option(double price, double strike, double years,
						double deviation, double rate)
{
	int good = (price >= 0.0) & (strike >= 0.0) & (years >= 0.0);
	double discounted = strike * sgpu_math_exp(-rate * years), ratio = price / discounted;
	double inside = ratio > 1e-150 && ratio < 1e150 ? ratio : 1.0;
	double moneyness = ratio > 1.0 ? 1e9 : ratio < 1.0 ? -1e9 : 0.0;
	double safe = deviation > 1e-150 ? deviation : 1.0;
	double d1 = sgpu_math_log(inside) / safe + 0.5 * safe, d2, tail1, tail2;

	d1 = deviation > 1e-150 && inside == ratio ? d1 : moneyness;
	d2 = sgpu_math_bounded(d1 - deviation);
	d1 = sgpu_math_bounded(d1);
	tail1 = sgpu_math_normal_tail(d1 < 0.0 ? -d1 : d1);
	tail2 = sgpu_math_normal_tail(d2 < 0.0 ? -d2 : d2);
	struct sgpu_option option = {
		price * (d1 < 0.0 ? tail1 : 1.0 - tail1) -
			discounted * (d2 < 0.0 ? tail2 : 1.0 - tail2),
		discounted * (d2 < 0.0 ? 1.0 - tail2 : tail2) -
			price * (d1 < 0.0 ? 1.0 - tail1 : tail1),
	};
	/* rounding may make a price negative */
	option.call = option.call < 0.0 ? 0.0 : option.call;
	option.put = option.put < 0.0 ? 0.0 : option.put;
	option.call = good ? option.call : (double)NAN;
	option.put = good ? option.put : (double)NAN;
	return option;
}

/* ---- the activations of dense and conv2d ---- */
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

/* tanh; near 0, where the quotient would lose the leading digits, and for NaN, by a series. */
SGPU_INLINE double sgpu_tangent(double x)
{
	double e = sgpu_math_exp(x < 0 ? 2 * x : -2 * x), z = x * x;
	double far = (1 - e) / (1 + e), signed_far = x < 0 ? -far : far;
	double near =
		x + x * z * (-1.0 / 3 + z * (2.0 / 15 + z * (-17.0 / 315 + z * (62.0 / 2835))));

	return z >= 4e-4 ? signed_far : near;
}

/* x P(X <= x) for a normal X. Below `end` the result rounds to 0. */
SGPU_INLINE double sgpu_gelu(double x)
{
	const double end = -37.6;
	double bounded = x < end ? end : x, size = bounded < 0 ? -bounded : bounded;
	double tail = sgpu_math_normal_tail(size > 40 ? 40 : size), share = 1 - tail;

	share = x < 0 ? tail : share;
	return bounded * (share * (x < end ? 0.0 : 1.0));
}

SGPU_INLINE double sgpu_activation(enum sgpu_activation activation, double x)
{
	switch (activation) {
	case SGPU_ACTIVATION_RELU:
		return sgpu_relu(x);
	case SGPU_ACTIVATION_SIGMOID:
		return sgpu_sigmoid(x);
	case SGPU_ACTIVATION_TANH:
		return sgpu_tangent(x);
	case SGPU_ACTIVATION_GELU:
		return sgpu_gelu(x);
	default:
		return x;
	}
}

#endif
