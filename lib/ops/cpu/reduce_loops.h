/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of reduce.c: sums and the least of blocks of f64, in lanes and element by element.
 */
#ifndef SGPU_OPS_CPU_REDUCE_LOOPS_H
#define SGPU_OPS_CPU_REDUCE_LOOPS_H

#include <math.h>
#include <string.h>

#include "ops/cpu/reduce_view.h"

enum {
	LANES = SGPU_REDUCE_LANES,
	BLOCK = 1024, /* elements converted at a time */
};

/* ---- the least, in an order that is total: -NaN and NaN first, then -0 before +0 ----
 * The greatest is the least of the negated values, negated. */
SGPU_INLINE int64_t key(double value)
{
	int64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bits ^= (int64_t)((uint64_t)(bits >> 63) >> 1);
	return value != value ? INT64_MIN : bits;
}

SGPU_INLINE double unkey(int64_t bits)
{
	double value;

	if (bits == INT64_MIN) {
		return (double)NAN;
	}
	bits ^= (int64_t)((uint64_t)(bits >> 63) >> 1);
	memcpy(&value, &bits, sizeof(value));
	return value;
}

SGPU_INLINE double lesser(double a, double b)
{
	return key(b) < key(a) ? b : a;
}

SGPU_CLONES_ATTR static void negate(double *values, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		values[i] = -values[i];
	}
}

/* ---- adjacent elements: a whole block into lanes ---- */
SGPU_CLONES_ATTR static void add_lanes(const double *values, double lanes[LANES])
{
	for (int i = 0; i < BLOCK; i += LANES) {
		for (int lane = 0; lane < LANES; lane++) {
			lanes[lane] += values[i + lane];
		}
	}
}

SGPU_CLONES_ATTR static void least_lanes(const double *values, int64_t lanes[LANES])
{
	for (int i = 0; i < BLOCK; i += LANES) {
		for (int lane = 0; lane < LANES; lane++) {
			int64_t candidate = key(values[i + lane]);

			lanes[lane] = candidate < lanes[lane] ? candidate : lanes[lane];
		}
	}
}

/* ---- elements apart: a row into another ---- */
SGPU_CLONES_ATTR static void add_row(double *into, const double *row, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		into[i] += row[i];
	}
}

SGPU_CLONES_ATTR static void least_row(double *into, const double *row, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		into[i] = lesser(into[i], row[i]);
	}
}

#endif
