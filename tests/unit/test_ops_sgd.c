/* SPDX-License-Identifier: Apache-2.0
 *
 * sgd and activation_gradient: by their formulas, to the last bit.
 */
#include "ops_harness.h"
#include "unit.h"

enum { COUNT = 100003 };

static double rounded(enum sgpu_dtype dtype, double value)
{
	return dtype == SGPU_F32 ? (double)(float)value : value;
}

static void step(enum sgpu_dtype dtype, bool with_velocity, bool gives_velocity)
{
	const double rate = 0.0625, momentum = 0.9;
	void *weights = ops_values(dtype, COUNT, -1, 1),
	     *gradient = ops_values(dtype, COUNT, -10, 10),
	     *velocity = ops_values(dtype, COUNT, -1, 1);
	struct ops_case c;
	int wrong = 0;

	ops_begin(&c, "sgd");
	ops_input(&c, "weights", dtype, 1, OPS_SHAPE(COUNT), weights);
	ops_input(&c, "gradient", dtype, 1, OPS_SHAPE(COUNT), gradient);
	if (with_velocity) {
		ops_input(&c, "velocity", dtype, 1, OPS_SHAPE(COUNT), velocity);
	}
	ops_number(&c, "rate", rate);
	ops_number(&c, "momentum", momentum);
	c.call.present[ops_arg(&c, "output_velocity")] = gives_velocity;
	CHECK(ops_run(&c));
	for (uint64_t i = 0; i < COUNT; i++) {
		double before = with_velocity ? momentum * ops_get(dtype, velocity, i) : 0;
		double now = rounded(dtype, before + ops_get(dtype, gradient, i));
		double moved = rate * now;

		wrong += ops_get(dtype, ops_data(&c, "output"), i) !=
			 rounded(dtype, ops_get(dtype, weights, i) - moved);
		wrong +=
			gives_velocity && ops_get(dtype, ops_data(&c, "output_velocity"), i) != now;
	}
	CHECK(wrong == 0);
	ops_end(&c);
	free(weights);
	free(gradient);
	free(velocity);
}

UNIT_TEST(steps_with_momentum)
{
	step(SGPU_F32, true, true);
	step(SGPU_F64, true, true);
	step(SGPU_F32, false, true);
	step(SGPU_F64, true, false);
	step(SGPU_F32, false, false);
}

UNIT_TEST(open_types_and_diagnostics_of_sgd)
{
	struct ops_case c;

	ops_call(&c, "sgd weights=f32[3,4] gradient=f32[3,4] velocity");
	CHECK(ops_infer(&c));
	CHECK(ops_type_is(&c, "velocity", SGPU_F32, 2, OPS_SHAPE(3, 4)));
	ops_end(&c);
	CHECK(ops_refuses("sgd weights=f32[3,4] gradient=f32[3,4] velocity=f32[4,3]", "velocity",
			  ""));
	CHECK(ops_refuses("sgd weights=f32[3,4] gradient=f64[3,4]", "gradient", ""));
}

static void slopes(enum sgpu_dtype dtype)
{
	void *y = ops_values(dtype, COUNT, -1, 1), *g = ops_values(dtype, COUNT, -1, 1);

	ops_put(dtype, y, 5, (double)NAN);
	ops_put(dtype, y, 6, -0.0);
	for (int k = 0; k < 3; k++) {
		struct ops_case c;
		int wrong = 0;

		ops_begin(&c, "activation_gradient");
		ops_input(&c, "activated", dtype, 1, OPS_SHAPE(COUNT), y);
		ops_input(&c, "gradient", dtype, 1, OPS_SHAPE(COUNT), g);
		ops_number(&c, "activation", k);
		CHECK(ops_run(&c));
		for (uint64_t i = 0; i < COUNT; i++) {
			double a = ops_get(dtype, y, i), slope = k == 1 ? a * (1 - a) : 1 - a * a;
			double got = ops_get(dtype, ops_data(&c, "output"), i);
			double wanted = ops_get(dtype, g, i) * (k ? slope : a > 0);

			wrong += i == 5 ? !isnan(got) : got != rounded(dtype, wanted);
		}
		CHECK(wrong == 0);
		ops_end(&c);
	}
	free(y);
	free(g);
}

UNIT_TEST(slopes_are_rounded_once)
{
	slopes(SGPU_F32);
	slopes(SGPU_F64);
}

int main(void)
{
	UNIT_RUN(steps_with_momentum);
	UNIT_RUN(open_types_and_diagnostics_of_sgd);
	UNIT_RUN(slopes_are_rounded_once);
	return unit_done();
}
