/* SPDX-License-Identifier: Apache-2.0
 *
 * threshold: masks and indexes against a naive loop, for every element type.
 */
#include "ops_harness.h"
#include "unit.h"

enum { COUNT = 70001 }; /* more than one piece, and an odd rest */

static const enum sgpu_dtype dtypes[] = {
	SGPU_F32, SGPU_F64, SGPU_I32, SGPU_U8, SGPU_I16, SGPU_F16
};

/* An array of COUNT elements, whose values are in *values. */
static void *make(enum sgpu_dtype dtype, double **values)
{
	const double low = dtype == SGPU_U8 ? 0 : dtype == SGPU_F16 ? 64 : -300;
	void *data = ops_values(dtype, COUNT, low, dtype == SGPU_F16 ? 128 : 256);

	*values = ops_alloc(64, COUNT * sizeof(double));
	for (uint64_t i = 0; i < COUNT; i++) {
		(*values)[i] = ops_get(dtype, data, i);
	}
	return data;
}

static int wrong_masks(const struct ops_case *c, const double *values)
{
	const uint8_t *out = ops_data(c, "output");
	int wrong = !ops_type_is(c, "output", SGPU_U8, 2, OPS_SHAPE(1, COUNT));

	for (uint64_t i = 0; i < COUNT; i++) {
		wrong += out[i] != (values[i] >= 70.25 && values[i] <= 123.0);
	}
	return wrong;
}

static int wrong_indices(const struct ops_case *c, const double *values)
{
	const int32_t *out = ops_data(c, "output");
	int wrong = !ops_type_is(c, "output", SGPU_I32, 1, OPS_SHAPE(COUNT));
	uint64_t found = 0;

	for (uint64_t i = 0; i < COUNT; i++) {
		if (values[i] >= 70.25 && values[i] <= 123.0) {
			wrong += found >= c->actual || out[found] != (int32_t)i;
			found++;
		}
	}
	return wrong + (found == 0 || c->actual != found);
}

UNIT_TEST(masks_and_indices_of_every_type)
{
	for (size_t i = 0; i < 2 * SGPU_ARRAY_LENGTH(dtypes); i++) {
		const enum sgpu_dtype dtype = dtypes[i / 2];
		double *values;
		void *data = make(dtype, &values);
		struct ops_case c;

		ops_begin(&c, "threshold");
		ops_input(&c, "input", dtype, i % 2 ? 1 : 2,
			  i % 2 ? OPS_SHAPE(COUNT) : OPS_SHAPE(1, COUNT), data);
		ops_number(&c, "low", 70.25);
		ops_number(&c, "high", 123.0);
		ops_choice(&c, "mode", i % 2 ? "indices" : "mask");
		CHECK(c.call.op->at_most(&c.call) == i % 2);
		REQUIRE(ops_run(&c));
		CHECK((i % 2 ? wrong_indices : wrong_masks)(&c, values) == 0);
		ops_end(&c);
		free(values);
		free(data);
	}
}

/* Many pieces, with none, some and all of their elements inside. */
UNIT_TEST(indices_of_a_long_array)
{
	uint64_t count = getenv("SGPU_TEST_SMALL") ? 300001 : 3000001, found = 0;
	float *values = ops_alloc(64, count * sizeof(*values));
	struct ops_case c;
	const int32_t *out;
	int wrong = 0;

	for (uint64_t i = 0; i < count; i++) {
		values[i] = i / 50000 % 3 == 0	 ? 0
			    : i / 50000 % 3 == 1 ? 1
						 : (float)ops_uniform(0, 1);
	}
	ops_begin(&c, "threshold");
	ops_input(&c, "input", SGPU_F32, 1, OPS_SHAPE(count), values);
	ops_number(&c, "low", 0.75);
	ops_choice(&c, "mode", "indices");
	REQUIRE(ops_run(&c));
	out = ops_data(&c, "output");
	for (uint64_t i = 0; i < count; i++) {
		if (values[i] >= 0.75f) {
			wrong += found >= c.actual || out[found] != (int32_t)i;
			found++;
		}
	}
	CHECK(wrong == 0 && c.actual == found);
	ops_end(&c);
	free(values);
}

/* Bounds that no f32 or u8 equals still include exactly the values between them. */
UNIT_TEST(bounds_between_values_are_exact)
{
	const float values[] = { 0.1f,
				 nextafterf(0.1f, 0.0f),
				 nextafterf(0.1f, 1.0f),
				 -0.0f,
				 NAN,
				 INFINITY,
				 -INFINITY,
				 -3.4e38f };
	const uint8_t bytes[] = { 0, 1, 2, 254, 255 };
	const struct {
		enum sgpu_dtype dtype;
		uint64_t count;
		const void *input;
		double low, high;
		uint8_t inside[8];
	} cases[] = {
		{ SGPU_F32, 8, values, 0.1, 1e300, { 1, 0, 1 } },
		{ SGPU_F32, 8, values, -1e300, 0.0, { 0, 0, 0, 1, 0, 0, 0, 1 } },
		{ SGPU_U8, 5, bytes, 0.5, 1e9, { 0, 1, 1, 1, 1 } },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		struct ops_case c;

		ops_begin(&c, "threshold");
		ops_input(&c, "input", cases[i].dtype, 1, &cases[i].count, cases[i].input);
		ops_number(&c, "low", cases[i].low);
		ops_number(&c, "high", cases[i].high);
		REQUIRE(ops_run(&c));
		CHECK(memcmp(ops_data(&c, "output"), cases[i].inside, cases[i].count) == 0);
		ops_end(&c);
	}
}

UNIT_TEST(no_bounds_take_all_but_nan)
{
	const float values[] = { NAN, INFINITY, -INFINITY, 1 };
	struct ops_case c;

	ops_begin(&c, "threshold");
	ops_input(&c, "input", SGPU_F32, 1, OPS_SHAPE(4), values);
	REQUIRE(ops_run(&c));
	CHECK(memcmp(ops_data(&c, "output"), ((const uint8_t[]){ 0, 1, 1, 1 }), 4) == 0);
	ops_end(&c);
}

UNIT_TEST(nothing_inside_and_nothing_at_all)
{
	const float values[] = { 1, 2, 3 };
	struct ops_case c;

	for (uint64_t count = 0; count <= 3; count += 3) {
		ops_begin(&c, "threshold");
		ops_input(&c, "input", SGPU_F32, 1, OPS_SHAPE(count), values);
		ops_number(&c, "low", 4);
		ops_choice(&c, "mode", "indices");
		CHECK(ops_run(&c));
		CHECK(c.actual == 0);
		ops_end(&c);
	}
}

UNIT_TEST(diagnostics)
{
	CHECK(ops_refuses("threshold input=f32[4] low=2 high=1", "low", ""));
}

int main(void)
{
	UNIT_RUN(masks_and_indices_of_every_type);
	UNIT_RUN(indices_of_a_long_array);
	UNIT_RUN(bounds_between_values_are_exact);
	UNIT_RUN(no_bounds_take_all_but_nan);
	UNIT_RUN(nothing_inside_and_nothing_at_all);
	UNIT_RUN(diagnostics);
	return unit_done();
}
