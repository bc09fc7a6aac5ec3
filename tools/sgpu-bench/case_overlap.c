/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap: two equal operations that do not wait for each other, on a CPU device with one worker and with two.
 */
#include "cases.h"
#include "job.h"

enum { EDGE = 2048, EDGE_QUICK = 512 };

/* Small integers: the products are exact. */
static int check_both(struct job_side *side, struct sgpu_error *error)
{
	int rc;

	side->id = "out0";
	rc = job_check_same(side, error);
	side->id = "out1";
	return rc ? rc : job_check_same(side, error);
}

/* a times b, b being the unit matrix times 2. */
static int finish_job(struct job *job, uint64_t edge, const float *a, const float *b, struct sgpu_error *error)
{
	const struct job_type type = { "f32", { edge, edge } };
	const uint64_t size = edge * edge * sizeof(float);

	job_input(job, "a", type, a, size);
	job_input(job, "b", type, b, size);
	job_output(job, "out0", type);
	job_output(job, "out1", type);
	for (int i = 0; i < 2; i++) {
		job_operation(job, i ? "MUL1" : "MUL0", "gemm",
			      json_pack("{s:s, s:s, s:s}", "a", "a", "b", "b", "output", i ? "out1" : "out0"),
			      NULL, NULL);
	}
	return job_finish(job, error);
}

static int measure(struct sgpu_bench *bench, struct job_side sides[2], uint64_t edge, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "one worker", .run = job_side_run, .verify = job_side_verify, .argument = &sides[0] },
		{ .name = "two workers", .run = job_side_run, .verify = job_side_verify, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = { .parameters = { { "operation", "gemm", 0 }, { "edge", NULL, edge } },
						.operations = 2 };
	struct job_place places[2] = { { .device = NULL } };
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		const struct sgpu_device_config config = { .jobs = (unsigned)i + 1 };

		sides[i].place = &places[i];
		rc = job_place_open(&places[i], "cpu", &config, false, error);
	}
	rc = rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
	job_place_close(&places[0]);
	job_place_close(&places[1]);
	return rc;
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const uint64_t edge = bench->options.quick ? EDGE_QUICK : EDGE, count = edge * edge;
	struct job_side sides[2];
	struct job *job = NULL;
	float *a, *b, *expected;
	void *state = NULL;
	int rc;

	if (sgpu_cpu_count() < 2) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "one processor only");
	}
	rc = sgpu_bench_new(bench, 4 * count * sizeof(float), &state, error);
	rc = rc ? rc : job_new(bench, false, &job, error);
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
	sides[0] = (struct job_side){ .bench = bench, .job = job, .batches = 1, .check = check_both, .data = expected,
				      .count = count * sizeof(float), .output = expected + count };
	sides[1] = sides[0];
	rc = finish_job(job, edge, a, b, error);
	return rc ? rc : measure(bench, sides, edge, error);
}

const struct sgpu_bench_case case_overlap = {
	.name = "overlap",
	.help = "two independent operations on the CPU device, with one worker and with two",
	.unit = SGPU_BENCH_NS,
	.run = run,
};
