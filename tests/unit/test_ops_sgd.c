/* SPDX-License-Identifier: Apache-2.0
 *
 * sgd and activation_gradient: by their formulas, to the last bit, and slopes against differences
 * of dense's activations.
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

/* What dense makes of one number with an activation: the weight is 1. */
static void activate(const char *activation, const double *x, double *y, uint64_t count)
{
	const double one = 1;
	struct ops_case c;

	ops_begin(&c, "dense");
	ops_input(&c, "input", SGPU_F64, 2, OPS_SHAPE(count, 1), x);
	ops_input(&c, "weights", SGPU_F64, 2, OPS_SHAPE(1, 1), &one);
	ops_choice(&c, "activation", activation);
	if (!ops_infer(&c) || ops_run_once(&c, 1)) {
		ops_die("no activation");
	}
	memcpy(y, ops_data(&c, "output"), count * sizeof(*y));
	ops_end(&c);
}

UNIT_TEST(slopes_are_differences_of_activations)
{
	static const char *const names[] = { "relu", "sigmoid", "tanh" };
	enum { POINTS = 801 };
	const double h = 1e-6;
	static double x[POINTS], low[POINTS], high[POINTS], y[POINTS], up[POINTS], down[POINTS],
		g[POINTS];

	for (int i = 0; i < POINTS; i++) {
		x[i] = (i - 400) / 50.0 + 0.001; /* not 0, where relu has no slope */
		low[i] = x[i] - h;
		high[i] = x[i] + h;
		g[i] = ops_uniform(-2, 2);
	}
	for (int k = 0; k < 3; k++) {
		struct ops_case c;
		int wrong = 0;

		activate(names[k], x, y, POINTS);
		activate(names[k], low, down, POINTS);
		activate(names[k], high, up, POINTS);
		ops_begin(&c, "activation_gradient");
		ops_input(&c, "activated", SGPU_F64, 1, OPS_SHAPE(POINTS), y);
		ops_input(&c, "gradient", SGPU_F64, 1, OPS_SHAPE(POINTS), g);
		ops_choice(&c, "activation", names[k]);
		CHECK(ops_run(&c));
		for (int i = 0; i < POINTS; i++) {
			double wanted = g[i] * (up[i] - down[i]) / (2 * h);

			wrong += fabs(((double *)ops_data(&c, "output"))[i] - wanted) > 2e-9;
		}
		CHECK(wrong == 0);
		ops_end(&c);
	}
}

UNIT_TEST(slopes_in_f32_are_rounded_once)
{
	float *y = ops_values(SGPU_F32, COUNT, -1, 1), *g = ops_values(SGPU_F32, COUNT, -1, 1);

	y[5] = NAN;
	y[6] = -0.0f;
	for (int k = 0; k < 3; k++) {
		struct ops_case c;
		int wrong = 0;

		ops_begin(&c, "activation_gradient");
		ops_input(&c, "activated", SGPU_F32, 1, OPS_SHAPE(COUNT), y);
		ops_input(&c, "gradient", SGPU_F32, 1, OPS_SHAPE(COUNT), g);
		ops_number(&c, "activation", k);
		CHECK(ops_run(&c));
		for (int i = 0; i < COUNT; i++) {
			double a = (double)y[i], slope = k == 1 ? a * (1 - a) : 1 - a * a;
			float got = ((float *)ops_data(&c, "output"))[i];
			double wanted = k ? (double)g[i] * slope : a > 0 ? (double)g[i] : 0;

			wrong += i == 5 ? !isnan(got) : got != (float)wanted;
		}
		CHECK(wrong == 0);
		ops_end(&c);
	}
	free(y);
	free(g);
}

int main(void)
{
	UNIT_RUN(steps_with_momentum);
	UNIT_RUN(open_types_and_diagnostics_of_sgd);
	UNIT_RUN(slopes_are_differences_of_activations);
	UNIT_RUN(slopes_in_f32_are_rounded_once);
	return unit_done();
}
