/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap: two equal operations that do not wait for each other, on a CPU device with one worker and with two.
 */
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "job.h"

enum { EDGE = 2048, EDGE_QUICK = 512 };

struct side {
	struct job *job;
	struct sgpu_device *device;
	struct job_place place;
	const float *expected;
	float *got;
	uint64_t size;
};

static int run_side(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct side *s = argument;

	return job_run(s->job, &s->place, ns, error);
}

/* Small integers: the products are exact. */
static int verify_side(void *argument, struct sgpu_error *error)
{
	struct side *s = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		rc = job_read(s->job, i ? "out1" : "out0", s->got, s->size, error);
		if (rc == SGPU_OK && memcmp(s->got, s->expected, s->size) != 0) {
			rc = sgpu_fail(error, SGPU_EDIFFERS, "product %d is wrong", i);
		}
	}
	return rc;
}

/* a times b, b being the unit matrix times 2. */
static int make_job(struct job *job, uint64_t edge, const float *a, const float *b, struct sgpu_error *error)
{
	const struct job_type type = { "f32", { edge, edge } };
	const uint64_t size = edge * edge * sizeof(float);
	int rc = job_begin(job, false, error);

	if (rc != SGPU_OK) {
		return rc;
	}
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

static int measure(struct sgpu_bench *bench, struct side sides[2], uint64_t edge, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "one worker", .run = run_side, .verify = verify_side, .argument = &sides[0] },
		{ .name = "two workers", .run = run_side, .verify = verify_side, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = { .parameters = { { "operation", "gemm", 0 }, { "edge", NULL, edge } },
						.operations = 2 };

	return sgpu_bench_measure(bench, &point, variants, 2, error);
}

static int run_on(struct sgpu_bench *bench, struct job *job, uint64_t edge, float *memory, struct sgpu_error *error)
{
	const uint64_t count = edge * edge;
	float *a = memory, *b = a + count, *expected = b + count, *got = expected + count;
	struct side sides[2];
	int rc = SGPU_OK;

	for (uint64_t i = 0; i < count; i++) {
		a[i] = (float)(i % 1021);
		b[i] = i / edge == i % edge ? 2.0f : 0.0f;
		expected[i] = 2.0f * a[i];
	}
	memset(sides, 0, sizeof(sides));
	rc = make_job(job, edge, a, b, error);
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		const struct sgpu_device_config config = { .jobs = (unsigned)i + 1 };

		sides[i] = (struct side){ .job = job, .expected = expected, .got = got, .size = count * sizeof(float) };
		rc = sgpu_device_open("cpu", &config, &sides[i].device, error);
		rc = rc ? rc : job_place_open(&sides[i].place, sides[i].device, false, error);
	}
	rc = rc ? rc : measure(bench, sides, edge, error);
	for (int i = 0; i < 2; i++) {
		job_place_close(&sides[i].place);
		sgpu_device_close(&sides[i].device);
	}
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	const uint64_t edge = bench->options.quick ? EDGE_QUICK : EDGE;
	struct job *job;
	float *memory;
	int rc;

	(void)state;
	if (sgpu_cpu_count() < 2) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "one processor only");
	}
	job = calloc(1, sizeof(*job));
	memory = malloc(4 * edge * edge * sizeof(*memory));
	rc = job && memory ? run_on(bench, job, edge, memory, error) : sgpu_fail_nomem(error);
	if (job) {
		job_clear(job);
	}
	free(job);
	free(memory);
	return rc;
}

const struct sgpu_bench_case case_overlap = {
	.name = "overlap",
	.help = "two independent operations on the CPU device, with one worker and with two",
	.unit = SGPU_BENCH_NS,
	.run = run,
};
