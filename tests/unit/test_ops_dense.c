/* SPDX-License-Identifier: Apache-2.0
 *
 * dense: every activation against the mathematical library, bias, transposed weights, odd sizes.
 */
#include "ops_harness.h"
#include "unit.h"

static const char *const activations[] = { "none", "relu", "sigmoid", "tanh", "gelu" };

static double activate(int activation, double x)
{
	switch (activation) {
	case 1:
		return isnan(x) ? x : fmax(x, 0);
	case 2:
		return 1 / (1 + exp(-x));
	case 3:
		return tanh(x);
	case 4:
		return isinf(x) ? fmax(x, 0) : x * 0.5 * erfc(-x / sqrt(2));
	default:
		return x;
	}
}

static void check_layer(uint64_t n, uint64_t k, uint64_t m, int activation, bool bias,
			bool transpose)
{
	float *input = ops_values(SGPU_F32, n * k, -2, 2),
	      *weights = ops_values(SGPU_F32, k * m, -1, 1), *add = ops_values(SGPU_F32, m, -1, 1),
	      *want = ops_values(SGPU_F32, n * m, 0, 0);
	struct ops_case c;

	for (uint64_t i = 0; i < n * m; i++) {
		double sum = bias ? (double)add[i % m] : 0;

		for (uint64_t p = 0; p < k; p++) {
			sum += (double)input[i / m * k + p] *
			       (double)(transpose ? weights[i % m * k + p]
						  : weights[p * m + i % m]);
		}
		want[i] = (float)activate(activation, sum);
	}
	ops_begin(&c, "dense");
	ops_choice(&c, "activation", activations[activation]);
	ops_number(&c, "transpose_weights", transpose);
	ops_input(&c, "input", SGPU_F32, 2, OPS_SHAPE(n, k), input);
	ops_input(&c, "weights", SGPU_F32, 2, transpose ? OPS_SHAPE(m, k) : OPS_SHAPE(k, m),
		  weights);
	if (bias) {
		ops_input(&c, "bias", SGPU_F32, 1, OPS_SHAPE(m), add);
	}
	ops_tolerance(&c, 1e-5, 2e-5);
	CHECK(ops_run(&c) && ops_type_is(&c, "output", SGPU_F32, 2, OPS_SHAPE(n, m)));
	CHECK(ops_close_f32(ops_data(&c, "output"), want, n * m, 2e-5, 1e-5));
	ops_end(&c);
	free(input);
	free(weights);
	free(add);
	free(want);
}

UNIT_TEST(layers_of_odd_and_empty_sizes)
{
	static const uint64_t sizes[][3] = { { 1, 1, 1 },    { 7, 33, 10 },    { 100, 50, 1 },
					     { 3, 20, 401 }, { 0, 4, 4 },      { 4, 0, 5 },
					     { 4, 4, 0 },    { 201, 200, 150 } };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const uint64_t *s = sizes[i];

		for (int activation = 0; activation < 5; activation++) {
			check_layer(s[0], s[1], s[2], activation, activation % 2,
				    activation / 2 % 2);
			check_layer(s[0], s[1], s[2], activation, true, false);
		}
	}
}

UNIT_TEST(activations_are_precise_over_the_whole_range)
{
	enum { COUNT = 4000 };
	/* relative; gelu's tail is an approximation of its own */
	static const double tolerance[] = { 0, 0, 1e-15, 1e-14, 1e-8 };
	double *x = malloc(COUNT * sizeof(*x)), *want = malloc(COUNT * sizeof(*want)), one = 1;
	struct ops_case c;

	REQUIRE(x && want);
	for (int activation = 0; activation < 5; activation++) {
		for (int i = 0; i < COUNT; i++) {
			x[i] = i < 2000 ? (i - 1000) * 0.006
					: ops_uniform(-1, 1) * pow(10, ops_uniform(-12, 2));
		}
		x[0] = (double)INFINITY;
		x[1] = -(double)INFINITY;
		x[2] = (double)NAN;
		x[3] = 0;
		x[4] = -800;
		x[5] = 800;
		for (int i = 0; i < COUNT; i++) {
			want[i] = activate(activation, x[i]);
		}
		ops_begin(&c, "dense");
		ops_choice(&c, "activation", activations[activation]);
		ops_input(&c, "input", SGPU_F64, 2, OPS_SHAPE(COUNT, 1), x);
		ops_input(&c, "weights", SGPU_F64, 2, OPS_SHAPE(1, 1), &one);
		CHECK(ops_run(&c));
		printf("# %s\n", activations[activation]);
		CHECK(ops_close_f64(ops_data(&c, "output"), want, COUNT,
				    activation == 4 ? 1e-10 : 1e-300, tolerance[activation]));
		ops_end(&c);
	}
	free(x);
	free(want);
}

UNIT_TEST(shapes_that_do_not_fit_are_diagnostics)
{
	CHECK(ops_refuses("dense input=f32[2,3] weights=f32[2,3]", "weights", ""));
	CHECK(ops_refuses("dense input=f32[2,3] weights=f32[3,2] bias=f32[3]", "bias", ""));
	CHECK(ops_refuses("dense input=f32[2,3] weights=f64[3,2]", "weights", ""));
}

int main(void)
{
	UNIT_RUN(layers_of_odd_and_empty_sizes);
	UNIT_RUN(activations_are_precise_over_the_whole_range);
	UNIT_RUN(shapes_that_do_not_fit_are_diagnostics);
	return unit_done();
}
