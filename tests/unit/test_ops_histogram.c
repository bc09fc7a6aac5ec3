/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram: against a search for the bin among its edges.
 */
#include "ops_harness.h"
#include "unit.h"

/* The bin by definition, or -1. */
static int naive_bin(double value, int bins, double min, double max)
{
	double width = (max - min) / bins;

	if (!(value >= min && value <= max)) {
		return -1;
	}
	for (int bin = 0; bin < bins - 1; bin++) {
		double next = (double)(bin + 1) * width;

		if (value < next + min) {
			return bin;
		}
	}
	return bins - 1;
}

static void compare(enum sgpu_dtype dtype, uint64_t count, const void *data, int bins, double min,
		    double max)
{
	int32_t *expected = calloc((size_t)bins, sizeof(*expected));
	struct ops_case c;

	for (uint64_t i = 0; i < count; i++) {
		const int bin = naive_bin(ops_get(dtype, data, i), bins, min, max);

		if (bin >= 0) {
			expected[bin]++;
		}
	}
	ops_begin(&c, "histogram");
	ops_input(&c, "input", dtype, 1, OPS_SHAPE(count), data);
	ops_number(&c, "bins", bins);
	ops_number(&c, "min", min);
	ops_number(&c, "max", max);
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output", SGPU_I32, 1, OPS_SHAPE((uint64_t)bins)));
	CHECK(memcmp(ops_data(&c, "output"), expected, (size_t)bins * sizeof(*expected)) == 0);
	ops_end(&c);
	free(expected);
}

UNIT_TEST(floats_with_odd_values)
{
	enum { COUNT = 150001 };
	float *f32 = ops_alloc(64, COUNT * sizeof(float));
	double *f64 = ops_alloc(64, COUNT * sizeof(double));

	for (int i = 0; i < COUNT; i++) {
		f64[i] = ops_uniform(-1.5, 1.5);
		f32[i] = (float)f64[i];
	}
	f64[0] = NAN;
	f64[1] = INFINITY;
	f64[2] = -INFINITY;
	f64[3] = 1.0;
	f64[4] = -1.0;
	f64[5] = nextafter(1.0, 2.0);
	f32[0] = NAN;
	f32[1] = 1.0f;
	compare(SGPU_F32, COUNT, f32, 100, -1, 1);
	compare(SGPU_F64, COUNT, f64, 37, -1, 1);
	compare(SGPU_F64, 999, f64, 1, -1, 1);
	free(f64);
	free(f32);
}

/* Values right at the edges, where a quotient alone would pick the wrong bin. */
UNIT_TEST(edges_belong_to_the_bin_above)
{
	enum { BINS = 1000 };
	double values[3 * (BINS + 1)];

	for (int i = 0; i <= BINS; i++) {
		double edge = (double)i * (0.7 / BINS) + 0.1;

		values[3 * i] = edge;
		values[3 * i + 1] = nextafter(edge, 0);
		values[3 * i + 2] = nextafter(edge, 1);
	}
	compare(SGPU_F64, 3 * (BINS + 1), values, BINS, 0.1, 0.1 + 0.7);
}

UNIT_TEST(integers)
{
	enum { COUNT = 70001 };
	int32_t *i32 = ops_alloc(64, COUNT * sizeof(int32_t));
	int16_t *i16 = ops_alloc(64, COUNT * sizeof(int16_t));
	uint8_t *u8 = ops_alloc(64, COUNT);

	for (int i = 0; i < COUNT; i++) {
		i32[i] = (int32_t)(uint32_t)ops_random();
		i16[i] = (int16_t)(ops_random() & 0xffff);
		u8[i] = (uint8_t)(ops_random() % 251);
	}
	compare(SGPU_I32, COUNT, i32, 50, -2147483648.0, 2147483647.0);
	compare(SGPU_I16, COUNT, i16, 129, -1000, 999.5);
	compare(SGPU_U8, COUNT, u8, 256, 0, 256);
	compare(SGPU_U8, COUNT, u8, 7, 10, 200);
	compare(SGPU_U8, 3, u8, 65536, 0, 255);
	free(u8);
	free(i16);
	free(i32);
}

/* Tables of every size that a device may treat in its own way. */
UNIT_TEST(few_and_very_many_bins)
{
	enum { COUNT = 4001 };
	static const int bins[] = { 1, 2, 20, 256, 257, 5000, 13000, 30000, 65536 };
	float *values = ops_alloc(64, COUNT * sizeof(float));

	for (int i = 0; i < COUNT; i++) {
		values[i] = (float)ops_uniform(-0.1, 1.1);
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bins); i++) {
		compare(SGPU_F32, COUNT, values, bins[i], 0, 1);
	}
	free(values);
}

/* Bins that are narrower than the steps between numbers, or nearly as small and large as numbers
 * get. */
UNIT_TEST(widths_at_the_limits)
{
	static const double bounds[][2] = {
		{ 1e16, 1e16 + 20 }, { 0, 1e-300 }, { -1e300, 1e300 }, { 0, 5e-324 }
	};
	enum { COUNT = 4001 };
	double *values = ops_alloc(64, COUNT * sizeof(double));

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bounds); i++) {
		struct ops_case c;
		int64_t total = 0;

		for (int j = 0; j < COUNT; j++) {
			double share = ops_uniform(0, 1);

			values[j] = bounds[i][0] * (1 - share) + bounds[i][1] * share;
		}
		ops_begin(&c, "histogram");
		ops_input(&c, "input", SGPU_F64, 1, OPS_SHAPE(COUNT), values);
		ops_number(&c, "bins", 1000);
		ops_number(&c, "min", bounds[i][0]);
		ops_number(&c, "max", bounds[i][1]);
		REQUIRE(ops_run(&c));
		for (int bin = 0; bin < 1000; bin++) {
			total += ((int32_t *)ops_data(&c, "output"))[bin];
		}
		CHECK(total == COUNT);
		ops_end(&c);
	}
	free(values);
}

UNIT_TEST(nothing_at_all)
{
	compare(SGPU_F32, 0, "", 5, 0, 1);
	compare(SGPU_U8, 0, "", 5, 0, 1);
}

UNIT_TEST(diagnostics)
{
	CHECK(ops_refuses("histogram input=f32[4] min=1 max=1", "max", ""));
}

int main(void)
{
	UNIT_RUN(floats_with_odd_values);
	UNIT_RUN(edges_belong_to_the_bin_above);
	UNIT_RUN(integers);
	UNIT_RUN(few_and_very_many_bins);
	UNIT_RUN(widths_at_the_limits);
	UNIT_RUN(nothing_at_all);
	UNIT_RUN(diagnostics);
	return unit_done();
}
