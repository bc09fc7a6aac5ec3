/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of the case sizes that a goal is about: many segments in a batch, independent chains, and
 * a server without work.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "sizes.h"

enum { SEED = 11, LEASES = 1 << 21 };

/* ---- batches of a server ---- */
enum { PAIR = 2 };
struct batches {
	struct served *served;
	struct bench_job *job;
	const struct job_side *side; /* side->batches: how often */
};

static int submit_all(void *argument, struct sgpu_error *error)
{
	const struct batches *b = argument;
	struct watch watch;
	int rc = SGPU_OK;

	watch_begin(&watch);
	for (int i = 0; rc == SGPU_OK && i < b->side->batches; i++) {
		rc = job_rewind(b->job->batch_fd, false, error);
		rc = rc ? rc : job_rewind(b->job->response_fd, false, error);
		rc = rc ? rc
			: served_submit(b->served, b->job->batch_fd, b->job->response_fd, false,
					error);
	}
	watch_end(b->served->bench, &watch, 1);
	return rc;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct batches *b = argument;
	void *results = malloc(b->job->result_size);
	int rc = results ? job_read(b->job, results, error) : sgpu_fail_nomem(error);

	rc = rc ? rc : job_check_same(b->side, results, b->job->result_size, error);
	free(results);
	return rc;
}

static int measure_pair(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
			const struct job_side sides[PAIR], struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(bench);
	struct sgpu_bench_variant variants[PAIR];
	struct batches batches[PAIR];
	struct served *served;
	char key[SERVED_PATH_MAX];
	int rc = served_new(bench, LEASES, &served, error);

	for (int i = 0; rc == SGPU_OK && i < PAIR; i++) {
		struct batches *b = &batches[i];

		*b = (struct batches){ .served = served, .side = &sides[i] };
		served_path(served, SERVED_KEY, key);
		rc = job_new(bench, true, &b->job, error);
		rc = rc ? rc : sgpu_key_load(key, &b->job->owner, error);
		if (rc == SGPU_OK) {
			sides[i].add(b->job, &sides[i]);
			rc = job_finish(b->job, error);
		}
		variants[i] =
			(struct sgpu_bench_variant){ sides[i].name, NULL, submit_all, verify, b };
	}
	rc = rc ? rc : sgpu_bench_measure(bench, point, variants, PAIR, error);
	sgpu_bench_release(bench, mark);
	return rc;
}

/* ---- small segments ---- */
enum { SMALL = 1024, SEGMENTS = 64 };

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

static int measure_segments(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct sgpu_bench_goal goals[PAIR] = { { 0, 0 }, { 0.1, 0 } };
	uint8_t data[SMALL];
	struct job_side sides[PAIR] = {
		{ .name = "64 batches", .count = 1, .batches = SEGMENTS },
		{ .name = "one batch", .count = SEGMENTS, .batches = 1 },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "what", "segments", 0 },
				{ "segments", NULL, SEGMENTS },
				{ "segment_bytes", NULL, SMALL } },
		.bytes = SEGMENTS * SMALL,
		.operations = SEGMENTS,
		.goals = goals,
	};

	sgpu_bench_fill(data, sizeof(data), SEED);
	for (int i = 0; i < PAIR; i++) {
		sides[i].add = add_copies;
		sides[i].data = data;
		sides[i].size = SMALL;
	}
	return measure_pair(bench, &point, sides, error);
}

/* ---- chains ---- */
enum { CHAINS = 4, CHAIN = 8, EDGE = 128, COUNT = EDGE * EDGE, CHAIN_BYTES = COUNT * 4 };

/* Adds chains, each of which adds b to a again and again; with in_a_row, each after the one before.
 * side->data holds three matrices: the expected sum, a, and b. */
static void add_chains(struct bench_job *job, const struct job_side *side)
{
	const struct job_type type = { "f32", { EDGE, EDGE } };
	const float *sum = side->data;
	char from[32], to[32], id[32] = "", before[32];

	job_segment(job, JOB_INPUT, "a", type, sum + COUNT);
	job_segment(job, JOB_INPUT, "b", type, sum + 2 * COUNT);
	for (int i = 0; i < CHAINS * CHAIN; i++) {
		const bool begins = i % CHAIN == 0, ends = i % CHAIN == CHAIN - 1;

		memcpy(before, id, sizeof(before));
		snprintf(from, sizeof(from), begins ? "a" : "x%d", i - 1);
		snprintf(to, sizeof(to), "x%d", i);
		snprintf(id, sizeof(id), "ADD%d", i);
		job_segment(job, ends ? JOB_OUTPUT : JOB_BETWEEN, to, type, NULL);
		job_operation(job, id, "vector_add",
			      json_pack("{s:s, s:s, s:s}", "a", from, "b", "b", "output", to), NULL,
			      side->in_a_row && begins && i > 0 ? before : NULL);
	}
}

static int measure_chains(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct sgpu_bench_goal goals[PAIR] = { { 0, 0 }, { 0.5, 0 } };
	static float sum[3 * COUNT];
	float *a = sum + COUNT, *b = a + COUNT;
	struct job_side sides[PAIR] = { { .name = "in a row", .in_a_row = true },
					{ .name = "at once" } };
	const struct sgpu_bench_point point = {
		.parameters = { { "what", "chains", 0 },
				{ "chains", NULL, CHAINS },
				{ "operations_a_chain", NULL, CHAIN },
				{ "operation_bytes", NULL, CHAIN_BYTES } },
		.operations = CHAINS * CHAIN,
		.goals = goals,
	};

	for (int i = 0; i < COUNT; i++) {
		a[i] = (float)(i % 1021);
		b[i] = (float)(i % 31);
		sum[i] = a[i] + CHAIN * b[i]; /* small integers: exact */
	}
	for (int i = 0; i < PAIR; i++) {
		sides[i].batches = 1;
		sides[i].add = add_chains;
		sides[i].data = sum;
		sides[i].size = CHAIN_BYTES;
	}
	return measure_pair(bench, &point, sides, error);
}

/* ---- a server without work ---- */
enum { IDLE_MS = 10000, IDLE_QUICK_MS = 100 };

static int rest(void *argument, struct sgpu_error *error)
{
	const struct served *s = argument;
	uint64_t cpu;

	(void)error;
	processes_rest();
	cpu = process_cpu_ns(s->pid);
	(void)poll(NULL, 0, s->bench->options.quick ? IDLE_QUICK_MS : IDLE_MS);
	cpu = process_cpu_ns(s->pid) - cpu;
	sgpu_bench_give_ns(s->bench, cpu ? cpu : 1);
	sgpu_bench_give_cpu_ns(s->bench, cpu ? cpu : 1);
	return SGPU_OK;
}

int sizes_idle(struct served *s, struct sgpu_error *error)
{
	struct sgpu_bench_options *options = &s->bench->options;
	const struct sgpu_bench_point point = {
		.parameters = { { "what", "idle server", 0 },
				{ "idle_ms", NULL, options->quick ? IDLE_QUICK_MS : IDLE_MS } }
	};
	const struct sgpu_bench_variant variant = { "processor time", NULL, rest, NULL, s };
	const uint64_t samples = options->samples;
	int rc;

	options->samples = 1; /* after one to warm up, each takes long */
	rc = sgpu_bench_measure(s->bench, &point, &variant, 1, error);
	options->samples = samples;
	return rc;
}

int sizes_figures(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const int rc = sgpu_bench_wants(bench, SMALL) ? measure_segments(bench, error) : SGPU_OK;

	return rc || !sgpu_bench_wants(bench, CHAIN_BYTES) ? rc : measure_chains(bench, error);
}
