/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax: against the definition in the precision of the mathematical library; extremes,
 * infinities, NaN.
 */
#include "ops_harness.h"
#include "unit.h"

static void reference(const double *x, double *want, uint64_t count)
{
	long double top = x[0], sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		top = x[i] > top ? x[i] : top;
	}
	for (uint64_t i = 0; i < count; i++) {
		sum += expl(x[i] - top);
	}
	for (uint64_t i = 0; i < count; i++) {
		want[i] = (double)(expl(x[i] - top) / sum);
	}
}

static void check_rows(enum sgpu_dtype dtype, uint64_t rows, uint64_t count, double low,
		       double high)
{
	uint64_t all = rows * count;
	void *in = ops_values(dtype, all, low, high);
	double *x = ops_alloc(64, all * 8), *want = ops_alloc(64, all * 8);
	float *want_single = ops_alloc(64, all * 4);
	struct ops_case c;

	for (uint64_t i = 0; i < all; i++) {
		x[i] = ops_get(dtype, in, i);
	}
	for (uint64_t row = 0; row < rows && count; row++) {
		reference(x + row * count, want + row * count, count);
	}
	for (uint64_t i = 0; i < all; i++) {
		want_single[i] = (float)want[i];
	}
	ops_begin(&c, "softmax");
	ops_input(&c, "input", dtype, 2, OPS_SHAPE(rows, count), in);
	ops_tolerance(&c, dtype == SGPU_F32 ? 3e-7 : 4e-15, dtype == SGPU_F32 ? 2e-44 : 2e-307);
	CHECK(ops_run(&c) && ops_type_is(&c, "output", dtype, 2, OPS_SHAPE(rows, count)));
	if (dtype == SGPU_F32) {
		CHECK(ops_close_f32(ops_data(&c, "output"), want_single, all, 1e-44, 2e-7));
	} else {
		CHECK(ops_close_f64(ops_data(&c, "output"), want, all, 1e-307, 3e-15));
	}
	ops_end(&c);
	free(in);
	free(x);
	free(want);
	free(want_single);
}

UNIT_TEST(rows_of_every_length)
{
	for (uint64_t count = 0; count < 40; count++) {
		check_rows(SGPU_F32, 11, count, -10, 10);
		check_rows(SGPU_F64, 11, count, -10, 10);
	}
	check_rows(SGPU_F32, 0, 5, -1, 1);
	check_rows(SGPU_F32, 5000, 10, -1, 1);
	check_rows(SGPU_F32, 3, 40000, -5, 5);
	check_rows(SGPU_F64, 1, 200001, -5, 5);
	check_rows(SGPU_F32, 2, 70001, -5, 5);
}

UNIT_TEST(large_values_do_not_overflow)
{
	check_rows(SGPU_F32, 4, 100, -1e38, 1e38);
	check_rows(SGPU_F64, 4, 100, 900, 1500);
	check_rows(SGPU_F64, 4, 100, -1e5, -1e4);
}

UNIT_TEST(a_row_with_nan_or_infinity_is_nan_alone)
{
	static const float input[] = { 0,	  1, NAN, 0,	     INFINITY,	1,
				       -INFINITY, 0, 0,	  -INFINITY, -INFINITY, -INFINITY };
	struct ops_case c;
	const float *out;

	ops_begin(&c, "softmax");
	ops_input(&c, "input", SGPU_F32, 3, OPS_SHAPE(2, 2, 3), input);
	CHECK(ops_run(&c));
	out = ops_data(&c, "output");
	for (int i = 0; i < 3; i++) {
		CHECK(isnan(out[i]) && isnan(out[9 + i]));
	}
	CHECK(isnan(out[4]));
	CHECK(out[6] == 0 && out[7] == 0.5f && out[8] == 0.5f);
	ops_end(&c);
}

int main(void)
{
	UNIT_RUN(rows_of_every_length);
	UNIT_RUN(large_values_do_not_overflow);
	UNIT_RUN(a_row_with_nan_or_infinity_is_nan_alone);
	return unit_done();
}
