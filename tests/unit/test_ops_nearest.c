/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest: against a sort of all distances.
 */
#include "ops_harness.h"
#include "unit.h"

struct near {
	long double distance;
	int index;
};

static int by_distance(const void *a, const void *b)
{
	const struct near *x = a, *y = b;

	if (x->distance != y->distance) {
		return x->distance < y->distance ? -1 : 1;
	}
	return x->index - y->index;
}

static void naive(const float *query, const float *b, int m, int d, struct near *out)
{
	for (int i = 0; i < m; i++) {
		out[i] = (struct near){ 0, i };
		for (int j = 0; j < d; j++) {
			long double difference = (long double)query[j] - (long double)b[i * d + j];

			out[i].distance += difference * difference;
		}
	}
	qsort(out, (size_t)m, sizeof(*out), by_distance);
}

/* The vote by its definition: the first label, nearest first, that no other beats. */
static int naive_vote(const struct near *sorted, int k, const int32_t *labels)
{
	int best = 0, most = 0;

	for (int i = 0; i < k; i++) {
		int votes = 0;

		for (int j = 0; j < k; j++) {
			votes += labels[sorted[j].index] == labels[sorted[i].index];
		}
		if (votes > most) {
			most = votes;
			best = labels[sorted[i].index];
		}
	}
	return best;
}

enum labels { NO_LABELS, I32_LABELS, U8_LABELS };

static void check(const struct ops_case *c, const float *a, const float *b, int n, int m, int d,
		  int k, enum labels kind, const int32_t *labels)
{
	struct near *sorted = calloc((size_t)m, sizeof(*sorted));
	const int32_t *out = ops_data(c, "output");
	int wrong = 0;

	for (int i = 0; i < n; i++) {
		naive(a + i * d, b, m, d, sorted);
		if (kind != NO_LABELS) {
			wrong += out[i] != naive_vote(sorted, k, labels);
			continue;
		}
		for (int j = 0; j < k; j++) {
			wrong += out[i * k + j] != sorted[j].index;
		}
	}
	CHECK(wrong == 0);
	free(sorted);
}

/* levels 0: any value; else integers, so that many distances are equal. */
static void compare(int n, int m, int d, int k, int levels, enum labels kind)
{
	float *a = ops_alloc(64, (uint64_t)(n * d) * sizeof(float)),
	      *b = ops_alloc(64, (uint64_t)(m * d) * sizeof(float));
	int32_t *labels = ops_alloc(64, (uint64_t)m * sizeof(int32_t));
	uint8_t *bytes = ops_alloc(64, (uint64_t)m);
	struct ops_case c;

	for (int i = 0; i < n * d; i++) {
		a[i] = levels ? (float)(ops_random() % (uint64_t)levels)
			      : (float)ops_uniform(-1, 1);
	}
	for (int i = 0; i < m * d; i++) {
		b[i] = levels ? (float)(ops_random() % (uint64_t)levels)
			      : (float)ops_uniform(-1, 1);
	}
	for (int i = 0; i < m; i++) {
		bytes[i] = (uint8_t)(250 + ops_random() % 6);
		labels[i] = kind == U8_LABELS ? bytes[i] : (int32_t)(ops_random() % 5) - 2;
	}
	ops_begin(&c, "nearest");
	ops_input(&c, "a", SGPU_F32, 2, OPS_SHAPE((uint64_t)n, (uint64_t)d), a);
	ops_input(&c, "b", SGPU_F32, 2, OPS_SHAPE((uint64_t)m, (uint64_t)d), b);
	if (kind != NO_LABELS) {
		ops_input(&c, "labels", kind == U8_LABELS ? SGPU_U8 : SGPU_I32, 1,
			  OPS_SHAPE((uint64_t)m), kind == U8_LABELS ? (const void *)bytes : labels);
	}
	ops_number(&c, "k", k);
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output", SGPU_I32, kind == NO_LABELS ? 2 : 1,
			  OPS_SHAPE((uint64_t)n, (uint64_t)k)));
	check(&c, a, b, n, m, d, k, kind, labels);
	ops_end(&c);
	free(bytes);
	free(labels);
	free(b);
	free(a);
}

UNIT_TEST(indexes_by_distance)
{
	compare(37, 101, 19, 5, 0, NO_LABELS);
	compare(530, 40, 3, 40, 0, NO_LABELS);
	compare(3, 4500, 17, getenv("SGPU_TEST_SMALL") ? 20 : 256, 0, NO_LABELS);
	compare(1, 1, 1, 1, 0, NO_LABELS);
}

UNIT_TEST(equal_distances_go_by_index)
{
	compare(21, 60, 2, 7, 3, NO_LABELS);
	compare(5, 2100, 1, 9, 4, NO_LABELS);
	if (!getenv("SGPU_TEST_SMALL")) {
		compare(515, 4200, 2, 3, 4, NO_LABELS);
	}
	compare(1, 9000, 3, 5, 9, NO_LABELS);
	compare(2, 30, 0, 4, 0, NO_LABELS);
}

UNIT_TEST(labels_by_majority)
{
	compare(37, 101, 19, 5, 0, I32_LABELS);
	compare(37, 101, 3, 8, 4, U8_LABELS);
	compare(5, 300, 3, 256, 4, I32_LABELS);
}

/* Values of images: the products need more digits than an f32 has. */
UNIT_TEST(large_values)
{
	compare(20, 400, getenv("SGPU_TEST_SMALL") ? 100 : 784, 3, 256, NO_LABELS);
}

UNIT_TEST(nan_is_farthest)
{
	const float a[] = { 1, 2 }, b[] = { NAN, 1, 1, 2, 5, 5, 1, NAN };
	struct ops_case c;

	ops_begin(&c, "nearest");
	ops_input(&c, "a", SGPU_F32, 2, OPS_SHAPE(1, 2), a);
	ops_input(&c, "b", SGPU_F32, 2, OPS_SHAPE(4, 2), b);
	ops_number(&c, "k", 4);
	REQUIRE(ops_run(&c));
	CHECK(memcmp(ops_data(&c, "output"), ((const int32_t[]){ 1, 2, 0, 3 }), 16) == 0);
	ops_end(&c);
}

UNIT_TEST(diagnostics)
{
	CHECK(ops_refuses("nearest a=f32[2,3] b=f32[4,4] k=1", "b", ""));
	CHECK(ops_refuses("nearest a=f32[2,3] b=f32[4,3] k=5", "k", ""));
	CHECK(ops_refuses("nearest a=f32[2,3] b=f32[4,3] k=1 labels=i32[3]", "labels", ""));
}

int main(void)
{
	UNIT_RUN(indexes_by_distance);
	UNIT_RUN(equal_distances_go_by_index);
	UNIT_RUN(labels_by_majority);
	UNIT_RUN(large_values);
	UNIT_RUN(nan_is_farthest);
	UNIT_RUN(diagnostics);
	return unit_done();
}
