/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce: against loops in long double, for all types, axes and operations.
 */
#include "ops_harness.h"
#include "unit.h"

static const enum sgpu_dtype dtypes[] = {
	SGPU_F32, SGPU_F64, SGPU_I32, SGPU_U8, SGPU_I16, SGPU_F16
};
static const char *const operations[] = { "sum", "min", "max", "mean", "std" };

/* A random element, and its value. */
static double fill(enum sgpu_dtype dtype, void *data, uint64_t i)
{
	const bool floating = dtype == SGPU_F32 || dtype == SGPU_F64;

	ops_put(dtype, data, i,
		floating	    ? ops_uniform(-1, 1)
		: dtype == SGPU_F16 ? 64 + (double)(ops_random() & 0x3ff) / 16
				    : (double)(int32_t)(uint32_t)ops_random());
	return ops_get(dtype, data, i);
}

static double element(const struct ops_case *c, uint64_t i)
{
	return ops_get(ops_type(c, "output")->dtype, ops_data(c, "output"), i);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Linear between the two nearest, as numpy.percentile; sorts the values. */
static double naive_percentile(double *values, uint64_t count, double q)
{
	double place = q / 100 * (double)(count - 1), below = floor(place), t = place - below;
	double a, b;

	qsort(values, count, sizeof(*values), by_value);
	a = values[(uint64_t)below];
	b = values[below + 1 < (double)count ? (uint64_t)below + 1 : count - 1];
	return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

/* Of the elements that `mask` takes, or of all. */
static double naive(const double *values, const uint8_t *mask, uint64_t first, uint64_t step,
		    uint64_t count, const char *operation)
{
	long double sum = 0, squares = 0, n = 0;
	double least = INFINITY, greatest = -INFINITY, *taken = malloc(count * sizeof(double));

	for (uint64_t i = 0; i < count; i++) {
		double value = values[first + i * step];

		if (!mask || mask[first + i * step]) {
			sum += (long double)value;
			least = fmin(value, least);
			greatest = fmax(value, greatest);
			taken[(uint64_t)n++] = value;
		}
	}
	for (uint64_t i = 0; (long double)i < n; i++) {
		long double distance = (long double)taken[i] - sum / n;

		squares += distance * distance;
	}
	least = strcmp(operation, "sum") == 0	 ? (double)sum
		: n == 0			 ? (double)NAN
		: strcmp(operation, "min") == 0	 ? least
		: strcmp(operation, "max") == 0	 ? greatest
		: strcmp(operation, "std") == 0	 ? (double)sqrtl(squares / n)
		: strcmp(operation, "mean") == 0 ? (double)(sum / n)
						 : naive_percentile(taken, (uint64_t)n, 50);
	free(taken);
	return least;
}

static enum sgpu_dtype expected_dtype(enum sgpu_dtype dtype, bool widened)
{
	bool floating = dtype == SGPU_F32 || dtype == SGPU_F64;

	return dtype == SGPU_F16 ? SGPU_F32 : widened && !floating ? SGPU_F64 : dtype;
}

/* axis -1: all. */
static void compare_masked(enum sgpu_dtype dtype, int rank, const uint64_t *shape, int axis,
			   const char *operation, const uint8_t *mask)
{
	uint64_t count = 1, inner = 1, length, wrong = 0;
	bool exact = strcmp(operation, "min") == 0 || strcmp(operation, "max") == 0;
	bool widened = !exact || mask;
	double tolerance = expected_dtype(dtype, widened) == SGPU_F32 ? 1e-7 : 1e-14;
	struct ops_case c;
	double *values;
	void *data;

	for (int i = 0; i < rank; i++) {
		count *= shape[i];
		inner *= axis >= 0 && i > axis ? shape[i] : 1;
	}
	length = axis >= 0 ? shape[axis] : count;
	values = ops_alloc(64, count * sizeof(double));
	data = ops_alloc(64, count * sgpu_dtype_size(dtype));
	for (uint64_t i = 0; i < count; i++) {
		values[i] = fill(dtype, data, i);
	}
	ops_begin(&c, "reduce");
	ops_input(&c, "input", dtype, rank, shape, data);
	if (mask) {
		ops_input(&c, "mask", SGPU_U8, rank, shape, mask);
	}
	ops_choice(&c, "operation", operation);
	ops_number(&c, "axis", axis);
	CHECK(ops_run(&c));
	CHECK(ops_type(&c, "output")->dtype == expected_dtype(dtype, widened));
	CHECK(ops_type(&c, "output")->rank == (axis >= 0 && rank > 1 ? rank - 1 : 1));
	for (uint64_t i = 0; i < count / length; i++) {
		double expected = naive(values, mask, i / inner * inner * length + i % inner, inner,
					length, operation);

		wrong += !ops_close(element(&c, i), expected,
				    exact ? 0 : tolerance * (double)length, tolerance);
	}
	CHECK(wrong == 0);
	ops_end(&c);
	free(data);
	free(values);
}

static void compare(enum sgpu_dtype dtype, int rank, const uint64_t *shape, int axis,
		    const char *operation)
{
	compare_masked(dtype, rank, shape, axis, operation, NULL);
}

UNIT_TEST(all_elements_of_every_type)
{
	for (size_t t = 0; t < SGPU_ARRAY_LENGTH(dtypes); t++) {
		for (size_t o = 0; o < SGPU_ARRAY_LENGTH(operations); o++) {
			compare(dtypes[t], 2, OPS_SHAPE(3, 70001), -1, operations[o]);
			compare(dtypes[t], 1, OPS_SHAPE(1), -1, operations[o]);
			compare(dtypes[t], 1, OPS_SHAPE(1023), 0, operations[o]);
		}
	}
}

UNIT_TEST(every_axis)
{
	for (size_t o = 0; o < SGPU_ARRAY_LENGTH(operations); o++) {
		for (int axis = 0; axis < 4; axis++) {
			compare(SGPU_F32, 4, OPS_SHAPE(3, 5, 7, 11), axis, operations[o]);
			compare(SGPU_I16, 4, OPS_SHAPE(2, 1, 13, 3), axis, operations[o]);
		}
	}
}

/* More than one piece of the axis, and more than one tile beside it. */
UNIT_TEST(long_axes_and_wide_rows)
{
	const uint64_t width = getenv("SGPU_TEST_SMALL") ? 300 : 1030;

	for (size_t o = 0; o < SGPU_ARRAY_LENGTH(operations); o++) {
		compare(SGPU_F32, 2, OPS_SHAPE(9001, 3), 0, operations[o]);
		compare(SGPU_U8, 2, OPS_SHAPE(5, 2500), 0, operations[o]);
		compare(SGPU_F64, 2, OPS_SHAPE(2, 66000), 1, operations[o]);
		compare(SGPU_F32, 2, OPS_SHAPE(4097, width), 0, operations[o]);
	}
}

/* More pieces than a device adds at a time. */
UNIT_TEST(many_pieces)
{
	uint64_t length = getenv("SGPU_TEST_SMALL") ? 200003 : 2500003;

	for (size_t o = 0; o < SGPU_ARRAY_LENGTH(operations); o++) {
		compare(SGPU_F32, 1, OPS_SHAPE(length), -1, operations[o]);
		compare(SGPU_U8, 1, OPS_SHAPE(length), -1, operations[o]);
		compare(SGPU_F64, 2, OPS_SHAPE(length / 5, 5), 0, operations[o]);
	}
}

/* Rows of every length that a device may treat in its own way, at odd places. */
UNIT_TEST(rows_of_every_length)
{
	static const uint64_t lengths[] = { 1, 7, 8, 9, 63, 65, 257, 4095, 4097 };

	for (size_t l = 0; l < SGPU_ARRAY_LENGTH(lengths); l++) {
		for (size_t o = 0; o < SGPU_ARRAY_LENGTH(operations); o++) {
			compare(SGPU_F32, 2, OPS_SHAPE(33, lengths[l]), 1, operations[o]);
			compare(SGPU_I16, 2, OPS_SHAPE(33, lengths[l]), 1, operations[o]);
			compare(SGPU_F16, 2, OPS_SHAPE(33, lengths[l]), 1, operations[o]);
		}
	}
}

UNIT_TEST(nan_and_signed_zeros)
{
	static const float zeros[] = { 0.0f, -0.0f, 0.0f }, one_nan[] = { 1, NAN, -INFINITY };
	static const char *const min_max[] = { "min", "max" };
	struct ops_case c;

	for (int i = 0; i < 2; i++) {
		ops_begin(&c, "reduce");
		ops_input(&c, "input", SGPU_F32, 1, OPS_SHAPE(3), zeros);
		ops_choice(&c, "operation", min_max[i]);
		REQUIRE(ops_run(&c));
		CHECK(!signbit(*(float *)ops_data(&c, "output")) == (i == 1));
		ops_end(&c);
		for (int strided = 0; strided < 2; strided++) {
			ops_begin(&c, "reduce");
			ops_input(&c, "input", SGPU_F32, 2,
				  strided ? OPS_SHAPE(3, 1) : OPS_SHAPE(1, 3), one_nan);
			ops_choice(&c, "operation", min_max[i]);
			ops_number(&c, "axis", !strided);
			REQUIRE(ops_run(&c));
			CHECK(memcmp(ops_data(&c, "output"),
				     ((const uint8_t[]){ 0, 0, 0xc0, 0x7f }), 4) == 0);
			ops_end(&c);
		}
	}
}

/* Would overflow in i32, and lose digits in f32. */
UNIT_TEST(large_sums_are_exact)
{
	int32_t *in = ops_alloc(64, 100000 * sizeof(int32_t));
	struct ops_case c;

	for (int i = 0; i < 100000; i++) {
		in[i] = INT32_MAX;
	}
	ops_begin(&c, "reduce");
	ops_input(&c, "input", SGPU_I32, 1, OPS_SHAPE(100000), in);
	ops_choice(&c, "operation", "sum");
	REQUIRE(ops_run(&c));
	CHECK(*(double *)ops_data(&c, "output") == 100000.0 * 2147483647.0);
	ops_end(&c);
	free(in);
}

UNIT_TEST(empty_inputs_and_diagnostics)
{
	struct ops_case c;

	ops_call(&c, "reduce input=f32[0] operation=sum");
	REQUIRE(ops_run(&c));
	CHECK(*(float *)ops_data(&c, "output") == 0);
	ops_end(&c);
	ops_call(&c, "reduce input=f32[0,3] operation=sum axis=0");
	REQUIRE(ops_run(&c));
	CHECK(((float *)ops_data(&c, "output"))[2] == 0);
	ops_end(&c);
	CHECK(ops_refuses("reduce input=f32[0,3] operation=max axis=0", "input", ""));
	CHECK(ops_refuses("reduce input=f32[2,3] operation=sum axis=2", "axis", ""));
}

static uint8_t *random_mask(uint64_t count)
{
	uint8_t *mask = ops_alloc(64, count);

	for (uint64_t i = 0; i < count; i++) {
		mask[i] = (uint8_t)(ops_random() & 1 ? ops_random() : 0);
	}
	return mask;
}

/* Pieces, lanes, tiles and columns; some columns have no element that counts. */
UNIT_TEST(a_mask_takes_elements)
{
	const uint64_t width = getenv("SGPU_TEST_SMALL") ? 300 : 1030;
	uint8_t *mask = random_mask(4097 * width);

	for (uint64_t row = 0; row < 4097; row++) {
		mask[row * 3] = 0; /* of [rows, 3] the first column, below */
	}
	for (size_t o = 0; o < SGPU_ARRAY_LENGTH(operations); o++) {
		for (size_t t = 0; t < SGPU_ARRAY_LENGTH(dtypes); t++) {
			compare_masked(dtypes[t], 2, OPS_SHAPE(3, 70001), -1, operations[o], mask);
			compare_masked(dtypes[t], 2, OPS_SHAPE(4097, 3), 0, operations[o], mask);
		}
		compare_masked(SGPU_F32, 2, OPS_SHAPE(4097, width), 0, operations[o], mask);
		compare_masked(SGPU_I16, 2, OPS_SHAPE(33, 4097), 1, operations[o], mask);
		compare_masked(SGPU_F64, 4, OPS_SHAPE(3, 5, 7, 11), 1, operations[o], mask);
	}
	free(mask);
}

UNIT_TEST(what_a_mask_leaves_out_may_be_anything)
{
	static const float in[] = { NAN, 3, INFINITY, 5, -INFINITY };
	static const uint8_t mask[] = { 0, 1, 0, 2, 0 };
	static const float out[] = { 8, 3, 5, 4, 1, 4 };

	for (int operation = 0; operation < 6; operation++) {
		struct ops_case c;

		ops_begin(&c, "reduce");
		ops_number(&c, "operation", operation);
		ops_input(&c, "input", SGPU_F32, 1, OPS_SHAPE(5), in);
		ops_input(&c, "mask", SGPU_U8, 1, OPS_SHAPE(5), mask);
		REQUIRE(ops_run(&c));
		CHECK(*(float *)ops_data(&c, "output") == out[operation]);
		ops_input(&c, "mask", SGPU_U8, 1, OPS_SHAPE(5), (uint8_t[5]){ 0 });
		REQUIRE(ops_run(&c));
		CHECK(operation ? isnan(*(float *)ops_data(&c, "output"))
				: *(float *)ops_data(&c, "output") == 0);
		ops_end(&c);
	}
}

UNIT_TEST(percentiles_are_those_of_the_sorted_elements)
{
	static const double qs[] = { 0, 0.1, 25, 37.5, 50, 99, 99.99, 100 };
	static const uint64_t counts[] = { 1, 2, 10, 70001 };
	uint8_t *mask = random_mask(70001);
	double *values = ops_alloc(64, 70001 * sizeof(double)), want;
	uint64_t data[70001], count, taken;

	mask[0] = 1;
	for (int i = 0; i < (int)SGPU_ARRAY_LENGTH(dtypes) * 4 * 8 * 2; i++) {
		enum sgpu_dtype dtype = dtypes[i / 64];
		struct ops_case c;

		count = counts[i / 16 % 4];
		taken = 0;
		for (uint64_t k = 0; k < count; k++) {
			double value = fill(dtype, data, k);

			if (i % 2 == 0 || mask[k]) {
				values[taken++] = value;
			}
		}
		ops_begin(&c, "reduce");
		ops_choice(&c, "operation", "percentile");
		ops_number(&c, "q", qs[i / 2 % 8]);
		ops_input(&c, "input", dtype, 1, &count, data);
		if (i % 2) {
			ops_input(&c, "mask", SGPU_U8, 1, &count, mask);
		}
		REQUIRE(ops_run(&c));
		CHECK(ops_type(&c, "output")->dtype == expected_dtype(dtype, true));
		want = naive_percentile(values, taken, qs[i / 2 % 8]);
		CHECK(element(&c, 0) ==
		      (expected_dtype(dtype, true) == SGPU_F32 ? (double)(float)want : want));
		ops_end(&c);
	}
	free(values);
	free(mask);
}

UNIT_TEST(a_percentile_of_nan_is_nan_and_of_zeros_and_infinities_is_theirs)
{
	static const double in[][3] = {
		{ NAN, 1, 2 }, { -NAN, 1, 2 }, { 0, 0, -0.0 }, { INFINITY, INFINITY, -INFINITY }
	};
	static const double out[] = { NAN, NAN, 0, INFINITY };
	struct ops_case c;

	for (int i = 0; i < 4; i++) {
		ops_begin(&c, "reduce");
		ops_choice(&c, "operation", "percentile");
		ops_number(&c, "q", 80);
		ops_input(&c, "input", SGPU_F64, 1, OPS_SHAPE(3), in[i]);
		REQUIRE(ops_run(&c));
		CHECK(ops_close(element(&c, 0), out[i], 0, 0));
		ops_end(&c);
	}
}

UNIT_TEST(masks_and_percentiles_are_checked)
{
	struct ops_case c;

	CHECK(ops_refuses("reduce input=f32[2,3] operation=mean mask=u8[3,2]", "mask", ""));
	CHECK(ops_refuses("reduce input=f32[2,3] operation=percentile mask axis=1", "axis", ""));
	CHECK(ops_refuses("reduce input=f32[2,3] operation=mean q=1", "q", ""));
	ops_call(&c, "reduce input=f32[2,3] mask"); /* its type is left out, and filled in */
	CHECK(ops_infer(&c) && ops_type_is(&c, "mask", SGPU_U8, 2, OPS_SHAPE(2, 3)));
	ops_end(&c);
}

int main(void)
{
	UNIT_RUN(all_elements_of_every_type);
	UNIT_RUN(every_axis);
	UNIT_RUN(long_axes_and_wide_rows);
	UNIT_RUN(many_pieces);
	UNIT_RUN(rows_of_every_length);
	UNIT_RUN(nan_and_signed_zeros);
	UNIT_RUN(large_sums_are_exact);
	UNIT_RUN(empty_inputs_and_diagnostics);
	UNIT_RUN(a_mask_takes_elements);
	UNIT_RUN(what_a_mask_leaves_out_may_be_anything);
	UNIT_RUN(percentiles_are_those_of_the_sorted_elements);
	UNIT_RUN(a_percentile_of_nan_is_nan_and_of_zeros_and_infinities_is_theirs);
	UNIT_RUN(masks_and_percentiles_are_checked);
	return unit_done();
}
