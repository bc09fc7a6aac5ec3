/* SPDX-License-Identifier: Apache-2.0
 *
 * reshape and slice: the bytes stay, and what does not fit is refused.
 */
#include "ops_harness.h"
#include "unit.h"

static void begin(struct ops_case *c, const char *name, const void *data)
{
	ops_begin(c, name);
	ops_input(c, "input", SGPU_I16, 3, OPS_SHAPE(5, 6, 7), data);
}

static int16_t numbers[210];

UNIT_TEST(reshape_keeps_the_elements)
{
	struct ops_case c;

	begin(&c, "reshape", numbers);
	ops_number(&c, "dim0", 10);
	ops_number(&c, "dim1", 21);
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output", SGPU_I16, 2, OPS_SHAPE(10, 21)));
	CHECK(memcmp(ops_data(&c, "output"), numbers, sizeof(numbers)) == 0);
	ops_end(&c);
	ops_begin(&c, "reshape");
	ops_input(&c, "input", SGPU_F64, 0, OPS_SCALAR, &(double){ 2.5 });
	for (int i = 0; i < 4; i++) {
		c.call.param[i].given = true;
		c.call.param[i].number = 1;
	}
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output", SGPU_F64, 4, OPS_SHAPE(1, 1, 1, 1)) &&
	      *(double *)ops_data(&c, "output") == 2.5);
	ops_end(&c);
}

UNIT_TEST(reshape_refuses_another_number_of_elements)
{
#define RESHAPE "reshape input=i16[5,6,7] dim0="
	CHECK(ops_refuses(RESHAPE "211", "", "does not have the 210 elements"));
	CHECK(ops_refuses(RESHAPE "10 dim1=20", "", "does not have the 210 elements"));
	CHECK(ops_refuses(RESHAPE "0x1p53 dim1=0x1p53", "", "does not have the 210 elements"));
	CHECK(ops_refuses(RESHAPE "0x1p32 dim1=0x1p32 dim2=0x1p32 dim3=0x1p32", "",
			  "does not have the 210 elements"));
	CHECK(ops_refuses(RESHAPE "0 dim1=210", "", "does not have the 210 elements"));
	CHECK(ops_refuses(RESHAPE "210 dim2=1", "dim2", ""));
}

UNIT_TEST(slice_takes_neighbours)
{
	static const uint64_t ranges[][2] = { { 0, 5 }, { 1, 3 }, { 4, 1 }, { 5, 0 }, { 2, 0 } };
	struct ops_case c;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(ranges); i++) {
		uint64_t first = ranges[i][0], count = ranges[i][1];

		begin(&c, "slice", numbers);
		ops_number(&c, "first", (double)first);
		ops_number(&c, "count", (double)count);
		CHECK(ops_run(&c));
		CHECK(ops_type_is(&c, "output", SGPU_I16, 3, OPS_SHAPE(count, 6, 7)));
		CHECK(memcmp(ops_data(&c, "output"), numbers + 42 * first, count * 84) == 0);
		ops_end(&c);
	}
}

UNIT_TEST(slice_refuses_what_is_not_there)
{
	CHECK(ops_refuses("slice input=i16[5,6,7] first=0 count=6", "count", ""));
	CHECK(ops_refuses("slice input=i16[5,6,7] first=1 count=5", "count", ""));
	CHECK(ops_refuses("slice input=i16[5,6,7] first=6 count=0", "count", ""));
	CHECK(ops_refuses("slice input=i16[5,6,7] first=0x1p53 count=0x1p53", "count", ""));
}

int main(void)
{
	for (int i = 0; i < 210; i++) {
		numbers[i] = (int16_t)(i * 37);
	}
	UNIT_RUN(reshape_keeps_the_elements);
	UNIT_RUN(reshape_refuses_another_number_of_elements);
	UNIT_RUN(slice_takes_neighbours);
	UNIT_RUN(slice_refuses_what_is_not_there);
	return unit_done();
}
