/* SPDX-License-Identifier: Apache-2.0
 *
 * batch: what it saves to put small segments into one batch, and independent chains of operations on several streams.
 */
#include <stdio.h>

#include "cases.h"
#include "job.h"

enum { SEED = 11, IDS_MAX = 512, ID_SIZE = 16 };

/* Ids are borrowed by the job: they live here. */
struct ids {
	char text[IDS_MAX][ID_SIZE];
	int count;
};

static const char *new_id(struct ids *ids, const char *prefix, int a, int b)
{
	char *id = ids->text[ids->count++];

	snprintf(id, ID_SIZE, "%.4s%d_%d", prefix, a, b);
	return id;
}

/* ---- one batch of n segments, and n batches of one ---- */
enum { SMALL = 1024 };

static int make_copies(struct job_side *side, int n, struct ids *ids, struct sgpu_error *error)
{
	const struct job_type type = { "u8", { SMALL } };
	int rc = job_new(side->bench, true, &side->job, error);

	for (int i = 0; rc == SGPU_OK && i < n; i++) {
		const char *in = new_id(ids, "in", i, 0), *out = new_id(ids, "out", i, 0);

		job_input(side->job, in, type, side->data, SMALL);
		job_output(side->job, out, type);
		job_operation(side->job, new_id(ids, "OP", i, 0), "copy",
			      json_pack("{s:s, s:s}", "input", in, "output", out), NULL, NULL);
		side->id = out;
	}
	return rc ? rc : job_finish(side->job, error);
}

static int measure_segments(struct sgpu_bench *bench, const struct job_place *place, int n, bool opens,
			    struct sgpu_error *error)
{
	uint8_t data[SMALL], got[SMALL];
	struct ids ids = { .count = 0 };
	struct job_side sides[2];
	const struct sgpu_bench_variant variants[] = {
		{ .name = "n batches", .run = job_side_run, .verify = job_side_verify, .argument = &sides[0] },
		{ .name = "one batch", .run = job_side_run, .verify = job_side_verify, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "device", job_device_text(opens), 0 }, { "segments", NULL, (uint64_t)n },
				{ "segment_bytes", NULL, SMALL } },
		.bytes = (uint64_t)n * SMALL, .operations = (uint64_t)n,
		.bytes_formula = "segments * segment_bytes",
	};
	int rc = SGPU_OK;

	sgpu_bench_fill(data, sizeof(data), SEED);
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		sides[i] = (struct job_side){ .bench = bench, .place = place, .batches = i ? 1 : n, .opens = opens,
					      .check = job_check_same, .data = data, .count = SMALL, .output = got };
		rc = make_copies(&sides[i], i ? n : 1, &ids, error);
	}
	return rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
}

/* ---- chains of operations, one after another and at once ---- */
enum { CHAIN = 8, EDGE = 512, CHAIN_BYTES = EDGE * EDGE * 4 };

/* Each chain adds the second input CHAIN times. in_a_row: a chain waits for the one before it. */
static int make_chains(struct job_side *side, int chains, bool in_a_row, const float *a, const float *b, struct ids *ids,
		       struct sgpu_error *error)
{
	const struct job_type type = { "f32", { EDGE, EDGE } };
	int rc = job_new(side->bench, false, &side->job, error);
	const char *before = NULL;

	if (rc != SGPU_OK) {
		return rc;
	}
	job_input(side->job, "a", type, a, CHAIN_BYTES);
	job_input(side->job, "b", type, b, CHAIN_BYTES);
	for (int c = 0; c < chains; c++) {
		const char *from = "a", *operation = NULL;

		for (int i = 0; i < CHAIN; i++) {
			const char *to = new_id(ids, i < CHAIN - 1 ? "x" : "out", c, i);

			if (i < CHAIN - 1) {
				job_between(side->job, to);
			} else {
				job_output(side->job, to, type);
			}
			operation = new_id(ids, "OP", c, i);
			job_operation(side->job, operation, "vector_add",
				      json_pack("{s:s, s:s, s:s}", "a", from, "b", "b", "output", to), NULL,
				      i == 0 && in_a_row ? before : NULL);
			from = to;
		}
		before = operation;
		side->id = from;
	}
	return job_finish(side->job, error);
}

static int measure_chains(struct sgpu_bench *bench, const struct job_place *place, int chains, float *memory,
			  struct sgpu_error *error)
{
	float *a = memory, *b = a + EDGE * EDGE, *sum = b + EDGE * EDGE, *got = sum + EDGE * EDGE;
	struct ids ids = { .count = 0 };
	struct job_side sides[2];
	const struct sgpu_bench_variant variants[] = {
		{ .name = "in a row", .run = job_side_run, .verify = job_side_verify, .argument = &sides[0] },
		{ .name = "at once", .run = job_side_run, .verify = job_side_verify, .argument = &sides[1] },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "streams", NULL, (uint64_t)chains }, { "operations_a_stream", NULL, CHAIN } },
		.bytes = (uint64_t)chains * CHAIN_BYTES, .operations = (uint64_t)chains * CHAIN,
		.bytes_formula = "streams * 1 MiB, one matrix a stream",
	};
	int rc = SGPU_OK;

	for (int i = 0; i < EDGE * EDGE; i++) {
		a[i] = (float)(i % 1021);
		b[i] = (float)(i % 31);
		sum[i] = a[i] + CHAIN * b[i]; /* small integers: exact */
	}
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		sides[i] = (struct job_side){ .bench = bench, .place = place, .batches = 1, .check = job_check_same,
					      .data = sum, .count = CHAIN_BYTES, .output = got };
		rc = make_chains(&sides[i], chains, i == 0, a, b, &ids, error);
	}
	return rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
}

/* ---- the case ---- */
static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const int segments[] = { 1, 8, 64 }, chains[] = { 1, 2, 4, 8, 16 };
	struct job_place *place = NULL;
	void *state = NULL;
	int rc = sgpu_bench_new(bench, (size_t)4 * CHAIN_BYTES, &state, error);
	size_t mark;

	rc = rc ? rc : job_new_place(bench, &place, error);
	mark = sgpu_bench_mark(bench);
	for (size_t i = 0; rc == SGPU_OK && sgpu_bench_wants(bench, SMALL) && i < 2 * SGPU_ARRAY_LENGTH(segments); i++) {
		rc = measure_segments(bench, place, segments[i / 2], i % 2 == 1, error);
		sgpu_bench_release(bench, mark);
	}
	for (size_t i = 0; rc == SGPU_OK && sgpu_bench_wants(bench, CHAIN_BYTES) && i < SGPU_ARRAY_LENGTH(chains); i++) {
		rc = measure_chains(bench, place, chains[i], state, error);
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
