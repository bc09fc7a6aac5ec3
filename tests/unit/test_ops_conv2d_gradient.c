/* SPDX-License-Identifier: Apache-2.0
 *
 * conv2d_gradient: against loops over all products in f64, and to the last bit against the order of
 * additions that the page states.
 */
#include "ops_harness.h"
#include "unit.h"

struct shape {
	int n, c, h, w, o, kh, kw, stride, padding, dilation;
};

static const struct shape shapes[] = {
	{ 1, 1, 1, 1, 1, 1, 1, 1, 0, 1 },   { 2, 3, 11, 13, 5, 3, 3, 1, 1, 1 },
	{ 70, 1, 6, 5, 7, 5, 5, 1, 2, 1 },  { 1, 2, 9, 40, 4, 3, 5, 1, 0, 1 },
	{ 1, 3, 16, 30, 8, 3, 3, 2, 1, 1 }, { 3, 2, 15, 17, 7, 2, 3, 3, 4, 2 },
	{ 3, 1, 5, 6, 1, 5, 6, 1, 0, 1 },   { 130, 7, 4, 4, 13, 3, 3, 1, 2, 3 },
	{ 1, 2, 12, 12, 3, 9, 9, 1, 4, 1 }, { 2, 3, 10, 10, 40, 4, 4, 4, 1, 1 },
};

struct arrays {
	struct shape s;
	int oh, ow, in_count, weight_count, out_count;
	float *in, *weights, *gradient;
	double *by_in, *by_weights, *by_bias;	    /* sums of products */
	double *size_in, *size_weights, *size_bias; /* sums of their absolute values */
};

/* Calls f for all pairs of an element of the input and of the output that a weight connects:
 * indexes, or -1 in the padding. */
static void each_product(struct arrays *a,
			 void (*f)(struct arrays *a, int in, int weight, int out, int bias))
{
	const struct shape *s = &a->s;

	for (int out = 0; out < a->out_count; out++) {
		int x = out % a->ow, y = out / a->ow % a->oh, o = out / a->ow / a->oh % s->o,
		    n = out / a->ow / a->oh / s->o;

		for (int weight = 0; weight < s->c * s->kh * s->kw; weight++) {
			int kx = weight % s->kw, ky = weight / s->kw % s->kh,
			    c = weight / s->kw / s->kh;
			int iy = y * s->stride - s->padding + ky * s->dilation;
			int ix = x * s->stride - s->padding + kx * s->dilation;
			bool inside = iy >= 0 && iy < s->h && ix >= 0 && ix < s->w;

			f(a, inside ? ((n * s->c + c) * s->h + iy) * s->w + ix : -1,
			  o * s->c * s->kh * s->kw + weight, out, weight ? -1 : o);
		}
	}
}

static void add(double *sum, double *size, double product)
{
	*sum += product;
	*size += fabs(product);
}

static void add_gradients(struct arrays *a, int in, int weight, int out, int bias)
{
	double g = (double)a->gradient[out];

	if (in >= 0) {
		add(&a->by_in[in], &a->size_in[in], g * (double)a->weights[weight]);
		add(&a->by_weights[weight], &a->size_weights[weight], g * (double)a->in[in]);
	}
	if (bias >= 0) {
		add(&a->by_bias[bias], &a->size_bias[bias], g);
	}
}

static void make_arrays(struct arrays *a, const struct shape *s)
{
	a->s = *s;
	a->oh = (s->h + 2 * s->padding - (s->kh - 1) * s->dilation - 1) / s->stride + 1;
	a->ow = (s->w + 2 * s->padding - (s->kw - 1) * s->dilation - 1) / s->stride + 1;
	a->in_count = s->n * s->c * s->h * s->w;
	a->weight_count = s->o * s->c * s->kh * s->kw;
	a->out_count = s->n * s->o * a->oh * a->ow;
	a->in = ops_values(SGPU_F32, (uint64_t)a->in_count, -1, 1);
	a->weights = ops_values(SGPU_F32, (uint64_t)a->weight_count, -1, 1);
	a->gradient = ops_values(SGPU_F32, (uint64_t)a->out_count, -1, 1);
	a->by_in = calloc((size_t)(a->in_count + a->weight_count + s->o) * 2, sizeof(double));
	if (!a->by_in) {
		ops_die("out of memory");
	}
	a->by_weights = a->by_in + a->in_count;
	a->by_bias = a->by_weights + a->weight_count;
	a->size_in = a->by_bias + s->o;
	a->size_weights = a->size_in + a->in_count;
	a->size_bias = a->size_weights + a->weight_count;
	each_product(a, add_gradients);
}

static void free_arrays(struct arrays *a)
{
	free(a->in);
	free(a->weights);
	free(a->gradient);
	free(a->by_in);
}

static void begin_gradient(struct ops_case *c, const struct arrays *a)
{
	const struct shape *s = &a->s;

	ops_begin(c, "conv2d_gradient");
	ops_input(c, "input", SGPU_F32, 4,
		  OPS_SHAPE((uint64_t)s->n, (uint64_t)s->c, (uint64_t)s->h, (uint64_t)s->w), a->in);
	ops_input(c, "weights", SGPU_F32, 4,
		  OPS_SHAPE((uint64_t)s->o, (uint64_t)s->c, (uint64_t)s->kh, (uint64_t)s->kw),
		  a->weights);
	ops_input(c, "gradient", SGPU_F32, 4,
		  OPS_SHAPE((uint64_t)s->n, (uint64_t)s->o, (uint64_t)a->oh, (uint64_t)a->ow),
		  a->gradient);
	ops_number(c, "stride", s->stride);
	ops_number(c, "padding", s->padding);
	ops_number(c, "dilation", s->dilation);
}

/* The tolerance of the page, for k products. */
static void check_close(const char *name, const float *got, const double *sums, const double *sizes,
			int count, double k)
{
	int wrong = 0;

	for (int i = 0; i < count; i++) {
		wrong += !(fabs((double)got[i] - sums[i]) <= (k + 2) * 0x1p-23 * sizes[i]);
	}
	if (wrong) {
		printf("# %s: %d of %d are wrong\n", name, wrong, count);
	}
	CHECK(wrong == 0);
}

UNIT_TEST(every_kind_of_window)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(shapes); i++) {
		const struct shape *s = &shapes[i];
		struct arrays a;
		struct ops_case c;

		make_arrays(&a, s);
		begin_gradient(&c, &a);
		for (int k = 3; k < 6; k++) {
			c.call.present[k] = true;
		}
		CHECK(ops_run(&c));
		check_close("input", ops_data(&c, "output_input"), a.by_in, a.size_in, a.in_count,
			    s->o * s->kh * s->kw);
		check_close("weights", ops_data(&c, "output_weights"), a.by_weights, a.size_weights,
			    a.weight_count, s->n * a.oh * a.ow);
		check_close("bias", ops_data(&c, "output_bias"), a.by_bias, a.size_bias, s->o,
			    s->n * a.oh * a.ow);
		ops_end(&c);
		free_arrays(&a);
	}
}

/* Each output alone is the one that it is together with the others. */
UNIT_TEST(outputs_one_by_one)
{
	static const char *const names[] = { "output_input", "output_weights", "output_bias" };
	struct arrays a;
	struct ops_case all, one;

	make_arrays(&a, &shapes[1]);
	begin_gradient(&all, &a);
	for (int k = 3; k < 6; k++) {
		all.call.present[k] = true;
	}
	CHECK(ops_run(&all));
	for (int i = 0; i < 3; i++) {
		begin_gradient(&one, &a);
		one.call.present[ops_arg(&one, names[i])] = true;
		CHECK(ops_run(&one));
		CHECK(memcmp(ops_data(&one, names[i]), ops_data(&all, names[i]),
			     all.bytes[ops_arg(&all, names[i])]) == 0);
		ops_end(&one);
	}
	ops_end(&all);
	free_arrays(&a);
}

/* The order that the page states, with two roundings for each product. */
UNIT_TEST(order_of_additions)
{
	const struct shape s = { 130, 2, 4, 5, 3, 2, 3, 1, 1, 1 };
	struct arrays a;
	struct ops_case c;
	int wrong = 0;

	make_arrays(&a, &s);
	begin_gradient(&c, &a);
	c.call.present[ops_arg(&c, "output_bias")] = true;
	CHECK(ops_run(&c));
	for (int o = 0; o < s.o; o++) {
		double sum = 0;

		for (int n = 0; n < s.n; n += 3) { /* 130 images in at most 64 parts: 3 each */
			float part = 0;

			for (int m = n; m < n + 3 && m < s.n; m++) {
				for (int i = 0; i < a.oh * a.ow; i++) {
					part += a.gradient[(m * s.o + o) * a.oh * a.ow + i];
				}
			}
			sum += (double)part;
		}
		wrong += ((float *)ops_data(&c, "output_bias"))[o] != (float)sum;
	}
	CHECK(wrong == 0);
	ops_end(&c);
	free_arrays(&a);
}

UNIT_TEST(diagnostics)
{
	struct ops_case c;

#define REFUSES(weights, gradient, where)                                                   \
	CHECK(ops_refuses("conv2d_gradient input=f32[1,3,5,5] output_bias weights=" weights \
			  " gradient=" gradient,                                            \
			  where, ""))
	REFUSES("f32[2,4,3,3]", "f32[1,2,3,3]", "weights");
	REFUSES("f32[2,3,6,6]", "f32[1,2,3,3]", "weights");
	REFUSES("f32[2,3,0,0]", "f32[1,2,3,3]", "weights");
	REFUSES("f32[2,3,3,3]", "f32[1,2,4,3]", "gradient");
	ops_call(&c, "conv2d_gradient input=f32[1,3,5,5] weights=f32[2,3,3,3] "
		     "gradient=f32[1,2,3,3] output_weights");
	CHECK(ops_infer(&c));
	CHECK(ops_type_is(&c, "output_weights", SGPU_F32, 4, OPS_SHAPE(2, 3, 3, 3)));
	ops_end(&c);
}

UNIT_TEST(no_images)
{
	struct ops_case c;

	ops_call(&c, "conv2d_gradient input=f32[0,3,5,5] weights=f32[2,3,3,3] "
		     "gradient=f32[0,2,3,3] output_input output_weights output_bias");
	CHECK(ops_run(&c));
	CHECK(((float *)ops_data(&c, "output_weights"))[53] == 0.0f &&
	      ((float *)ops_data(&c, "output_bias"))[1] == 0.0f);
	ops_end(&c);
}

/* No memory bounds the extents beside one that is 0: an empty output takes no work. */
UNIT_TEST(extents_of_empty_outputs)
{
#define EMPTY                                                                    \
	"conv2d_gradient input=f32[1,0,67108864,67108864] weights=f32[0,0,1,1] " \
	"gradient=f32[1,0,67108864,67108864] "
	CHECK(ops_runs(EMPTY "output_input"));
	CHECK(ops_runs(EMPTY "output_weights"));
	CHECK(ops_runs(EMPTY "output_bias"));
	CHECK(ops_runs("conv2d_gradient input=f32[0,0,1,1] weights=f32[1125899906842624,0,1,1] "
		       "gradient=f32[0,1125899906842624,1,1] output_weights"));
}

/* The gradient by the bias needs no weights: without channels, a kernel of 2^64 of them takes no
 * memory. */
UNIT_TEST(bias_without_channels)
{
	const uint64_t side = (uint64_t)1 << 32;
	const float gradient = 3.0f;
	struct ops_case c;

	ops_begin(&c, "conv2d_gradient");
	ops_input(&c, "input", SGPU_F32, 4, OPS_SHAPE(1, 0, side, side), NULL);
	ops_input(&c, "weights", SGPU_F32, 4, OPS_SHAPE(1, 0, side, side), NULL);
	ops_input(&c, "gradient", SGPU_F32, 4, OPS_SHAPE(1, 1, 1, 1), &gradient);
	c.call.present[ops_arg(&c, "output_bias")] = true;
	CHECK(ops_run(&c));
	CHECK(((float *)ops_data(&c, "output_bias"))[0] == 3.0f);
	ops_end(&c);
}

int main(void)
{
	UNIT_RUN(every_kind_of_window);
	UNIT_RUN(outputs_one_by_one);
	UNIT_RUN(order_of_additions);
	UNIT_RUN(diagnostics);
	UNIT_RUN(no_images);
	UNIT_RUN(extents_of_empty_outputs);
	UNIT_RUN(bias_without_channels);
	return unit_done();
}
