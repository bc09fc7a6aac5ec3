/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d: against the six nested loops, with the same order of additions, so to the last bit.
 */
#include "ops_harness.h"
#include "unit.h"

struct shape {
	int n, c, h, w, o, kh, kw, stride, padding, dilation;
};

static float naive(const struct shape *s, const float *in, const float *weights, float sum, int n,
		   int o, int y, int x)
{
	for (int c = 0; c < s->c; c++) {
		for (int ky = 0; ky < s->kh; ky++) {
			for (int kx = 0; kx < s->kw; kx++) {
				int iy = y * s->stride - s->padding + ky * s->dilation;
				int ix = x * s->stride - s->padding + kx * s->dilation;
				bool inside = iy >= 0 && iy < s->h && ix >= 0 && ix < s->w;
				float value = inside ? in[((n * s->c + c) * s->h + iy) * s->w + ix]
						     : 0.0f;
				float product =
					value * weights[((o * s->c + c) * s->kh + ky) * s->kw + kx];

				sum = sum + product;
			}
		}
	}
	return sum;
}

static void compare(const struct shape *s, bool with_bias)
{
	int oh = (s->h + 2 * s->padding - (s->kh - 1) * s->dilation - 1) / s->stride + 1;
	int ow = (s->w + 2 * s->padding - (s->kw - 1) * s->dilation - 1) / s->stride + 1;
	float *in = ops_values(SGPU_F32, (uint64_t)(s->n * s->c * s->h * s->w), -1, 1),
	      *bias = ops_values(SGPU_F32, (uint64_t)s->o, -1, 1);
	float *weights = ops_values(SGPU_F32, (uint64_t)(s->o * s->c * s->kh * s->kw), -1, 1);
	struct ops_case c;
	int wrong = 0;

	ops_begin(&c, "conv2d");
	ops_input(&c, "input", SGPU_F32, 4,
		  OPS_SHAPE((uint64_t)s->n, (uint64_t)s->c, (uint64_t)s->h, (uint64_t)s->w), in);
	ops_input(&c, "weights", SGPU_F32, 4,
		  OPS_SHAPE((uint64_t)s->o, (uint64_t)s->c, (uint64_t)s->kh, (uint64_t)s->kw),
		  weights);
	if (with_bias) {
		ops_input(&c, "bias", SGPU_F32, 1, OPS_SHAPE((uint64_t)s->o), bias);
	}
	ops_number(&c, "stride", s->stride);
	ops_number(&c, "padding", s->padding);
	ops_number(&c, "dilation", s->dilation);
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output", SGPU_F32, 4,
			  OPS_SHAPE((uint64_t)s->n, (uint64_t)s->o, (uint64_t)oh, (uint64_t)ow)));
	for (int i = 0; i < s->n * s->o * oh * ow; i++) {
		int x = i % ow, y = i / ow % oh, o = i / ow / oh % s->o, n = i / ow / oh / s->o;

		wrong += ((float *)ops_data(&c, "output"))[i] !=
			 naive(s, in, weights, with_bias ? bias[o] : 0.0f, n, o, y, x);
	}
	CHECK(wrong == 0);
	ops_end(&c);
	free(weights);
	free(bias);
	free(in);
}

UNIT_TEST(every_kind_of_window)
{
	static const struct shape shapes[] = {
		{ 1, 1, 1, 1, 1, 1, 1, 1, 0, 1 },   { 2, 3, 11, 13, 5, 3, 3, 1, 1, 1 },
		{ 1, 2, 9, 100, 4, 3, 5, 1, 0, 1 }, { 1, 3, 16, 70, 8, 3, 3, 2, 1, 1 },
		{ 1, 2, 15, 75, 7, 2, 3, 3, 4, 2 }, { 3, 1, 5, 6, 1, 5, 6, 1, 0, 1 },
		{ 1, 1, 2, 2, 2, 3, 3, 1, 3, 1 },   { 1, 4, 20, 65, 6, 1, 1, 1, 0, 1 },
		{ 1, 2, 7, 33, 9, 3, 3, 1, 2, 3 },  { 2, 17, 12, 14, 70, 3, 3, 1, 1, 1 },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(shapes); i++) {
		compare(&shapes[i], i % 2);
	}
}

/* Each element of the output, by the activation's definition in f64. */
UNIT_TEST(activations)
{
	static const char *const names[] = { "none", "relu", "sigmoid", "tanh", "gelu" };
	float *in = ops_values(SGPU_F32, 2 * 3 * 9 * 11, -1, 1),
	      *weights = ops_values(SGPU_F32, 5 * 3 * 3 * 3, -1, 1), plain[2 * 5 * 9 * 11];

	for (int k = 0; k < 5; k++) {
		struct ops_case c;
		int wrong = 0;

		ops_begin(&c, "conv2d");
		ops_input(&c, "input", SGPU_F32, 4, OPS_SHAPE(2, 3, 9, 11), in);
		ops_input(&c, "weights", SGPU_F32, 4, OPS_SHAPE(5, 3, 3, 3), weights);
		ops_number(&c, "padding", 1);
		ops_choice(&c, "activation", names[k]);
		CHECK(ops_run(&c));
		for (size_t i = 0; i < SGPU_ARRAY_LENGTH(plain); i++) {
			float got = ((float *)ops_data(&c, "output"))[i];
			double x = k ? (double)plain[i] : 0;
			double wanted[] = { (double)got, fmax(x, 0), 1 / (1 + exp(-x)), tanh(x),
					    x * erfc(-x * M_SQRT1_2) / 2 };

			plain[i] = k ? plain[i] : got;
			wrong += !ops_close((double)got, wanted[k], 1e-7, 1e-7);
		}
		CHECK(wrong == 0);
		ops_end(&c);
	}
	free(weights);
	free(in);
}

UNIT_TEST(diagnostics_and_open_types)
{
	struct ops_case c;

	CHECK(ops_refuses("conv2d input=f32[1,3,5,5] weights=f32[2,4,3,3]", "weights", ""));
	CHECK(ops_refuses("conv2d input=f32[1,3,5,5] weights=f32[2,3,6,6]", "weights", ""));
	CHECK(ops_refuses("conv2d input=f32[1,3,5,5] weights=f32[2,3,0,0]", "weights", ""));
	CHECK(ops_refuses("conv2d input=f32[1,3,5,5] weights=f32[2,3,3,3] bias=f32[3]", "bias",
			  ""));
	ops_call(&c, "conv2d input=f32[1,3,5,5] weights=f32[2,3,3,3] bias");
	CHECK(ops_infer(&c));
	CHECK(ops_type_is(&c, "bias", SGPU_F32, 1, OPS_SHAPE(2)));
	ops_end(&c);
}

UNIT_TEST(no_images)
{
	CHECK(ops_runs("conv2d input=f32[0,3,5,5] weights=f32[2,3,3,3]"));
}

int main(void)
{
	UNIT_RUN(every_kind_of_window);
	UNIT_RUN(activations);
	UNIT_RUN(diagnostics_and_open_types);
	UNIT_RUN(no_images);
	return unit_done();
}
