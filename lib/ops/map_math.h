/* SPDX-License-Identifier: Apache-2.0
 *
 * The mathematical functions of map, of operations that IEEE 754 defines to the last bit, so that
 * every device gives the same bytes. Results are within 2 units in the last place;
 * tests/unit/test_ops_map.c compares them with the C library's.
 */
#ifndef SGPU_OPS_MAP_MATH_H
#define SGPU_OPS_MAP_MATH_H

#include <math.h>

#include "ops/cpu/math64.h"

/* Inlining large functions would cost a kernel many registers. */
#ifdef __CUDACC__
#define SGPU_MAP_LARGE static __host__ __device__ __noinline__ __attribute__((unused))
#else
#define SGPU_MAP_LARGE SGPU_INLINE
#endif

/* A sum of two numbers, the second at most half a unit of the first. */
struct sgpu_pair {
	double high, low;
};

/* Exact, if |a| >= |b| or a is 0. */
SGPU_INLINE struct sgpu_pair sgpu_pair_sum(double a, double b)
{
	struct sgpu_pair sum = { a + b, 0 };

	sum.low = b - (sum.high - a);
	return sum;
}

/* a + b, for |a| >= |b.high| */
SGPU_INLINE struct sgpu_pair sgpu_pair_add(double a, struct sgpu_pair b)
{
	struct sgpu_pair sum = sgpu_pair_sum(a, b.high);

	return sgpu_pair_sum(sum.high, sum.low + b.low);
}

SGPU_INLINE struct sgpu_pair sgpu_pair_product(struct sgpu_pair a, struct sgpu_pair b)
{
	double high = a.high * b.high;

	return sgpu_pair_sum(high, fma(a.high, b.high, -high) + (a.high * b.low + a.low * b.high));
}

SGPU_INLINE double sgpu_map_nan(void)
{
	return sgpu_math_from_bits(0x7ff8000000000000u);
}

/* 2^n, a normal number */
SGPU_INLINE double sgpu_map_power2(int64_t n)
{
	return sgpu_math_from_bits((uint64_t)(n + 1023) << 52);
}

/* ((terms[0] x + terms[1]) x + terms[2]) x ... */
SGPU_INLINE double sgpu_map_series(double x, const double *terms, int count)
{
	double sum = terms[0];

	for (int i = 1; i < count; i++) {
		sum = sum * x + terms[i];
	}
	return sum;
}

/* ---- exp ---- */
/* x = n ln 2 + the returned pair; for |x.high| < 800 */
SGPU_INLINE struct sgpu_pair sgpu_map_exp_reduce(struct sgpu_pair x, int64_t *n)
{
	const double shift =
		0x1.8p52; /* adding it rounds to an integer, which is in its low bits */
	double rounded = x.high * 0x1.71547652b82fep0 + shift, count = rounded - shift;

	*n = (int64_t)(sgpu_math_bits(rounded) - sgpu_math_bits(shift));
	return sgpu_pair_sum(x.high - count * 0x1.62e42fefa3800p-1,
			     x.low - count * 0x1.ef35793c76730p-45);
}

/* e^r - 1 for |r| < 0.35 */
SGPU_INLINE double sgpu_map_expm1_near(struct sgpu_pair r)
{
	static const double terms[] = { 1.0 / 87178291200.0,
					1.0 / 6227020800.0,
					1.0 / 479001600.0,
					1.0 / 39916800.0,
					1.0 / 3628800.0,
					1.0 / 362880.0,
					1.0 / 40320.0,
					1.0 / 5040.0,
					1.0 / 720.0,
					1.0 / 120.0,
					1.0 / 24.0,
					1.0 / 6.0,
					1.0 / 2.0 };

	return r.high + (r.high * r.high * sgpu_map_series(r.high, terms, 13) + r.low);
}

/* e^x, with gradual underflow, for any x but NaN */
SGPU_INLINE double sgpu_map_exp_pair(struct sgpu_pair x)
{
	int64_t n, half;
	double power;

	if (x.high > 710 || x.high < -746) {
		x.high = x.high > 0 ? 710 : -746;
		x.low = 0;
	}
	power = 1 + sgpu_map_expm1_near(sgpu_map_exp_reduce(x, &n));
	half = n >> 1;
	return power * sgpu_map_power2(half) * sgpu_map_power2(n - half);
}

SGPU_MAP_LARGE double sgpu_map_exp(double x)
{
	struct sgpu_pair pair = { x, 0 };

	return x == x ? sgpu_map_exp_pair(pair) : sgpu_map_nan();
}

/* (e^2x - 1) / (e^2x + 1), in which e^2x - 1 keeps its digits near 0 */
SGPU_MAP_LARGE double sgpu_map_tanh(double x)
{
	double size = fabs(x), power, t, sum, ratio;
	struct sgpu_pair twice = { 2 * (size < 20 ? size : 20), 0 };
	int64_t n;

	twice = sgpu_map_exp_reduce(twice, &n);
	power = sgpu_map_power2(n);
	t = power * sgpu_map_expm1_near(twice) + (power - 1);
	sum = t + 2;
	ratio = t / sum;
	ratio += (fma(-ratio, sum, t) - ratio * (t - (sum - 2))) / sum;
	ratio = n > 1 ? 1 - 2 / sum : ratio;
	return x == x ? copysign(size < 20 ? ratio : 1.0, x) : sgpu_map_nan();
}

/* ---- log ---- */
/* To about 65 bits, for finite x = 2^e m > 0: ln m = 2 s + 2/3 s^3 + ..., s = (m - 1) / (m + 1) */
SGPU_INLINE struct sgpu_pair sgpu_map_log_pair(double x)
{
	static const double terms[] = { 2.0 / 25, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15,
					2.0 / 13, 2.0 / 11, 2.0 / 9,  2.0 / 7,	2.0 / 5 };
	uint64_t bits = sgpu_math_bits(x < 0x1p-1022 ? x * 0x1p54 : x);
	uint64_t biased = (bits - 0x3fe6a09e667f3bcdu + ((uint64_t)1024 << 52)) >> 52;
	double e = (double)((int64_t)biased - (x < 0x1p-1022 ? 1078 : 1024));
	double f = sgpu_math_from_bits(bits - ((biased - 1024) << 52)) - 1;
	struct sgpu_pair below = sgpu_pair_sum(2, f), s = { f / below.high, 0 }, z, sum;

	s.low = (fma(-s.high, below.high, f) - s.high * below.low) / below.high;
	z = sgpu_pair_product(s, s);
	sum = sgpu_pair_sum(0x1.5555555555555p-1, z.high * sgpu_map_series(z.high, terms, 11));
	sum.low += 0x1.5555555555555p-55; /* of 2/3 */
	sum = sgpu_pair_product(s, sgpu_pair_add(2, sgpu_pair_product(z, sum)));
	sum.low += e * 0x1.ef35793c76730p-45;
	return sgpu_pair_add(e * 0x1.62e42fefa3800p-1, sum);
}

SGPU_MAP_LARGE double sgpu_map_log(double x)
{
	double inside = x > 0 && x < (double)INFINITY ? x : 1, log = sgpu_map_log_pair(inside).high;

	log = x == inside ? log : x > 0 ? x : sgpu_map_nan();
	return x == 0 ? -(double)INFINITY : log;
}

/* As IEEE 754 has it: x^0 and 1^y are 1 even for NaN. */
SGPU_MAP_LARGE double sgpu_map_pow(double x, double y)
{
	double size = fabs(x), result;
	bool whole = floor(y) == y, odd = whole && fabs(y) < 0x1p53 && floor(y * 0.5) != y * 0.5;
	bool end = size == 0 || size > 0x1.fffffffffffffp1023 || fabs(y) > 0x1.fffffffffffffp1023;
	struct sgpu_pair log = sgpu_map_log_pair(end || x != x ? 1 : size), power;

	power.high = y * log.high;
	power.low = fma(y, log.high, -power.high) + y * log.low;
	result = !end			 ? sgpu_map_exp_pair(power)
		 : size == 1		 ? 1
		 : (size > 1) == (y > 0) ? (double)INFINITY
					 : 0;
	result = odd && copysign(1.0, x) < 0 ? -result : result;
	result = (x < 0 && !whole && !end) || x != x || y != y ? sgpu_map_nan() : result;
	return y == 0 || x == 1 ? 1 : result;
}

/* ---- sin and cos ---- */
/* 64 bits of 2 / pi from a bit on, after 64 zeros: what any f64 needs of it (M. Payne and R. Hanek,
 * Radian Reduction for Trigonometric Functions, 1983) */
SGPU_INLINE uint64_t sgpu_map_two_over_pi(uint64_t at)
{
	static const uint64_t words[] = {
		0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
		0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
		0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
		0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
		0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
	};
	uint64_t shift = at % 64, high = words[at / 64];

	return shift ? high << shift | words[at / 64 + 1] >> (64 - shift) : high;
}

/* x = (4 k + *quadrant) pi / 2 + the returned pair, for pi / 4 <= x < infinity. Of x times 2 / pi,
 * only bits that are worth less than 4 and more than 2^-190 matter. */
SGPU_INLINE struct sgpu_pair sgpu_map_quadrant(double x, unsigned *quadrant)
{
	uint64_t bits = sgpu_math_bits(x), at = (bits >> 52) - 1013, top;
	uint64_t m = (bits & 0x000fffffffffffffu) | 0x0010000000000000u;
	unsigned __int128 low = (unsigned __int128)m * sgpu_map_two_over_pi(at + 128), fraction;
	unsigned __int128 middle =
		(unsigned __int128)m * sgpu_map_two_over_pi(at + 64) + (uint64_t)(low >> 64);
	struct sgpu_pair turns, quarter = { 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54 };
	double scale = 0x1p-53;

	top = m * sgpu_map_two_over_pi(at) + (uint64_t)(middle >> 64);
	fraction = ((unsigned __int128)top << 64 | (uint64_t)middle) << 2 | (uint64_t)low >> 62;
	*quadrant = (unsigned)(top >> 62);
	if (fraction >> 127) { /* the nearer one */
		++*quadrant;
		fraction = -fraction;
		scale = -scale;
	}
	for (int i = 0; i < 127 && !(fraction >> 127); i++) {
		fraction <<= 1;
		scale *= 0.5;
	}
	turns.high = (double)(uint64_t)(fraction >> 75);
	turns.low = (double)(uint64_t)(fraction >> 11) * 0x1p-64;
	turns = sgpu_pair_product(turns, quarter);
	turns.high *= scale;
	turns.low *= scale;
	return turns;
}

SGPU_INLINE double sgpu_map_sin_near(struct sgpu_pair r)
{
	static const double terms[] = { 1.0 / 355687428096000.0,
					-1.0 / 1307674368000.0,
					1.0 / 6227020800.0,
					-1.0 / 39916800.0,
					1.0 / 362880.0,
					-1.0 / 5040.0,
					1.0 / 120.0,
					-1.0 / 6.0 };
	double z = r.high * r.high;

	return r.high + (r.high * z * sgpu_map_series(z, terms, 8) + r.low * (1 - 0.5 * z));
}

SGPU_INLINE double sgpu_map_cos_near(struct sgpu_pair r)
{
	static const double terms[] = {
		1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
		1.0 / 40320.0,		-1.0 / 720.0,	      1.0 / 24.0
	};
	double z = r.high * r.high, half = 0.5 * z, rest = 1 - half;

	return rest + ((1 - rest - half) + (z * z * sgpu_map_series(z, terms, 7) - r.high * r.low));
}

/* sin(x + turn pi / 2), for turn 0 or 1 */
SGPU_MAP_LARGE double sgpu_map_sine(double x, unsigned turn)
{
	struct sgpu_pair r = { fabs(x), 0 };
	unsigned quadrant = 0;
	double result;

	if (!(r.high < (double)INFINITY)) {
		return sgpu_map_nan();
	}
	if (r.high > 0.785) {
		r = sgpu_map_quadrant(r.high, &quadrant);
	}
	quadrant += turn;
	result = quadrant & 1 ? sgpu_map_cos_near(r) : sgpu_map_sin_near(r);
	return (quadrant >> 1 & 1) != (turn == 0 && x < 0) ? -result : x == 0 && !turn ? x : result;
}

#endif
