/* SPDX-License-Identifier: Apache-2.0
 *
 * copy: every element type, every rank, sizes around the pieces.
 */
#include "ops_harness.h"
#include "unit.h"

static void check_copy(enum sgpu_dtype dtype, int rank, const uint64_t *shape)
{
	struct sgpu_type type = { .dtype = dtype, .rank = rank };
	struct ops_case c;
	uint64_t bytes;
	uint8_t *data;

	for (int i = 0; i < rank; i++) {
		type.shape[i] = shape[i];
	}
	REQUIRE(sgpu_type_bytes(&type, &bytes));
	data = malloc(bytes + 1);
	REQUIRE(data);
	for (uint64_t i = 0; i < bytes; i++) {
		data[i] = (uint8_t)ops_random();
	}
	ops_begin(&c, "copy");
	ops_input(&c, "input", dtype, rank, shape, data);
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output", dtype, rank, shape));
	CHECK(memcmp(ops_data(&c, "output"), data, bytes) == 0);
	ops_end(&c);
	free(data);
}

UNIT_TEST(every_type_is_copied_bit_by_bit)
{
	for (int dtype = SGPU_NONE + 1; dtype < SGPU_DTYPE_COUNT; dtype++) {
		check_copy((enum sgpu_dtype)dtype, 0, OPS_SCALAR);
		check_copy((enum sgpu_dtype)dtype, 1, OPS_SHAPE(1001));
		check_copy((enum sgpu_dtype)dtype, 4, OPS_SHAPE(3, 1, 7, 5));
	}
}

UNIT_TEST(empty_and_large_arrays_are_copied)
{
	check_copy(SGPU_F32, 1, OPS_SHAPE(0));
	check_copy(SGPU_U8, 4, OPS_SHAPE(5, 0, 1000000000, 1000000000));
	check_copy(SGPU_U8, 1, OPS_SHAPE((1 << 20) - 1));
	check_copy(SGPU_U8, 1, OPS_SHAPE((1 << 20) + 1));
	check_copy(SGPU_F64, 2, OPS_SHAPE(1021, 509));
}

int main(void)
{
	UNIT_RUN(every_type_is_copied_bit_by_bit);
	UNIT_RUN(empty_and_large_arrays_are_copied);
	return unit_done();
}
