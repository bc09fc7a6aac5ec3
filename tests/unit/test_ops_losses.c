/* SPDX-License-Identifier: Apache-2.0
 *
 * cross_entropy and squared_error, and their gradients: against their definitions in f64.
 */
#include "ops_harness.h"
#include "unit.h"

enum { ROWS_MAX = 300 };

static double element(const struct ops_case *c, const char *name, uint64_t i)
{
	return ops_get(ops_type(c, name)->dtype, ops_data(c, name), i);
}

static void give(struct ops_case *c, const char *name, enum sgpu_dtype dtype, uint64_t n,
		 uint64_t m, const double *values)
{
	ops_input(c, name, dtype, 2, OPS_SHAPE(n, m), NULL);
	for (uint64_t i = 0; i < n * m; i++) {
		ops_put(dtype, ops_data(c, name), i, values[i]);
	}
}

static void want(struct ops_case *c)
{
	c->call.present[ops_arg(c, "output_loss")] = true;
	c->call.present[ops_arg(c, "output_gradient")] = true;
}

static double *random_doubles(uint64_t count, double size)
{
	double *data = ops_alloc(64, count * sizeof(double));

	for (uint64_t i = 0; i < count; i++) {
		data[i] = (double)(float)ops_uniform(-size, size);
	}
	return data;
}

static void entropy(enum sgpu_dtype dtype, enum sgpu_dtype label_dtype, uint64_t n, uint64_t m,
		    double size)
{
	double *x = random_doubles(n * m, size), close = dtype == SGPU_F32 ? 2e-7 : 1e-14;
	int32_t labels[ROWS_MAX];
	uint8_t bytes[ROWS_MAX];
	struct ops_case c;

	for (uint64_t i = 0; i < n; i++) {
		labels[i] = (int32_t)(ops_random() % (m < 256 ? m : 256));
		bytes[i] = (uint8_t)labels[i];
	}
	ops_begin(&c, "cross_entropy");
	give(&c, "input", dtype, n, m, x);
	ops_input(&c, "labels", label_dtype, 1, OPS_SHAPE(n),
		  label_dtype == SGPU_U8 ? (void *)bytes : labels);
	want(&c);
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output_loss", dtype, 1, OPS_SHAPE(n)));
	CHECK(ops_type_is(&c, "output_gradient", dtype, 2, OPS_SHAPE(n, m)));
	for (uint64_t i = 0; i < n; i++) {
		double top = -INFINITY, sum = 0;

		for (uint64_t k = 0; k < m; k++) {
			top = fmax(top, x[i * m + k]);
		}
		for (uint64_t k = 0; k < m; k++) {
			sum += exp(x[i * m + k] - top);
		}
		CHECK(ops_close(element(&c, "output_loss", i),
				log(sum) + top - x[i * m + (uint64_t)labels[i]], close, close));
		for (uint64_t k = 0; k < m; k++) {
			double wanted =
				(exp(x[i * m + k] - top) / sum - (k == (uint64_t)labels[i])) /
				(double)n;

			CHECK(ops_close(element(&c, "output_gradient", i * m + k), wanted,
					close / (double)n, close));
		}
	}
	ops_end(&c);
	free(x);
}

UNIT_TEST(cross_entropy_by_its_definition)
{
	entropy(SGPU_F32, SGPU_U8, 128, 10, 5);
	entropy(SGPU_F64, SGPU_I32, 128, 10, 5);
	entropy(SGPU_F32, SGPU_I32, 7, 1000, 20);
	entropy(SGPU_F64, SGPU_U8, 3, 33, 300);
	entropy(SGPU_F64, SGPU_I32, 300, 1, 5);
	entropy(SGPU_F32, SGPU_I32, 2, 70000, 5);
}

static void squared(enum sgpu_dtype dtype, uint64_t n, uint64_t m)
{
	double *x = random_doubles(n * m, 1), *t = random_doubles(n * m, 1),
	       close = dtype == SGPU_F32 ? 2e-7 : 1e-14;
	struct ops_case c;

	ops_begin(&c, "squared_error");
	give(&c, "input", dtype, n, m, x);
	give(&c, "target", dtype, n, m, t);
	want(&c);
	CHECK(ops_run(&c));
	for (uint64_t i = 0; i < n; i++) {
		double sum = 0;

		for (uint64_t k = i * m; k < (i + 1) * m; k++) {
			sum += (x[k] - t[k]) * (x[k] - t[k]);
			CHECK(ops_close(element(&c, "output_gradient", k),
					2 * (x[k] - t[k]) / (double)(n * m), 0, close));
		}
		CHECK(ops_close(element(&c, "output_loss", i), sum / (double)m, 100 * close, 0));
	}
	ops_end(&c);
	free(x);
	free(t);
}

UNIT_TEST(squared_error_by_its_definition)
{
	squared(SGPU_F32, 128, 784);
	squared(SGPU_F64, 5, 31);
	squared(SGPU_F32, 300, 1);
	squared(SGPU_F64, 2, 70000);
}

UNIT_TEST(labels_that_name_no_class_and_scores_that_are_no_numbers)
{
	const int32_t labels[6] = { 0, -1, 3, 2, 1, INT32_MIN };
	const double x[18] = { 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, NAN, 3, INFINITY, 2, 3, 1, 2, 3 };
	struct ops_case c;

	ops_begin(&c, "cross_entropy");
	give(&c, "input", SGPU_F64, 6, 3, x);
	ops_input(&c, "labels", SGPU_I32, 1, OPS_SHAPE(6), labels);
	want(&c);
	CHECK(ops_run(&c));
	CHECK(ops_close(element(&c, "output_loss", 0), 2.40760596444438, 1e-13, 0));
	for (uint64_t i = 1; i < 6; i++) {
		CHECK(isnan(element(&c, "output_loss", i)));
		CHECK(isnan(element(&c, "output_gradient", i * 3 + 2)));
	}
	ops_end(&c);
}

UNIT_TEST(one_output_is_enough)
{
	CHECK(ops_runs("squared_error input=f32[2,2] target=f32[2,2] output_loss"));
	CHECK(ops_runs("squared_error input=f32[2,2] target=f32[2,2] output_gradient"));
	CHECK(ops_runs("cross_entropy input=f32[2,2] labels=u8[2] output_loss"));
	CHECK(ops_runs("cross_entropy input=f32[2,2] labels=u8[2] output_gradient"));
}

UNIT_TEST(diagnostics_and_no_rows)
{
#define WANTED " output_loss output_gradient"
	CHECK(ops_refuses("cross_entropy input=f32[4,3] labels=i32[5]" WANTED, "labels", ""));
	CHECK(ops_refuses("cross_entropy input=f32[4,0] labels=i32[4]" WANTED, "input", ""));
	CHECK(ops_refuses("squared_error input=f32[4,3] target=f32[3,4]" WANTED, "target", ""));
	CHECK(ops_refuses("squared_error input=f32[4,0,2] target=f32[4,0,2]" WANTED, "input", ""));
	CHECK(ops_runs("squared_error input=f32[0,3] target=f32[0,3]" WANTED));
}

int main(void)
{
	UNIT_RUN(cross_entropy_by_its_definition);
	UNIT_RUN(squared_error_by_its_definition);
	UNIT_RUN(labels_that_name_no_class_and_scores_that_are_no_numbers);
	UNIT_RUN(one_output_is_enough);
	UNIT_RUN(diagnostics_and_no_rows);
	return unit_done();
}
