/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose and concatenate: every permutation and axis against loops over indexes.
 */
#include "ops_harness.h"
#include "unit.h"

static const char *const names[] = { "axis0", "axis1", "axis2", "axis3" };

static uint8_t *random_bytes(uint64_t count)
{
	uint8_t *bytes = ops_alloc(64, count);

	for (uint64_t i = 0; i < count; i++) {
		bytes[i] = (uint8_t)ops_random();
	}
	return bytes;
}

/* Compares with a walk over the output. */
static void check_order(enum sgpu_dtype dtype, int rank, const uint64_t *shape, const int *order)
{
	uint64_t size = sgpu_dtype_size(dtype), count = 1, steps[4], made[4], wrong = 0;
	uint8_t *data, *out;
	struct ops_case c;

	for (int i = rank; i-- > 0;) {
		steps[i] = count;
		count *= shape[i];
	}
	data = random_bytes(count * size);
	ops_begin(&c, "transpose");
	ops_input(&c, "input", dtype, rank, shape, data);
	for (int i = 0; i < rank; i++) {
		ops_number(&c, names[i], order[i]);
		made[i] = shape[order[i]];
	}
	REQUIRE(ops_run(&c));
	CHECK(ops_type_is(&c, "output", dtype, rank, made));
	out = ops_data(&c, "output");
	for (uint64_t at = 0; at < count; at++) {
		uint64_t rest = at, from = 0;

		for (int i = rank; i-- > 0; rest /= made[i]) {
			from += rest % made[i] * steps[order[i]];
		}
		wrong += memcmp(out + at * size, data + from * size, size) != 0;
	}
	CHECK(wrong == 0);
	ops_end(&c);
	free(data);
}

/* All orders of the first `rank` axes; `order` has `done` of them. */
static void every_order(enum sgpu_dtype dtype, int rank, const uint64_t *shape, int *order,
			int done)
{
	if (done == rank) {
		check_order(dtype, rank, shape, order);
	}
	for (int axis = 0; axis < rank && done < rank; axis++) {
		bool taken = false;

		for (int i = 0; i < done; i++) {
			taken |= order[i] == axis;
		}
		order[done] = axis;
		if (!taken) {
			every_order(dtype, rank, shape, order, done + 1);
		}
	}
}

UNIT_TEST(every_order_of_axes_moves_every_element)
{
	static const enum sgpu_dtype dtypes[] = { SGPU_I8, SGPU_F16, SGPU_F32, SGPU_U64 };
	int order[4];

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(dtypes); i++) {
		every_order(dtypes[i], 1, OPS_SHAPE(70), order, 0);
		every_order(dtypes[i], 2, OPS_SHAPE(130, 67), order, 0);
		every_order(dtypes[i], 3, OPS_SHAPE(9, 1, 66), order, 0);
		every_order(dtypes[i], 3, OPS_SHAPE(65, 3, 128), order, 0);
		every_order(dtypes[i], 4, OPS_SHAPE(3, 70, 5, 8), order, 0);
		every_order(dtypes[i], 4, OPS_SHAPE(1, 1, 1, 1), order, 0);
	}
	/* rows of more than one piece, and a great many short ones */
	check_order(SGPU_U8, 3, OPS_SHAPE(2, 3, (1 << 20) + 5), (const int[]){ 1, 0, 2 });
	check_order(SGPU_U8, 3, OPS_SHAPE(300, 200, 3), (const int[]){ 1, 0, 2 });
	check_order(SGPU_F32, 3, OPS_SHAPE(3, 0, 5), (const int[]){ 2, 0, 1 });
}

UNIT_TEST(without_parameters_the_axes_are_reversed)
{
	static const uint16_t in[] = { 0, 1, 2, 10, 11, 12 }, out[] = { 0, 10, 1, 11, 2, 12 };
	struct ops_case c;

	ops_begin(&c, "transpose");
	ops_input(&c, "input", SGPU_U16, 3, OPS_SHAPE(2, 1, 3), in);
	REQUIRE(ops_run(&c));
	CHECK(ops_type_is(&c, "output", SGPU_U16, 3, OPS_SHAPE(3, 1, 2)));
	CHECK(memcmp(ops_data(&c, "output"), out, sizeof(out)) == 0);
	ops_end(&c);
}

UNIT_TEST(what_is_no_order_of_the_axes_is_refused)
{
#define TRANSPOSE "transpose input=f32[2,3,4] axis0="
	CHECK(ops_refuses(TRANSPOSE "0 axis1=0 axis2=-1 axis3=-1", "axis1",
			  "axis 0 of 'input' would be in the output twice"));
	CHECK(ops_refuses(TRANSPOSE "-1 axis1=2 axis2=-1 axis3=-1", "axis1", "axis 2 of 'input'"));
	CHECK(ops_refuses(TRANSPOSE "0 axis1=1 axis2=3 axis3=-1", "axis2",
			  "is 3, but 'input' has rank 3"));
	CHECK(ops_refuses(TRANSPOSE "0 axis1=1 axis2=2 axis3=0", "axis3",
			  "is 0, but 'input' has rank 3"));
}

/* ---- concatenate ---- */
static const char *const inputs[] = { "a", "b", "c", "d", "e", "f", "g" };

/* Extents of the inputs along the axis; 0 from the third on: no such input. */
static void check_joined(enum sgpu_dtype dtype, int axis, const uint64_t extents[7])
{
	uint64_t size = sgpu_dtype_size(dtype), shape[3] = { 5, 6, 7 }, total = 0, outer = 1,
		 item = size, at = 0;
	uint8_t *data[7] = { NULL }, *out;
	bool same = true;
	struct ops_case c;

	ops_begin(&c, "concatenate");
	ops_number(&c, "axis", axis);
	for (int i = 0; i < 3; i++) {
		outer *= i < axis ? shape[i] : 1;
		item *= i > axis ? shape[i] : 1;
	}
	for (int i = 0; i < 7; i++) {
		if (i < 2 || extents[i]) {
			data[i] = random_bytes(outer * extents[i] * item);
			shape[axis] = extents[i];
			ops_input(&c, inputs[i], dtype, 3, shape, data[i]);
			total += extents[i];
		}
	}
	REQUIRE(ops_run(&c));
	shape[axis] = total;
	CHECK(ops_type_is(&c, "output", dtype, 3, shape));
	out = ops_data(&c, "output");
	for (uint64_t row = 0; row < outer; row++) {
		for (int i = 0; i < 7; at += extents[i++] * item) {
			same &= !data[i] || memcmp(out + at, data[i] + row * extents[i] * item,
						   extents[i] * item) == 0;
		}
	}
	CHECK(same && at == outer * total * item);
	ops_end(&c);
	for (int i = 0; i < 7; i++) {
		free(data[i]);
	}
}

UNIT_TEST(arrays_follow_each_other_along_every_axis)
{
	for (int axis = 0; axis < 3; axis++) {
		check_joined(SGPU_F32, axis, OPS_SHAPE(2, 3, 0, 0, 0, 0, 0));
		check_joined(SGPU_U8, axis, OPS_SHAPE(1, 2, 3, 4, 5, 6, 7));
		check_joined(SGPU_I64, axis, OPS_SHAPE(0, 4, 0, 8, 0, 0, 2));
		check_joined(SGPU_F16, axis, OPS_SHAPE(8, 16, 24, 0, 0, 0, 0));
	}
	check_joined(SGPU_U8, 0, OPS_SHAPE(30000, 5, 0, 0, 0, 0, 0));
}

UNIT_TEST(arrays_that_do_not_fit_together_are_refused)
{
#define JOIN "concatenate a=f32[2,3] b=f32[2,4] "
	CHECK(ops_refuses(JOIN "d=i32[2,4] axis=1", "d", ""));
	CHECK(ops_refuses(JOIN "d=f32[2,4,1] axis=1", "d", ""));
	CHECK(ops_refuses(JOIN "d=f32[3,4] axis=1", "d", ""));
	CHECK(ops_refuses(JOIN "d=f32[2,4] axis=2", "axis", ""));
}

int main(void)
{
	UNIT_RUN(every_order_of_axes_moves_every_element);
	UNIT_RUN(without_parameters_the_axes_are_reversed);
	UNIT_RUN(what_is_no_order_of_the_axes_is_refused);
	UNIT_RUN(arrays_follow_each_other_along_every_axis);
	UNIT_RUN(arrays_that_do_not_fit_together_are_refused);
	return unit_done();
}
