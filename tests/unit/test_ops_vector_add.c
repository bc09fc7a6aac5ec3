/* SPDX-License-Identifier: Apache-2.0
 *
 * vector_add: every element type against a slow sum.
 */
#include "ops_harness.h"
#include "unit.h"

/* One rounding, or as many bits as there are: the sum is exact in f64, or of its type. */
static bool right(enum sgpu_dtype dtype, const void *a, const void *b, const void *sum, uint64_t i)
{
	uint64_t want = 0;

	ops_put(dtype, &want, 0, ops_get(dtype, a, i) + ops_get(dtype, b, i));
	return ops_close(ops_get(dtype, sum, i), ops_get(dtype, &want, 0), 0, 0);
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

UNIT_TEST(types_and_shapes_must_be_equal)
{
	CHECK(ops_refuses("vector_add a=f32[2,3] b=f32[3,2]", "b",
			  "is f32[3,2], must be f32[2,3]"));
	CHECK(ops_refuses("vector_add a=f32[2] b=i32[2]", "b", ""));
}

int main(void)
{
	UNIT_RUN(sums_of_every_type_wrap_or_round);
	UNIT_RUN(types_and_shapes_must_be_equal);
	return unit_done();
}
