/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm: both element types, transposes, factors, batches, odd and empty sizes, against three plain
 * loops; with the built-in kernel, and with a BLAS where there is one.
 */
#include <dlfcn.h>
#include <float.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops_device.h"
#include "ops_harness.h"
#include "unit.h"

#include "ops/ops_private.h"

struct sizes {
	uint64_t batch, m, n, k; /* batch 0: rank 2 */
};

struct factors {
	bool transpose_a, transpose_b, with_c;
	double alpha, beta;
};

static void give(struct ops_case *c, const char *name, enum sgpu_dtype dtype, uint64_t batch,
		 uint64_t rows, uint64_t columns)
{
	uint64_t shape[] = { batch, rows, columns };
	void *data = ops_values(dtype, (batch ? batch : 1) * rows * columns, -1, 1);

	ops_input(c, name, dtype, batch ? 3 : 2, batch ? shape : shape + 1, data);
	free(data);
}

/* Whether one element lies within the error bound of any order of summation. */
static bool right(const struct ops_case *c, enum sgpu_dtype dtype, const struct sizes *s,
		  const struct factors *f, uint64_t z, uint64_t i, uint64_t j)
{
	const void *a = ops_data(c, "a"), *b = ops_data(c, "b");
	uint64_t at = (z * s->m + i) * s->n + j;
	double add = f->with_c && f->beta != 0 ? f->beta * ops_get(dtype, ops_data(c, "c"), at) : 0;
	double got = ops_get(dtype, ops_data(c, "output"), at), sum = 0, size = 0;
	double unit = dtype == SGPU_F32 ? (double)FLT_EPSILON : DBL_EPSILON;

	for (uint64_t p = 0; p < s->k; p++) {
		double x = ops_get(
			dtype, a, z * s->m * s->k + (f->transpose_a ? p * s->m + i : i * s->k + p));
		double y = ops_get(
			dtype, b, z * s->n * s->k + (f->transpose_b ? j * s->k + p : p * s->n + j));

		sum += x * y;
		size += fabs(x * y);
	}
	sum = f->alpha * sum + add;
	size = fabs(f->alpha) * size + fabs(add);
	if (fabs(got - sum) <= unit * (double)(s->k + 4) * size) {
		return true;
	}
	printf("# [%llu,%llu,%llu]: %.17g, not %.17g\n", (unsigned long long)z,
	       (unsigned long long)i, (unsigned long long)j, got, sum);
	return false;
}

static void check_product(enum sgpu_dtype dtype, struct sizes s, struct factors f)
{
	struct ops_case c;
	bool good;

	ops_begin(&c, "gemm");
	ops_number(&c, "transpose_a", f.transpose_a);
	ops_number(&c, "transpose_b", f.transpose_b);
	ops_number(&c, "alpha", f.alpha);
	give(&c, "a", dtype, s.batch, f.transpose_a ? s.k : s.m, f.transpose_a ? s.m : s.k);
	give(&c, "b", dtype, s.batch, f.transpose_b ? s.n : s.k, f.transpose_b ? s.k : s.n);
	if (f.with_c) {
		ops_number(&c, "beta", f.beta);
		give(&c, "c", dtype, s.batch, s.m, s.n);
	}
	/* elements are below 1: the largest sum of absolute products is k */
	ops_tolerance(&c, 0,
		      (double)(s.k + 4) * (dtype == SGPU_F32 ? (double)FLT_EPSILON : DBL_EPSILON) *
			      (fabs(f.alpha) * (double)s.k + fabs(f.beta)));
	good = ops_run(&c);
	CHECK(good);
	/* all elements, or of many some, and those at the end */
	for (uint64_t z = 0; z < (s.batch ? s.batch : 1) && good; z++) {
		uint64_t all = s.m * s.n, step = all > 20000 ? 37 : 1;

		for (uint64_t at = 0; at < all && good; at += at + 600 < all ? step : 1) {
			good = right(&c, dtype, &s, &f, z, at / s.n, at % s.n);
		}
	}
	CHECK(good);
	if (!good) {
		printf("# batch %d, %d x %d x %d, transposes %d %d, c %d, %s\n", (int)s.batch,
		       (int)s.m, (int)s.n, (int)s.k, f.transpose_a, f.transpose_b, f.with_c,
		       sgpu_dtype_name(dtype));
	}
	ops_end(&c);
}

/* step: 1 for all combinations of transposes and c, 3 for some. */
static void check_all(const struct sizes *sizes, int count, int step)
{
	for (int i = 0; i < count; i++) {
		for (int bits = 0; bits < 8; bits += step) {
			struct factors f = { bits & 1, bits & 2, bits & 4, bits & 4 ? 0.75 : 1,
					     bits & 1 ? -0.5 : 1 };

			check_product(SGPU_F32, sizes[i], f);
			check_product(SGPU_F64, sizes[i], f);
		}
	}
}

UNIT_TEST(odd_and_empty_sizes)
{
	static const struct sizes sizes[] = {
		{ 0, 1, 1, 1 },	 { 0, 6, 16, 256 }, { 0, 7, 17, 257 },	{ 0, 5, 1, 300 },
		{ 0, 1, 33, 3 }, { 0, 97, 513, 2 }, { 0, 13, 40, 513 }, { 0, 0, 5, 5 },
		{ 0, 5, 0, 5 },	 { 0, 5, 5, 0 },    { 3, 7, 9, 11 },	{ 1, 2, 2, 2 },
		{ 2, 3, 3, 0 },	 { 20, 1, 1, 5 },
	};

	check_all(sizes, sizeof(sizes) / sizeof(sizes[0]), getenv("SGPU_TEST_SMALL") ? 3 : 1);
}

static void check_large(void)
{
	static const struct sizes sizes[] = { { 40, 130, 140, 19 },
					      { 0, 389, 1051, 171 },
					      { 2, 130, 140, 3701 } };

	check_all(sizes, getenv("SGPU_TEST_SMALL") ? 1 : 3, 3);
}

UNIT_TEST(large_sizes_by_the_built_in_kernel)
{
	int status = 1;
	pid_t child;

	fflush(stdout);
	child = fork();
	REQUIRE(child >= 0);
	if (child == 0) {
		setenv("SGPU_BLAS", "0", 1);
		check_large();
		fflush(stdout);
		_exit(unit_bad || dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD) ||
		      dlopen("libblas.so.3", RTLD_NOW | RTLD_NOLOAD));
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

UNIT_TEST(large_sizes_by_the_library)
{
	if (getenv("SGPU_TEST_SMALL")) {
		SKIP("SGPU_TEST_SMALL is set");
	}
	check_large();
}

/* Sizes from which a GPU has a library compute them. */
UNIT_TEST(larger_sizes_on_a_device)
{
	static const struct sizes sizes[] = { { 0, 1031, 1040, 1021 },
					      { 0, 33, 35, 60000 },
					      { 3, 33, 35, 20000 } };
	static const struct factors plain = { .alpha = 1, .beta = 1 },
				    all = { true, true, true, 0.75, -0.5 };

	if (!ops_device_wanted()) {
		SKIP("for devices: SGPU_TEST_DEVICE names none");
	}
	if (getenv("SGPU_TEST_SMALL")) {
		SKIP("SGPU_TEST_SMALL is set");
	}
	for (int i = 0; i < 3; i++) {
		check_product(SGPU_F32, sizes[i], plain);
		check_product(SGPU_F64, sizes[i], all);
	}
}

UNIT_TEST(beta_zero_does_not_read_c_and_alpha_zero_not_the_matrices)
{
	static const float bad[] = { NAN, NAN, NAN, NAN }, one[] = { 1, 1, 1, 1 };
	struct ops_case c;

	ops_begin(&c, "gemm");
	ops_input(&c, "a", SGPU_F32, 2, OPS_SHAPE(2, 2), one);
	ops_input(&c, "b", SGPU_F32, 2, OPS_SHAPE(2, 2), one);
	ops_input(&c, "c", SGPU_F32, 2, OPS_SHAPE(2, 2), bad);
	ops_number(&c, "beta", 0);
	CHECK(ops_run(&c) && ((float *)ops_data(&c, "output"))[3] == 2);
	ops_end(&c);
	ops_begin(&c, "gemm");
	ops_input(&c, "a", SGPU_F32, 2, OPS_SHAPE(2, 2), bad);
	ops_input(&c, "b", SGPU_F32, 2, OPS_SHAPE(2, 2), one);
	ops_input(&c, "c", SGPU_F32, 2, OPS_SHAPE(2, 2), one);
	ops_number(&c, "alpha", 0);
	ops_number(&c, "beta", 3);
	CHECK(ops_run(&c) && ((float *)ops_data(&c, "output"))[0] == 3);
	ops_end(&c);
}

UNIT_TEST(infinities_and_nan_reach_their_elements_alone)
{
	float a[18], b[18 * 17];
	struct ops_case c;
	const float *out;

	for (int i = 0; i < 18; i++) {
		a[i] = 1;
	}
	for (int i = 0; i < 18 * 17; i++) {
		b[i] = 1;
	}
	b[3 * 17 + 5] = NAN;
	b[4 * 17 + 16] = INFINITY;
	ops_begin(&c, "gemm");
	ops_input(&c, "a", SGPU_F32, 2, OPS_SHAPE(1, 18), a);
	ops_input(&c, "b", SGPU_F32, 2, OPS_SHAPE(18, 17), b);
	CHECK(ops_run(&c));
	out = ops_data(&c, "output");
	for (int j = 0; j < 17; j++) {
		CHECK(j == 5 ? isnan(out[j]) : j == 16 ? isinf(out[j]) : out[j] == 18);
	}
	ops_end(&c);
}

UNIT_TEST(shapes_that_do_not_fit_are_diagnostics)
{
	CHECK(ops_refuses("gemm a=f32[2,3] b=f64[3,2]", "b", "is f64, but 'a' is f32"));
	CHECK(ops_refuses("gemm a=f32[2,2,3] b=f32[3,2]", "b", ""));
	CHECK(ops_refuses("gemm a=f32[2,2,3] b=f32[3,3,2]", "b",
			  "axis 0 has 3 elements, but axis 0 of 'a' has 2"));
	CHECK(ops_refuses("gemm a=f32[2,3] b=f32[3,4] c=f32[4,2]", "c", ""));
}

int main(void)
{
	UNIT_RUN(large_sizes_by_the_built_in_kernel); /* first: the child must not find a library
							 loaded */
	UNIT_RUN(odd_and_empty_sizes);
	UNIT_RUN(large_sizes_by_the_library);
	UNIT_RUN(larger_sizes_on_a_device);
	UNIT_RUN(beta_zero_does_not_read_c_and_alpha_zero_not_the_matrices);
	UNIT_RUN(infinities_and_nan_reach_their_elements_alone);
	UNIT_RUN(shapes_that_do_not_fit_are_diagnostics);
	return unit_done();
}
