/* SPDX-License-Identifier: Apache-2.0
 *
 * What each operation of map does with one element, for the CPU's loops and for kernels.
 */
#ifndef SGPU_OPS_MAP_ELEMENT_H
#define SGPU_OPS_MAP_ELEMENT_H

#include "ops/half.h"
#include "ops/map.h"
#include "ops/map_math.h"

/* Devices make NaN with different bits, so there is one. */
SGPU_INLINE float sgpu_map_f(float x)
{
	return x == x ? x : sgpu_float_from_bits(0x7fc00000u);
}

SGPU_INLINE double sgpu_map_d(double x)
{
	return x == x ? x : sgpu_map_nan();
}

/* ---- integers; a divisor 0 gives 0 ---- */
SGPU_MAP_LARGE int64_t sgpu_map_floordiv_i(int64_t a, int64_t b)
{
	if (b == 0 || b == -1) { /* the lowest number by -1 would overflow */
		return b ? (int64_t)(0 - (uint64_t)a) : 0;
	}
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

SGPU_MAP_LARGE int64_t sgpu_map_mod_i(int64_t a, int64_t b)
{
	int64_t rest = b == 0 || b == -1 ? 0 : a % b;

	return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

SGPU_MAP_LARGE uint64_t sgpu_map_pow_u(uint64_t a, uint64_t b)
{
	uint64_t power = 1;

	for (; b; b >>= 1, a *= a) {
		power *= b & 1 ? a : 1;
	}
	return power;
}

SGPU_INLINE int64_t sgpu_map_to_i(double x, double low, double high)
{
	double inside = x < low ? low : x > high ? high : x;

	return x != x ? 0 : inside >= 0x1p63 ? INT64_MAX : (int64_t)inside;
}

SGPU_INLINE uint64_t sgpu_map_to_u(double x)
{
	return !(x > 0) ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}

/* ---- floats ---- */
/* The rest, which is exact and has the divisor's sign, and from it the quotient rounded down. */
#define SGPU_MAP_DIVISION(type, letter, fmod, floor, copysign)                             \
	SGPU_MAP_LARGE type sgpu_map_mod_##letter(type a, type b)                          \
	{                                                                                  \
		type rest = fmod(a, b);                                                    \
                                                                                           \
		if (b != 0) {                                                              \
			rest = rest == 0	       ? copysign((type)0, b)              \
			       : (rest < 0) != (b < 0) ? rest + b                          \
						       : rest;                             \
		}                                                                          \
		return sgpu_map_##letter(rest);                                            \
	}                                                                                  \
	SGPU_MAP_LARGE type sgpu_map_floordiv_##letter(type a, type b)                     \
	{                                                                                  \
		type rest = fmod(a, b), quotient = (a - rest) / b, down;                   \
                                                                                           \
		if (b == 0) {                                                              \
			return sgpu_map_##letter(a / b);                                   \
		}                                                                          \
		quotient -= rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;                    \
		down = floor(quotient);                                                    \
		down += quotient - down > (type)0.5 ? 1 : 0;                               \
		return sgpu_map_##letter(quotient == 0 ? copysign((type)0, a / b) : down); \
	}
SGPU_MAP_DIVISION(float, f, fmodf, floorf, copysignf)
SGPU_MAP_DIVISION(double, d, fmod, floor, copysign)

/* As sgpu_half_from_float, but NaN keeps its payload. */
SGPU_INLINE uint16_t sgpu_map_half(float x)
{
	uint32_t bits = sgpu_float_bits(x), payload = bits >> 13 & 0x3ffu;

	return x == x ? sgpu_half_from_float(x)
		      : (uint16_t)(bits >> 16 & 0x8000u) | 0x7c00u | (payload ? payload : 1u);
}

/* ---- X(operation, kind, types of a, b and c, type of the result, the result) ----
 * The minimum and maximum are numpy's: a NaN wins, the first one of two. */
/* clang-format off */
#define SGPU_MAP_COMPARE(X, kind, A, B, below) \
	X(LT, kind, A, B, B, int64_t, below || (B)a < b) X(LE, kind, A, B, B, int64_t, below || (B)a <= b) \
	X(GT, kind, A, B, B, int64_t, !(below) && (B)a > b) X(GE, kind, A, B, B, int64_t, !(below) && (B)a >= b) \
	X(EQ, kind, A, B, B, int64_t, !(below) && (B)a == b) X(NE, kind, A, B, B, int64_t, below || (B)a != b)
#define SGPU_MAP_ORDER(X, kind, T) \
	SGPU_MAP_COMPARE(X, kind, T, T, 0) X(COPY, kind, T, T, T, T, a) \
	X(WHERE, kind, int64_t, T, T, T, a ? b : c) \
	X(MIN, kind, T, T, T, T, a <= b || a != a ? a : b) X(MAX, kind, T, T, T, T, a >= b || a != a ? a : b)
#define SGPU_MAP_WHOLE(X, kind, T) \
	X(ADD, kind, T, T, T, T, (T)((uint64_t)a + (uint64_t)b)) \
	X(SUB, kind, T, T, T, T, (T)((uint64_t)a - (uint64_t)b)) \
	X(MUL, kind, T, T, T, T, (T)((uint64_t)a * (uint64_t)b)) \
	X(NEG, kind, T, T, T, T, (T)(0 - (uint64_t)a)) X(NOT, kind, T, T, T, T, ~a) \
	X(AND, kind, T, T, T, T, a & b) X(OR, kind, T, T, T, T, a | b)
#define SGPU_MAP_BROKEN(X, kind, T, nan, sqrt, floor, rint, to_bits, of_bits, sign) \
	X(ADD, kind, T, T, T, T, nan(a + b)) X(SUB, kind, T, T, T, T, nan(a - b)) \
	X(MUL, kind, T, T, T, T, nan(a * b)) X(DIV, kind, T, T, T, T, nan(a / b)) \
	X(NEG, kind, T, T, T, T, of_bits(to_bits(a) ^ sign)) X(ABS, kind, T, T, T, T, of_bits(to_bits(a) & ~sign)) \
	X(SQRT, kind, T, T, T, T, nan(sqrt(a))) X(FLOOR, kind, T, T, T, T, nan(floor(a))) \
	X(ROUND, kind, T, T, T, T, nan(rint(a)))
#define SGPU_MAP_SLOW(X, kind, T, letter) \
	X(FLOORDIV, kind, T, T, T, T, sgpu_map_floordiv_##letter(a, b)) \
	X(MOD, kind, T, T, T, T, sgpu_map_mod_##letter(a, b)) \
	X(POW, kind, T, T, T, T, sgpu_map_##letter((T)sgpu_map_pow((double)a, (double)b))) \
	X(EXP, kind, T, T, T, T, sgpu_map_##letter((T)sgpu_map_exp((double)a))) \
	X(LOG, kind, T, T, T, T, sgpu_map_##letter((T)sgpu_map_log((double)a))) \
	X(SIN, kind, T, T, T, T, sgpu_map_##letter((T)sgpu_map_sine((double)a, 0))) \
	X(COS, kind, T, T, T, T, sgpu_map_##letter((T)sgpu_map_sine((double)a, 1))) \
	X(TANH, kind, T, T, T, T, sgpu_map_##letter((T)sgpu_map_tanh((double)a)))
#define SGPU_MAP_UNARY(X, op, kind, T, R, result) X(op, kind, T, T, T, R, result)

/* Of programs that are small. */
#define SGPU_MAP_SMALL_ELEMENTS(X) \
	SGPU_MAP_ORDER(X, I, int64_t) SGPU_MAP_WHOLE(X, I, int64_t) \
	SGPU_MAP_UNARY(X, ABS, I, int64_t, int64_t, (int64_t)(a < 0 ? 0 - (uint64_t)a : (uint64_t)a)) \
	SGPU_MAP_UNARY(X, TO_F, I, int64_t, float, (float)a) \
	SGPU_MAP_ORDER(X, F, float) \
	SGPU_MAP_BROKEN(X, F, float, sgpu_map_f, sqrtf, floorf, rintf, sgpu_float_bits, sgpu_float_from_bits, 0x80000000u)
#define SGPU_MAP_LARGE_ELEMENTS(X) \
	SGPU_MAP_UNARY(X, TO_U, I, int64_t, uint64_t, (uint64_t)a) \
	SGPU_MAP_UNARY(X, TO_D, I, int64_t, double, (double)a) \
	X(FLOORDIV, I, int64_t, int64_t, int64_t, int64_t, sgpu_map_floordiv_i(a, b)) \
	X(MOD, I, int64_t, int64_t, int64_t, int64_t, sgpu_map_mod_i(a, b)) \
	X(POW, I, int64_t, int64_t, int64_t, int64_t, b < 0 ? 0 : (int64_t)sgpu_map_pow_u((uint64_t)a, (uint64_t)b)) \
	SGPU_MAP_ORDER(X, U, uint64_t) SGPU_MAP_WHOLE(X, U, uint64_t) \
	X(FLOORDIV, U, uint64_t, uint64_t, uint64_t, uint64_t, b ? a / b : 0) \
	X(MOD, U, uint64_t, uint64_t, uint64_t, uint64_t, b ? a % b : 0) \
	X(POW, U, uint64_t, uint64_t, uint64_t, uint64_t, sgpu_map_pow_u(a, b)) \
	SGPU_MAP_UNARY(X, TO_I, U, uint64_t, int64_t, (int64_t)a) \
	SGPU_MAP_UNARY(X, TO_F, U, uint64_t, float, (float)a) \
	SGPU_MAP_UNARY(X, TO_D, U, uint64_t, double, (double)a) \
	SGPU_MAP_SLOW(X, F, float, f) SGPU_MAP_UNARY(X, TO_D, F, float, double, sgpu_map_d((double)a)) \
	SGPU_MAP_ORDER(X, D, double) SGPU_MAP_SLOW(X, D, double, d) \
	SGPU_MAP_BROKEN(X, D, double, sgpu_map_d, sqrt, floor, rint, sgpu_math_bits, sgpu_math_from_bits, \
			0x8000000000000000u) \
	SGPU_MAP_UNARY(X, TO_F, D, double, float, sgpu_map_f((float)a)) \
	SGPU_MAP_UNARY(X, TO_H, D, double, float, \
		       a == a ? sgpu_half_to_float(sgpu_half_from_double(a)) : sgpu_map_f((float)a)) \
	X(TO_I, D, double, double, double, int64_t, sgpu_map_to_i(a, b, c)) \
	SGPU_MAP_UNARY(X, TO_U, D, double, uint64_t, sgpu_map_to_u(a)) \
	SGPU_MAP_COMPARE(X, M, int64_t, uint64_t, a < 0)
/* clang-format on */

#endif
