/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_add: every element type against a slow sum.
 */
#include "ops/half.h"
#include "ops_harness.h"
#include "unit.h"

static bool right(enum sgpu_dtype dtype, const void *a, const void *b, const void *sum, uint64_t i)
{
	float want, got;

	switch (dtype) {
	case SGPU_F32:
		want = ((const float *)a)[i] + ((const float *)b)[i];
		got = ((const float *)sum)[i];
		return isnan(want) ? isnan(got) : want == got;
	case SGPU_F64:
		return ops_close(((const double *)sum)[i],
				 ((const double *)a)[i] + ((const double *)b)[i], 0, 0);
	case SGPU_I32:
		return ((const uint32_t *)sum)[i] ==
		       ((const uint32_t *)a)[i] + ((const uint32_t *)b)[i];
	case SGPU_U8:
		return ((const uint8_t *)sum)[i] ==
		       (((const uint8_t *)a)[i] + ((const uint8_t *)b)[i]) % 256;
	case SGPU_I16:
		return ((const uint16_t *)sum)[i] ==
		       (((const uint16_t *)a)[i] + ((const uint16_t *)b)[i]) % 65536;
	default:
		/* The sum of two halves is exact in double: one rounding. */
		want = sgpu_half_to_float(sgpu_half_from_double(
			(double)sgpu_half_to_float(((const uint16_t *)a)[i]) +
			(double)sgpu_half_to_float(((const uint16_t *)b)[i])));
		got = sgpu_half_to_float(((const uint16_t *)sum)[i]);
		return isnan(want) ? isnan(got) : want == got;
	}
}

static void check_sum(enum sgpu_dtype dtype, uint64_t count)
{
	uint64_t bytes = count * sgpu_dtype_size(dtype), bad = 0;
	uint8_t *a = malloc(bytes + 1), *b = malloc(bytes + 1);
	struct ops_case c;

	REQUIRE(a && b);
	for (uint64_t i = 0; i < bytes; i++) {
		a[i] = (uint8_t)ops_random();
		b[i] = (uint8_t)ops_random();
	}
	ops_begin(&c, "vector_add");
	ops_input(&c, "a", dtype, 1, OPS_SHAPE(count), a);
	ops_input(&c, "b", dtype, 1, OPS_SHAPE(count), b);
	CHECK(ops_run(&c) && ops_type_is(&c, "output", dtype, 1, OPS_SHAPE(count)));
	for (uint64_t i = 0; i < count; i++) {
		bad += !right(dtype, ops_data(&c, "a"), ops_data(&c, "b"), ops_data(&c, "output"),
			      i);
	}
	CHECK(bad == 0);
	ops_end(&c);
	free(a);
	free(b);
}

UNIT_TEST(sums_of_every_type_wrap_or_round)
{
	static const uint64_t counts[] = { 0, 1, 15, 17, 1000, (1 << 17) + 3 };

	for (int dtype = SGPU_F32; dtype <= SGPU_F16; dtype++) {
		for (int i = 0; i < 6; i++) {
			check_sum((enum sgpu_dtype)dtype, counts[i]);
		}
	}
}

UNIT_TEST(integers_wrap_around)
{
	static const int32_t a[] = { INT32_MAX, INT32_MIN }, b[] = { 1, -1 };
	struct ops_case c;

	ops_begin(&c, "vector_add");
	ops_input(&c, "a", SGPU_I32, 1, OPS_SHAPE(2), a);
	ops_input(&c, "b", SGPU_I32, 1, OPS_SHAPE(2), b);
	CHECK(ops_run(&c));
	CHECK(((int32_t *)ops_data(&c, "output"))[0] == INT32_MIN);
	CHECK(((int32_t *)ops_data(&c, "output"))[1] == INT32_MAX);
	ops_end(&c);
}

UNIT_TEST(types_and_shapes_must_be_equal)
{
	struct ops_case c;

	ops_begin(&c, "vector_add");
	ops_input(&c, "a", SGPU_F32, 2, OPS_SHAPE(2, 3), NULL);
	ops_input(&c, "b", SGPU_F32, 2, OPS_SHAPE(3, 2), NULL);
	CHECK(!ops_infer(&c) && strcmp(c.diagnostic_argument, "b") == 0);
	CHECK(strstr(c.diagnostic_text, "is f32[3,2], must be f32[2,3]"));
	ops_end(&c);
	ops_begin(&c, "vector_add");
	ops_input(&c, "a", SGPU_F32, 1, OPS_SHAPE(2), NULL);
	ops_input(&c, "b", SGPU_I32, 1, OPS_SHAPE(2), NULL);
	CHECK(!ops_infer(&c));
	ops_end(&c);
}

int main(void)
{
	UNIT_RUN(sums_of_every_type_wrap_or_round);
	UNIT_RUN(integers_wrap_around);
	UNIT_RUN(types_and_shapes_must_be_equal);
	return unit_done();
}
