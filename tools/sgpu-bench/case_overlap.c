/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap: two equal operations that do not wait for each other, on a CPU device with one worker and with two.
 */
#include "cases.h"
#include "job.h"
#include "made.h"

enum { EDGE = 2048, EDGE_QUICK = 512 };

/* a times b, b being the unit matrix times 2: small integers, so the products are exact. */
static int make_job(struct sgpu_bench *bench, uint64_t edge, const float *a, const float *b, struct job **job,
		    struct sgpu_error *error)
{
	const struct job_type type = { "f32", { edge, edge } };
	int rc = job_new(bench, false, job, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	job_segment(*job, JOB_INPUT, "a", type, a);
	job_segment(*job, JOB_INPUT, "b", type, b);
	for (int i = 0; i < 2; i++) {
		const char *const to = i ? "out1" : "out0";

		job_segment(*job, JOB_OUTPUT, to, type, NULL);
		job_operation(*job, i ? "MUL1" : "MUL0", "gemm",
			      json_pack("{s:s, s:s, s:s}", "a", "a", "b", "b", "output", to), NULL, NULL);
	}
	return job_finish(*job, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const uint64_t edge = bench->options.quick ? EDGE_QUICK : EDGE, count = edge * edge;
	struct job_side sides[2];
	const struct sgpu_bench_variant variants[] = { job_variant("one worker", &sides[0]),
						       job_variant("two workers", &sides[1]) };
	const struct sgpu_bench_point point = { .parameters = { { "operation", "gemm", 0 }, { "edge", NULL, edge } },
						.operations = 2 };
	struct job *job = NULL;
	float *a, *b, *expected;
	void *state = NULL;
	int rc;

	if (sgpu_cpu_count() < 2) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "one processor only");
	}
	rc = sgpu_bench_new(bench, 3 * count * sizeof(float), &state, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	a = state;
	b = a + count;
	expected = b + count;
	for (uint64_t i = 0; i < count; i++) {
		a[i] = (float)(i % 1021);
		b[i] = i / edge == i % edge ? 2.0f : 0.0f;
		expected[i] = 2.0f * a[i];
	}
	rc = make_job(bench, edge, a, b, &job, error);
	for (unsigned i = 0; rc == SGPU_OK && i < 2; i++) {
		struct sgpu_bench with = *bench;
		struct sgpu_device *device = NULL;
		struct job_place *place = NULL;

		with.options.jobs = i + 1;
		rc = bench_new_device(&with, "cpu", &device, error);
		rc = rc ? rc : job_new_place(bench, device, false, &place, error);
		sides[i] = (struct job_side){ .bench = bench, .place = place, .batches = 1, .at_once = 1, .jobs = { job },
					      .check = job_check_same, .data = expected, .size = count * sizeof(float) };
	}
	return rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
}

const struct sgpu_bench_case case_overlap = {
	.name = "overlap",
	.help = "two independent operations on the CPU device, with one worker and with two",
	.unit = SGPU_BENCH_NS,
	.run = run,
};
