/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cases.h"
#include "job.h"

enum {
	SEED = 11,
	SMALL = 1024,
	CHAIN = 8,
	EDGE = 512,
	COUNT = EDGE * EDGE,
	CHAIN_BYTES = COUNT * 4
};

static void add_copies(struct bench_job *job, const struct job_side *side)
{
	const struct job_type type = { "u8", { SMALL } };
	char in[24], out[24], id[24];

	for (int i = 0; i < side->count; i++) {
		snprintf(in, sizeof(in), "in%d", i);
		snprintf(out, sizeof(out), "out%d", i);
		snprintf(id, sizeof(id), "OP%d", i);
		job_segment(job, JOB_INPUT, in, type, side->data);
		job_segment(job, JOB_OUTPUT, out, type, NULL);
		job_operation(job, id, "copy", json_pack("{s:s, s:s}", "input", in, "output", out),
			      NULL, NULL);
	}
}

/* Compares copies, each in a batch of its own, with as many copies in one batch. */
static int measure_segments(struct sgpu_bench *bench, int n, bool opens, struct sgpu_error *error)
{
	uint8_t data[SMALL];
	const struct job_side one = { .name = "one batch",
				      .sealed = true,
				      .opens = opens,
				      .add = add_copies,
				      .count = n,
				      .check = job_check_same,
				      .data = data,
				      .size = SMALL };
	struct job_side sides[] = { one, one };
	const struct sgpu_bench_point point = {
		.parameters = { { "device", opens ? "opened for a batch" : "resident", 0 },
				{ "segments", NULL, (uint64_t)n },
				{ "segment_bytes", NULL, SMALL } },
		.bytes = (uint64_t)n * SMALL,
		.operations = (uint64_t)n,
	};

	sgpu_bench_fill(data, sizeof(data), SEED);
	sides[0].name = "n batches";
	sides[0].batches = n;
	sides[0].count = 1;
	return job_measure(bench, &point, sides, 2, error);
}

/* Adds the chains. side->data holds three vectors: the expected sum, the start, and the addend. */
static void add_chains(struct bench_job *job, const struct job_side *side)
{
	const struct job_type type = { "f32", { EDGE, EDGE } };
	const float *sum = side->data;

	job_chains(job, side->count, CHAIN, type, sum + COUNT, sum + 2 * COUNT, side->in_a_row);
}

static int measure_chains(struct sgpu_bench *bench, int chains, const float *sum,
			  struct sgpu_error *error)
{
	const struct job_side at_once = { .name = "at once",
					  .add = add_chains,
					  .count = chains,
					  .check = job_check_same,
					  .data = sum,
					  .size = CHAIN_BYTES };
	struct job_side sides[] = { at_once, at_once };
	const struct sgpu_bench_point point = {
		.parameters = { { "streams", NULL, (uint64_t)chains },
				{ "operations_a_stream", NULL, CHAIN } },
		.bytes = (uint64_t)chains * CHAIN_BYTES,
		.operations = (uint64_t)chains * CHAIN,
	};

	sides[0].name = "in a row";
	sides[0].in_a_row = true;
	return job_measure(bench, &point, sides, 2, error);
}

int bench_batch(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const int segments[] = { 1, 8, 64 }, chains[] = { 1, 2, 4, 8, 16 };
	float *sum = sgpu_bench_new(bench, (size_t)3 * CHAIN_BYTES, NULL, error), *a = sum + COUNT,
	      *b = a + COUNT;
	int rc = sum ? SGPU_OK : SGPU_ENOMEM;

	for (int i = 0; rc == SGPU_OK && i < COUNT; i++) {
		a[i] = (float)(i % 1021);
		b[i] = (float)(i % 31);
		sum[i] = a[i] + CHAIN * b[i]; /* small integers: exact */
	}
	for (size_t i = 0;
	     rc == SGPU_OK && sgpu_bench_wants(bench, SMALL) && i < 2 * SGPU_ARRAY_LENGTH(segments);
	     i++) {
		rc = measure_segments(bench, segments[i / 2], i % 2 == 1, error);
	}
	for (size_t i = 0;
	     rc == SGPU_OK && sgpu_bench_wants(bench, CHAIN_BYTES) && i < SGPU_ARRAY_LENGTH(chains);
	     i++) {
		rc = measure_chains(bench, chains[i], sum, error);
	}
	return rc;
}
