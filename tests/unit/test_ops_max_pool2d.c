/* SPDX-License-Identifier: Apache-2.0
 *
 * max_pool2d and max_pool2d_gradient: against loops over all windows, to the last bit.
 */
#include "ops_harness.h"
#include "unit.h"

struct shape {
	int n, c, h, w, size, stride, padding;
};

static const struct shape shapes[] = {
	{ 1, 1, 1, 1, 1, 1, 0 }, { 2, 3, 8, 10, 2, 2, 0 }, { 3, 2, 28, 28, 3, 2, 1 },
	{ 1, 5, 7, 9, 3, 1, 2 }, { 2, 1, 13, 6, 4, 5, 3 }, { 1, 2, 3, 40, 3, 3, 0 },
	{ 4, 7, 5, 5, 5, 1, 4 },
};

/* Few values, so that many are equal; and some NaN. */
static float *random_floats(int count, int values)
{
	float *data = ops_alloc(64, (uint64_t)count * sizeof(float));

	for (int i = 0; i < count; i++) {
		data[i] = (float)(ops_random() % (uint64_t)values);
		data[i] = values < 10 && ops_random() % 50 == 0 ? (float)NAN : data[i];
	}
	return data;
}

/* Where the largest element is. */
static int largest(const struct shape *s, const float *plane, int oy, int ox)
{
	int best = -1;

	for (int y = oy * s->stride - s->padding; y < oy * s->stride - s->padding + s->size; y++) {
		for (int x = ox * s->stride - s->padding; x < ox * s->stride - s->padding + s->size;
		     x++) {
			int at = y * s->w + x;

			if (y < 0 || y >= s->h || x < 0 || x >= s->w ||
			    (best >= 0 && isnan(plane[best]))) {
				continue;
			}
			best = best < 0 || isnan(plane[at]) || plane[at] > plane[best] ? at : best;
		}
	}
	return best;
}

static void begin(struct ops_case *c, const char *name, const struct shape *s, const float *in)
{
	ops_begin(c, name);
	ops_input(c, "input", SGPU_F32, 4,
		  OPS_SHAPE((uint64_t)s->n, (uint64_t)s->c, (uint64_t)s->h, (uint64_t)s->w), in);
	ops_number(c, "size", s->size);
	ops_number(c, "stride", s->stride);
	ops_number(c, "padding", s->padding);
}

static void compare(const struct shape *s, int values)
{
	int oh = (s->h + 2 * s->padding - s->size) / s->stride + 1,
	    ow = (s->w + 2 * s->padding - s->size) / s->stride + 1;
	int in_count = s->n * s->c * s->h * s->w, out_count = s->n * s->c * oh * ow, wrong = 0;
	float *in = random_floats(in_count, values), *gradient = random_floats(out_count, 1000);
	float *back = calloc((size_t)in_count, sizeof(float));
	struct ops_case c;

	begin(&c, "max_pool2d", s, in);
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output", SGPU_F32, 4,
			  OPS_SHAPE((uint64_t)s->n, (uint64_t)s->c, (uint64_t)oh, (uint64_t)ow)));
	for (int i = 0; back && i < out_count; i++) {
		int plane = i / ow / oh * s->h * s->w,
		    at = plane + largest(s, in + plane, i / ow % oh, i % ow);
		float got = ((float *)ops_data(&c, "output"))[i];

		gradient[i] *= 0.0625f;
		wrong += !(got == in[at] || (isnan(got) && isnan(in[at])));
		back[at] += gradient[i];
	}
	CHECK(wrong == 0);
	ops_end(&c);
	begin(&c, "max_pool2d_gradient", s, in);
	ops_input(&c, "gradient", SGPU_F32, 4,
		  OPS_SHAPE((uint64_t)s->n, (uint64_t)s->c, (uint64_t)oh, (uint64_t)ow), gradient);
	CHECK(ops_run(&c));
	CHECK(back && memcmp(ops_data(&c, "output"), back, (size_t)in_count * sizeof(float)) == 0);
	ops_end(&c);
	free(back);
	free(gradient);
	free(in);
}

UNIT_TEST(every_kind_of_window)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(shapes); i++) {
		compare(&shapes[i], 5);
		compare(&shapes[i], 1000000);
	}
}

UNIT_TEST(diagnostics)
{
	CHECK(ops_refuses("max_pool2d input=f32[1,1,2,2] size=3 stride=1 padding=0", "input", ""));
	CHECK(ops_refuses("max_pool2d input=f32[1,1,5,5] size=3 stride=1 padding=3", "padding",
			  ""));
	CHECK(ops_refuses("max_pool2d input=f32[1,1,0,5] size=2 stride=1 padding=1", "input", ""));
	CHECK(ops_refuses("max_pool2d_gradient input=f32[1,1,5,5] gradient=f32[1,1,3,2] size=3 "
			  "stride=2 padding=1",
			  "gradient", ""));
}

UNIT_TEST(no_images)
{
	CHECK(ops_runs("max_pool2d input=f32[0,3,5,5] size=2 stride=2"));
	CHECK(ops_runs("max_pool2d_gradient input=f32[0,3,5,5] gradient=f32[0,3,2,2] size=2 "
		       "stride=2"));
}

/* No memory bounds these extents: the elements that a row of windows looks at are 2^64. */
UNIT_TEST(extents_without_planes)
{
	CHECK(ops_runs("max_pool2d input=f32[0,1,1024,17592186045439] size=1024 stride=1"));
	CHECK(ops_runs("max_pool2d_gradient input=f32[0,1,1024,17592186045439] "
		       "gradient=f32[0,1,1,17592186044416] size=1024 stride=1"));
}

int main(void)
{
	UNIT_RUN(every_kind_of_window);
	UNIT_RUN(diagnostics);
	UNIT_RUN(no_images);
	UNIT_RUN(extents_without_planes);
	return unit_done();
}
