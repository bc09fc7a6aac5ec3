/* SPDX-License-Identifier: Apache-2.0
 *
 * morphology3d: erosion and dilation against the definition by balls, components against a flood
 * fill.
 */
#include "ops_harness.h"
#include "unit.h"

struct volume {
	int64_t shape[3];
	uint8_t *data;
};

static struct volume make(int64_t z, int64_t y, int64_t x)
{
	struct volume v = { { z, y, x }, ops_alloc(64, (uint64_t)(z * y * x)) };

	memset(v.data, 0, (size_t)(z * y * x));
	return v;
}

static uint64_t size(const struct volume *v)
{
	return (uint64_t)(v->shape[0] * v->shape[1] * v->shape[2]);
}

static uint8_t *voxel(const struct volume *v, int64_t z, int64_t y, int64_t x)
{
	return v->data + (z * v->shape[1] + y) * v->shape[2] + x;
}

static bool inside(const struct volume *v, int64_t z, int64_t y, int64_t x)
{
	return z >= 0 && z < v->shape[0] && y >= 0 && y < v->shape[1] && x >= 0 && x < v->shape[2];
}

/* Whether a voxel of the ball around a place has the value; what lies outside has the value 0. */
static bool meets(const struct volume *v, int64_t z, int64_t y, int64_t x, int64_t r, bool value)
{
	for (int64_t dz = -r; dz <= r; dz++) {
		for (int64_t dy = -r; dy <= r; dy++) {
			for (int64_t dx = -r; dx <= r; dx++) {
				if (dz * dz + dy * dy + dx * dx <= r * r &&
				    (inside(v, z + dz, y + dy, x + dx) &&
				     *voxel(v, z + dz, y + dy, x + dx)) == value) {
					return true;
				}
			}
		}
	}
	return false;
}

static void naive_ball(struct volume *v, int radius, bool erode)
{
	struct volume out = make(v->shape[0], v->shape[1], v->shape[2]);

	for (int64_t z = 0; z < v->shape[0]; z++) {
		for (int64_t y = 0; y < v->shape[1]; y++) {
			for (int64_t x = 0; x < v->shape[2]; x++) {
				*voxel(&out, z, y, x) = meets(v, z, y, x, radius, !erode) != erode;
			}
		}
	}
	free(v->data);
	v->data = out.data;
}

static uint64_t flood(const struct volume *v, uint64_t start, uint32_t *label, uint32_t name,
		      uint64_t *stack)
{
	static const int step[6][3] = { { 1, 0, 0 },  { -1, 0, 0 }, { 0, 1, 0 },
					{ 0, -1, 0 }, { 0, 0, 1 },  { 0, 0, -1 } };
	uint64_t depth = 0, count = 0;

	stack[depth++] = start;
	label[start] = name;
	while (depth > 0) {
		int64_t at = (int64_t)stack[--depth], x = at % v->shape[2],
			y = at / v->shape[2] % v->shape[1];
		int64_t z = at / v->shape[2] / v->shape[1];

		count++;
		for (int i = 0; i < 6; i++) {
			int64_t nz = z + step[i][0], ny = y + step[i][1], nx = x + step[i][2];
			uint64_t next = inside(v, nz, ny, nx)
						? (uint64_t)(voxel(v, nz, ny, nx) - v->data)
						: 0;

			if (inside(v, nz, ny, nx) && v->data[next] && !label[next]) {
				label[next] = name;
				stack[depth++] = next;
			}
		}
	}
	return count;
}

static void naive_largest(struct volume *v)
{
	uint32_t *label = calloc(size(v), sizeof(*label));
	uint64_t *stack = calloc(size(v), sizeof(*stack)), most = 0;
	uint32_t names = 0, best = 0;

	for (uint64_t i = 0; i < size(v); i++) {
		if (v->data[i] && !label[i]) {
			uint64_t count = flood(v, i, label, ++names, stack);

			if (count > most) {
				most = count;
				best = names;
			}
		}
	}
	for (uint64_t i = 0; i < size(v); i++) {
		v->data[i] = v->data[i] && label[i] == best;
	}
	free(stack);
	free(label);
}

/* Runs the operation on v, then compares it with the naive steps; v ends as the result. */
static void compare(struct volume *v, int erode, bool largest, int dilate)
{
	const uint64_t shape[3] = { (uint64_t)v->shape[0], (uint64_t)v->shape[1],
				    (uint64_t)v->shape[2] };
	struct ops_case c;

	ops_begin(&c, "morphology3d");
	ops_input(&c, "input", SGPU_U8, 3, shape, v->data);
	ops_number(&c, "erode", erode);
	ops_number(&c, "largest", largest);
	ops_number(&c, "dilate", dilate);
	CHECK(ops_run(&c));
	for (uint64_t i = 0; i < size(v); i++) {
		v->data[i] = v->data[i] != 0;
	}
	naive_ball(v, erode, true);
	if (largest) {
		naive_largest(v);
	}
	naive_ball(v, dilate, false);
	CHECK(memcmp(ops_data(&c, "output"), v->data, size(v)) == 0);
	ops_end(&c);
}

static struct volume noise(int64_t z, int64_t y, int64_t x, double density)
{
	struct volume v = make(z, y, x);

	for (uint64_t i = 0; i < size(&v); i++) {
		v.data[i] = ops_uniform(0, 1) < density ? (uint8_t)(1 + ops_random() % 255) : 0;
	}
	return v;
}

UNIT_TEST(no_step_makes_zeros_and_ones)
{
	struct volume v = noise(5, 6, 7, 0.5);

	compare(&v, 0, false, 0);
	free(v.data);
}

UNIT_TEST(erosion_is_the_definition)
{
	static const struct {
		int radius;
		double density;
	} cases[] = { { 1, 0.95 }, { 2, 0.99 }, { 3, 0.999 }, { 5, 0.9999 } };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		struct volume v = noise(19, 23, 37, cases[i].density);

		compare(&v, cases[i].radius, false, 0);
		free(v.data);
	}
}

UNIT_TEST(dilation_is_the_definition)
{
	static const struct {
		int radius;
		double density;
	} cases[] = { { 1, 0.05 }, { 2, 0.01 }, { 3, 0.002 }, { 7, 0.0002 } };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		struct volume v = noise(19, 23, 37, cases[i].density);

		compare(&v, 0, false, cases[i].radius);
		free(v.data);
	}
}

/* One voxel becomes the ball of radius 16, and of a full volume its erosion leaves what is 16 away
 * from every side. */
UNIT_TEST(the_largest_radius)
{
	struct volume dot = make(35, 36, 1060), full = make(35, 36, 37);
	struct ops_case c;
	const uint8_t *out;
	int wrong = 0;

	*voxel(&dot, 17, 20, 1022) = 7;
	ops_begin(&c, "morphology3d");
	ops_input(&c, "input", SGPU_U8, 3, OPS_SHAPE(35, 36, 1060), dot.data);
	ops_number(&c, "dilate", 16);
	REQUIRE(ops_run(&c));
	out = ops_data(&c, "output");
	for (int64_t i = 0; i < (int64_t)size(&dot); i++) {
		int64_t x = i % 1060 - 1022, y = i / 1060 % 36 - 20, z = i / 1060 / 36 - 17;

		wrong += out[i] != (x * x + y * y + z * z <= 256);
	}
	CHECK(wrong == 0);
	ops_end(&c);
	memset(full.data, 255, size(&full));
	compare(&full, 16, false, 0);
	free(dot.data);
	free(full.data);
}

UNIT_TEST(the_largest_component_is_kept)
{
	for (int i = 0; i < 6; i++) {
		struct volume v = noise(35, 21, 1 + 13 * i,
					0.2 + 0.05 * i); /* around the percolation threshold */

		compare(&v, 0, true, 0);
		free(v.data);
	}
}

/* Wider than the words and tiles of any device, and with more than half inside, so that the largest
 * is nearly all. */
UNIT_TEST(components_of_a_larger_volume)
{
	bool small = getenv("SGPU_TEST_SMALL");

	for (int i = 0; i < 3; i++) {
		struct volume v = noise(small ? 5 : 40, 50, 300, 0.3 + 0.15 * i);

		compare(&v, 0, true, 0);
		free(v.data);
	}
}

UNIT_TEST(of_equal_components_the_first_is_kept)
{
	struct volume v = make(40, 3, 9);

	for (int64_t x = 0; x < 3; x++) {
		*voxel(&v, 15, 1, 4 + x) = *voxel(&v, 16, 2, x) = *voxel(&v, 39, 0, x) = 1;
	}
	compare(&v, 0, true, 0);
	CHECK(*voxel(&v, 15, 1, 4) == 1 && *voxel(&v, 16, 2, 0) == 0 && *voxel(&v, 39, 0, 0) == 0);
	free(v.data);
}

/* A path that winds through all slabs of planes, beside one that is a voxel shorter. */
UNIT_TEST(components_cross_the_seams)
{
	struct volume v = make(100, 7, 11);

	for (int64_t z = 0; z < 100; z++) {
		*voxel(&v, z, 2, 3) = 1;
		*voxel(&v, z, 5, 3) = z > 0;
		*voxel(&v, z, 5, 7) = z % 3 != 0;
	}
	compare(&v, 0, true, 0);
	CHECK(*voxel(&v, 99, 2, 3) == 1 && *voxel(&v, 99, 5, 3) == 0);
	free(v.data);
}

UNIT_TEST(all_steps_in_their_order)
{
	for (int i = 0; i < 3; i++) {
		struct volume v = noise(20, 31, 33, 0.97);

		compare(&v, 1, true, 2 + i);
		free(v.data);
	}
}

UNIT_TEST(nothing_inside_and_nothing_at_all)
{
	struct volume v = make(3, 4, 5), flat = make(1, 1, 1), none = make(3, 0, 5);

	compare(&v, 2, true, 2);
	*flat.data = 1;
	compare(&flat, 0, true, 3);
	CHECK(*flat.data == 1);
	compare(&flat, 1, true, 3);
	CHECK(*flat.data == 0);
	compare(&none, 1, true, 1);
	free(v.data);
	free(flat.data);
	free(none.data);
}

UNIT_TEST(masks_of_a_series_are_treated_one_by_one)
{
	enum { COUNT = 19 * 21 * 23 };
	struct volume v = noise(3 * 19, 21, 23, 0.9);
	struct ops_case series, one;

	memset(v.data + COUNT, 0, COUNT); /* where the volume before was not empty */
	for (int steps = 0; steps < 3; steps++) {
		ops_begin(&series, "morphology3d");
		ops_input(&series, "input", SGPU_U8, 4, OPS_SHAPE(3, 19, 21, 23), v.data);
		ops_number(&series, "erode", steps);
		ops_number(&series, "largest", 1);
		ops_number(&series, "dilate", steps * 2);
		REQUIRE(ops_run(&series));
		for (int t = 0; t < 3; t++) {
			ops_begin(&one, "morphology3d");
			ops_input(&one, "input", SGPU_U8, 3, OPS_SHAPE(19, 21, 23),
				  v.data + t * COUNT);
			ops_number(&one, "erode", steps);
			ops_number(&one, "largest", 1);
			ops_number(&one, "dilate", steps * 2);
			REQUIRE(ops_run(&one));
			CHECK(memcmp(ops_data(&one, "output"),
				     (uint8_t *)ops_data(&series, "output") + t * COUNT,
				     COUNT) == 0);
			ops_end(&one);
		}
		ops_end(&series);
	}
	free(v.data);
}

int main(void)
{
	UNIT_RUN(no_step_makes_zeros_and_ones);
	UNIT_RUN(erosion_is_the_definition);
	UNIT_RUN(dilation_is_the_definition);
	UNIT_RUN(the_largest_radius);
	UNIT_RUN(the_largest_component_is_kept);
	UNIT_RUN(components_of_a_larger_volume);
	UNIT_RUN(of_equal_components_the_first_is_kept);
	UNIT_RUN(components_cross_the_seams);
	UNIT_RUN(all_steps_in_their_order);
	UNIT_RUN(nothing_inside_and_nothing_at_all);
	UNIT_RUN(masks_of_a_series_are_treated_one_by_one);
	return unit_done();
}
