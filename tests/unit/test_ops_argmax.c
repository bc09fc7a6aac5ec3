/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax: every element type, ties, NaN, rows longer than a block.
 */
#include "ops_harness.h"
#include "unit.h"

static int32_t reference(enum sgpu_dtype dtype, const void *data, uint64_t begin, uint64_t count)
{
	uint64_t place = 0;

	for (uint64_t i = 0; i < count; i++) {
		double x = ops_get(dtype, data, begin + i);

		if (isnan(x)) {
			return (int32_t)i;
		}
		place = x > ops_get(dtype, data, begin + place) ? i : place;
	}
	return (int32_t)place;
}

/* levels: how many values there are, so that few give ties. */
static void check_rows(enum sgpu_dtype dtype, uint64_t rows, uint64_t count, uint64_t levels)
{
	void *data = malloc(rows * count * 8 + 8);
	struct ops_case c;
	uint64_t bad = 0;

	REQUIRE(data);
	for (uint64_t i = 0; i < rows * count; i++) {
		uint64_t value = ops_random() % levels;

		ops_put(dtype, data, i, (double)value - (dtype == SGPU_U8 ? 0 : 3));
		if (dtype == SGPU_F16 && ops_random() % 4 == 0) {
			((uint16_t *)data)[i] = (uint16_t)ops_random();
		}
	}
	ops_begin(&c, "argmax");
	ops_input(&c, "input", dtype, 2, OPS_SHAPE(rows, count), data);
	CHECK(ops_run(&c) && ops_type_is(&c, "output", SGPU_I32, 1, OPS_SHAPE(rows)));
	for (uint64_t row = 0; row < rows; row++) {
		bad += ((int32_t *)ops_data(&c, "output"))[row] !=
		       reference(dtype, data, row * count, count);
	}
	CHECK(bad == 0);
	ops_end(&c);
	free(data);
}

UNIT_TEST(the_first_of_the_largest_in_rows_of_any_length)
{
	static const uint64_t counts[] = { 1, 2, 7, 10, 511, 512, 513, 2000 };

	for (int dtype = SGPU_F32; dtype <= SGPU_F16; dtype++) {
		for (int i = 0; i < 8; i++) {
			check_rows((enum sgpu_dtype)dtype, 37, counts[i], 5);
			check_rows((enum sgpu_dtype)dtype, 37, counts[i], 30000);
		}
		check_rows((enum sgpu_dtype)dtype, 0, 4, 5);
		check_rows((enum sgpu_dtype)dtype, 9001, 3, 5);
		check_rows((enum sgpu_dtype)dtype, 2, 2049, 30000);
		check_rows((enum sgpu_dtype)dtype, 3, (2 << 16) + 5, 30000);
	}
}

UNIT_TEST(nan_counts_as_the_largest_and_infinities_in_order)
{
	static const float input[] = { 1,   NAN, INFINITY, -INFINITY, -INFINITY, -INFINITY,
				       NAN, NAN, 1,	   2,	      INFINITY,	 3 };
	struct ops_case c;
	const int32_t *out;

	ops_begin(&c, "argmax");
	ops_input(&c, "input", SGPU_F32, 2, OPS_SHAPE(4, 3), input);
	CHECK(ops_run(&c));
	out = ops_data(&c, "output");
	CHECK(out[0] == 1 && out[1] == 0 && out[2] == 0 && out[3] == 1);
	ops_end(&c);
}

UNIT_TEST(nan_is_found_behind_the_first_block)
{
	float input[2000] = { 0 };
	struct ops_case c;

	input[100] = INFINITY;
	input[1700] = NAN;
	input[1800] = NAN;
	ops_begin(&c, "argmax");
	ops_input(&c, "input", SGPU_F32, 1, OPS_SHAPE(2000), input);
	CHECK(ops_run(&c) && ops_type_is(&c, "output", SGPU_I32, 0, OPS_SCALAR));
	CHECK(((int32_t *)ops_data(&c, "output"))[0] == 1700);
	ops_end(&c);
}

UNIT_TEST(an_empty_axis_is_a_diagnostic)
{
	CHECK(ops_refuses("argmax input=f32[3,0]", "input", ""));
}

int main(void)
{
	UNIT_RUN(the_first_of_the_largest_in_rows_of_any_length);
	UNIT_RUN(nan_counts_as_the_largest_and_infinities_in_order);
	UNIT_RUN(nan_is_found_behind_the_first_block);
	UNIT_RUN(an_empty_axis_is_a_diagnostic);
	return unit_done();
}
