/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap: two equal operations that do not wait for each other, on a CPU device with one worker
 * and with two.
 */
#include "cases.h"
#include "job.h"
#include "made.h"

enum { EDGE = 2048, EDGE_QUICK = 512 };

/* The data: the product, a matrix, and the unit matrix times 2. */
static void add_products(struct job *job, const struct job_side *side)
{
	const uint64_t edge = (uint64_t)side->count;
	const struct job_type type = { "f32", { edge, edge } };
	const float *product = side->data;

	job_segment(job, JOB_INPUT, "a", type, product + edge * edge);
	job_segment(job, JOB_INPUT, "b", type, product + 2 * edge * edge);
	for (int i = 0; i < 2; i++) {
		const char *const to = i ? "out1" : "out0";

		job_segment(job, JOB_OUTPUT, to, type, NULL);
		job_operation(job, i ? "MUL1" : "MUL0", "gemm",
			      json_pack("{s:s, s:s, s:s}", "a", "a", "b", "b", "output", to), NULL,
			      NULL);
	}
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const int edge = bench->options.quick ? EDGE_QUICK : EDGE, count = edge * edge;
	struct job_side sides[2];
	const struct sgpu_bench_point point = { .parameters = { { "operation", "gemm", 0 },
								{ "edge", NULL, (uint64_t)edge } },
						.operations = 2 };
	float *product;
	void *state = NULL;
	int rc;

	if (sgpu_cpu_count() < 2) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "one processor only");
	}
	rc = sgpu_bench_new(bench, 3 * (size_t)count * sizeof(float), &state, error);
	product = state;
	for (int i = 0; rc == SGPU_OK && i < count; i++) { /* small integers: exact */
		product[count + i] = (float)(i % 1021);
		product[2 * count + i] = i / edge == i % edge ? 2.0f : 0.0f;
		product[i] = 2.0f * product[count + i];
	}
	for (unsigned i = 0; rc == SGPU_OK && i < 2; i++) {
		struct sgpu_bench with = *bench;
		struct sgpu_device *device = NULL;
		struct job_place *place = NULL;

		with.options.jobs = i + 1;
		rc = bench_new_device(&with, "cpu", &device, error);
		rc = rc ? rc : job_new_place(bench, device, false, &place, error);
		sides[i] = (struct job_side){ .name = i ? "two workers" : "one worker",
					      .place = place,
					      .add = add_products,
					      .count = edge,
					      .check = job_check_same,
					      .data = product,
					      .size = (uint64_t)count * sizeof(float) };
	}
	return rc ? rc : job_measure(bench, &point, sides, 2, error);
}

const struct sgpu_bench_case case_overlap = {
	.name = "overlap",
	.help = "two independent operations on the CPU device, with one worker and with two",
	.unit = SGPU_BENCH_NS,
	.run = run,
};
