/* SPDX-License-Identifier: Apache-2.0
 *
 * batch: what it saves to put small segments into one batch, and independent chains of operations on several streams.
 */
#include "cases.h"
#include "job.h"

enum { SEED = 11, SMALL = 1024, CHAIN = 8, EDGE = 512, COUNT = EDGE * EDGE, CHAIN_BYTES = COUNT * 4 };

/* Copies for a batch of their own each, and for one batch. */
static int measure_segments(struct sgpu_bench *bench, const struct job_place *place, int n, bool opens,
			    struct sgpu_error *error)
{
	uint8_t data[SMALL];
	struct job_side sides[2];
	const struct sgpu_bench_variant variants[] = { job_variant("n batches", &sides[0]),
						       job_variant("one batch", &sides[1]) };
	const struct sgpu_bench_point point = {
		.parameters = { { "device", job_device_text(opens), 0 }, { "segments", NULL, (uint64_t)n },
				{ "segment_bytes", NULL, SMALL } },
		.bytes = (uint64_t)n * SMALL, .operations = (uint64_t)n,
		.bytes_formula = "segments * segment_bytes",
	};
	int rc = SGPU_OK;

	sgpu_bench_fill(data, sizeof(data), SEED);
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		struct job_side *s = &sides[i];

		*s = (struct job_side){ .bench = bench, .place = place, .opens = opens, .batches = i ? 1 : n,
					.at_once = 1, .check = job_check_same, .data = data, .size = SMALL };
		rc = job_new(bench, true, &s->jobs[0], error);
		if (rc == SGPU_OK) {
			job_copies(s->jobs[0], i ? n : 1, SMALL, data);
			rc = job_finish(s->jobs[0], error);
		}
	}
	return rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
}

/* memory: what is added, what to, and the sum of a chain. */
static int measure_chains(struct sgpu_bench *bench, const struct job_place *place, int chains, const float *memory,
			  struct sgpu_error *error)
{
	const struct job_type type = { "f32", { EDGE, EDGE } };
	struct job_side sides[2];
	const struct sgpu_bench_variant variants[] = { job_variant("in a row", &sides[0]),
						       job_variant("at once", &sides[1]) };
	const struct sgpu_bench_point point = {
		.parameters = { { "streams", NULL, (uint64_t)chains }, { "operations_a_stream", NULL, CHAIN } },
		.bytes = (uint64_t)chains * CHAIN_BYTES, .operations = (uint64_t)chains * CHAIN,
		.bytes_formula = "streams * 1 MiB, one matrix a stream",
	};
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		struct job_side *s = &sides[i];

		*s = (struct job_side){ .bench = bench, .place = place, .batches = 1, .at_once = 1,
					.check = job_check_same, .data = memory + 2 * COUNT, .size = CHAIN_BYTES };
		rc = job_new(bench, false, &s->jobs[0], error);
		if (rc == SGPU_OK) {
			job_chains(s->jobs[0], chains, CHAIN, type, memory, memory + COUNT, i == 0);
			rc = job_finish(s->jobs[0], error);
		}
	}
	return rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const int segments[] = { 1, 8, 64 }, chains[] = { 1, 2, 4, 8, 16 };
	struct job_place *place = NULL;
	void *state = NULL;
	int rc = sgpu_bench_new(bench, (size_t)3 * CHAIN_BYTES, &state, error);
	float *memory = state;
	size_t mark;

	rc = rc ? rc : job_new_place(bench, bench->device, true, &place, error);
	for (int i = 0; rc == SGPU_OK && i < COUNT; i++) {
		memory[i] = (float)(i % 1021);
		memory[COUNT + i] = (float)(i % 31);
		memory[2 * COUNT + i] = memory[i] + CHAIN * memory[COUNT + i]; /* small integers: exact */
	}
	mark = sgpu_bench_mark(bench);
	for (size_t i = 0; rc == SGPU_OK && sgpu_bench_wants(bench, SMALL) && i < 2 * SGPU_ARRAY_LENGTH(segments); i++) {
		rc = measure_segments(bench, place, segments[i / 2], i % 2 == 1, error);
		sgpu_bench_release(bench, mark);
	}
	for (size_t i = 0; rc == SGPU_OK && sgpu_bench_wants(bench, CHAIN_BYTES) && i < SGPU_ARRAY_LENGTH(chains); i++) {
		rc = measure_chains(bench, place, chains[i], memory, error);
		sgpu_bench_release(bench, mark);
	}
	return rc;
}

const struct sgpu_bench_case case_batch = {
	.name = "batch",
	.help = "one batch of small segments against as many batches; chains of operations at once",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
