/* SPDX-License-Identifier: Apache-2.0
 *
 * gaussian3d: against the three-dimensional sum in long double, with odd shapes and kernels wider
 * than the volume.
 */
#include "ops_harness.h"
#include "unit.h"

static uint64_t clamp(int64_t at, uint64_t length)
{
	return at < 0 ? 0 : at >= (int64_t)length ? length - 1 : (uint64_t)at;
}

/* The naive sum: the product of three weights for every voxel of the cube. */
static long double naive(enum sgpu_dtype dtype, const void *in, const uint64_t shape[3],
			 const uint64_t at[3], double sigma, int radius)
{
	long double sum = 0, total = 0;

	for (int z = -radius; z <= radius; z++) {
		for (int y = -radius; y <= radius; y++) {
			for (int x = -radius; x <= radius; x++) {
				long double weight = expl(-0.5L * (x * x + y * y + z * z) /
							  ((long double)sigma * sigma));
				uint64_t place = (clamp((int64_t)at[0] + z, shape[0]) * shape[1] +
						  clamp((int64_t)at[1] + y, shape[1])) *
							 shape[2] +
						 clamp((int64_t)at[2] + x, shape[2]);

				sum += weight * (long double)ops_get(dtype, in, place);
				total += weight;
			}
		}
	}
	return sum / total;
}

static void compare(enum sgpu_dtype dtype, const uint64_t shape[3], double sigma, double truncate,
		    double tolerance)
{
	uint64_t count = shape[0] * shape[1] * shape[2];
	void *in = ops_values(dtype, count, -1, 1);
	int radius = (int)(truncate * sigma + 0.5);
	struct ops_case c;
	int wrong = 0;

	ops_begin(&c, "gaussian3d");
	ops_input(&c, "input", dtype, 3, shape, in);
	ops_number(&c, "sigma", sigma);
	ops_number(&c, "truncate", truncate);
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output", dtype, 3, shape));
	for (uint64_t i = 0; i < count; i += 7) {
		const uint64_t at[3] = { i / shape[2] / shape[1], i / shape[2] % shape[1],
					 i % shape[2] };
		wrong += !ops_close(ops_get(dtype, ops_data(&c, "output"), i),
				    (double)naive(dtype, in, shape, at, sigma, radius), tolerance,
				    0);
	}
	CHECK(wrong == 0);
	ops_end(&c);
	free(in);
}

UNIT_TEST(f32_is_close_to_the_naive_sum)
{
	compare(SGPU_F32, OPS_SHAPE(9, 13, 37), 1.0, 4.0, 1e-6);
	compare(SGPU_F32, OPS_SHAPE(5, 7, 3), 1.5, 2.0, 1e-6);
	compare(SGPU_F32, OPS_SHAPE(2, 3, 1031), 0.7, 4.0, 1e-6);
	compare(SGPU_F32, OPS_SHAPE(10, 19, 21), 2.0, 4.0, 1e-6);
	compare(SGPU_F32, OPS_SHAPE(10, 9, 31), 2.25, 4.0, 1e-6);
}

UNIT_TEST(f64_is_close_to_the_naive_sum)
{
	compare(SGPU_F64, OPS_SHAPE(9, 13, 37), 1.0, 4.0, 1e-14);
	compare(SGPU_F64, OPS_SHAPE(11, 1, 29), 1.3, 3.0, 1e-14);
}

UNIT_TEST(kernels_wider_than_the_volume)
{
	compare(SGPU_F32, OPS_SHAPE(1, 1, 1), 5.0, 4.0, 1e-6);
	compare(SGPU_F64, OPS_SHAPE(2, 3, 4), 4.0, 4.0, 1e-14);
}

UNIT_TEST(a_narrow_kernel_changes_nothing)
{
	compare(SGPU_F32, OPS_SHAPE(3, 4, 5), 0.01, 4.0, 0);
}

/* The widest kernel keeps a constant volume as it is, but for rounding. */
UNIT_TEST(the_widest_kernel_sums_to_one)
{
	float *in = ops_alloc(64, 3 * 5 * 700 * sizeof(float));
	struct ops_case c;

	for (int i = 0; i < 3 * 5 * 700; i++) {
		in[i] = 100.0f;
	}
	ops_begin(&c, "gaussian3d");
	ops_input(&c, "input", SGPU_F32, 3, OPS_SHAPE(3, 5, 700), in);
	ops_number(&c, "sigma", 64);
	ops_number(&c, "truncate", 8);
	REQUIRE(ops_run(&c));
	CHECK(ops_close_f32(ops_data(&c, "output"), in, 3 * 5 * 700, 1e-2, 0));
	ops_end(&c);
	free(in);
}

UNIT_TEST(volumes_of_a_series_are_smoothed_one_by_one)
{
	enum { COUNT = 5 * 7 * 11 };
	float in[3 * COUNT];
	struct ops_case series, one;

	for (int i = 0; i < 3 * COUNT; i++) {
		in[i] = (float)ops_uniform(-1, 1);
	}
	ops_begin(&series, "gaussian3d");
	ops_input(&series, "input", SGPU_F32, 4, OPS_SHAPE(3, 5, 7, 11), in);
	ops_number(&series, "sigma", 1.5);
	REQUIRE(ops_run(&series));
	for (int t = 0; t < 3; t++) {
		ops_begin(&one, "gaussian3d");
		ops_input(&one, "input", SGPU_F32, 3, OPS_SHAPE(5, 7, 11), in + t * COUNT);
		ops_number(&one, "sigma", 1.5);
		REQUIRE(ops_run(&one));
		CHECK(memcmp(ops_data(&one, "output"),
			     (float *)ops_data(&series, "output") + t * COUNT,
			     COUNT * sizeof(float)) == 0);
		ops_end(&one);
	}
	ops_end(&series);
}

UNIT_TEST(an_empty_volume)
{
	CHECK(ops_runs("gaussian3d input=f32[3,0,7] sigma=1"));
}

int main(void)
{
	UNIT_RUN(f32_is_close_to_the_naive_sum);
	UNIT_RUN(f64_is_close_to_the_naive_sum);
	UNIT_RUN(kernels_wider_than_the_volume);
	UNIT_RUN(a_narrow_kernel_changes_nothing);
	UNIT_RUN(the_widest_kernel_sums_to_one);
	UNIT_RUN(volumes_of_a_series_are_smoothed_one_by_one);
	UNIT_RUN(an_empty_volume);
	return unit_done();
}
