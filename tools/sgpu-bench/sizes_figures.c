/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of the case sizes that a goal is about: many segments in a batch, independent chains, and
 * a server without work.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "sizes.h"

enum { SEED = 11, LEASES = 1 << 21 };

/* ---- batches of a server ---- */
struct batches {
	struct served *served;
	int count; /* of a sample */
};

static int submit_all(void *argument, struct sgpu_error *error)
{
	const struct job_side *side = argument;
	const struct batches *b = side->state;
	struct watch watch;
	int rc = SGPU_OK;

	watch_begin(&watch);
	for (int i = 0; rc == SGPU_OK && i < b->count; i++) {
		rc = job_rewind(side->job->batch_fd, false, error);
		rc = rc ? rc : job_rewind(side->job->response_fd, false, error);
		rc = rc ? rc
			: served_submit(b->served, side->job->batch_fd, side->job->response_fd,
					false, error);
	}
	watch_end(side->bench, &watch, 1);
	return rc;
}

static int check_same(const struct job_side *side, const void *results, uint64_t size,
		      struct sgpu_error *error)
{
	for (uint64_t at = 0; at < size; at += side->size) {
		if (memcmp((const uint8_t *)results + at, side->data, side->size) != 0) {
			return sgpu_fail(error, SGPU_EDIFFERS,
					 "output %llu is not what it should be",
					 (unsigned long long)(at / side->size));
		}
	}
	return SGPU_OK;
}

/* counts: of batches in a sample of each side. data: what each output should be. */
static int measure_batches(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
			   struct job_side sides[JOB_SIDES], const int counts[JOB_SIDES],
			   const void *data, uint64_t size, struct sgpu_error *error)
{
	const void *const mark = bench->kept;
	struct batches batches[JOB_SIDES];
	char path[SERVED_PATH_MAX];
	struct served *served;
	struct sgpu_key key;
	int rc = served_new(bench, LEASES, &served, error);

	rc = rc ? rc : sgpu_key_load(served_path(served, SERVED_KEY, path), &key, error);
	for (int i = 0; rc == SGPU_OK && i < JOB_SIDES; i++) {
		batches[i] = (struct batches){ served, counts[i] };
		sides[i].sealed = true;
		sides[i].check = check_same;
		sides[i].data = data;
		sides[i].size = size;
		sides[i].state = &batches[i];
		sides[i].owner = &key;
	}
	rc = rc ? rc : job_measure(bench, point, sides, submit_all, error);
	sgpu_bench_release(bench, mark);
	sgpu_key_clear(&key);
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
	static const struct sgpu_bench_goal goals[JOB_SIDES] = { { 0, 0 }, { 0.1, 0 } };
	static const int batches[JOB_SIDES] = { SEGMENTS, 1 };
	uint8_t data[SMALL];
	struct job_side sides[JOB_SIDES] = {
		{ .name = "64 batches", .add = add_copies, .count = 1 },
		{ .name = "one batch", .add = add_copies, .count = SEGMENTS },
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
	return measure_batches(bench, &point, sides, batches, data, SMALL, error);
}

/* ---- chains ---- */
enum { CHAINS = 4, CHAIN = 8, EDGE = 128, COUNT = EDGE * EDGE, CHAIN_BYTES = COUNT * 4 };

/* Each chain adds b to a again and again; with in_a_row, after the one before. side->data holds
 * three matrices: the expected sum, a, and b. */
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
	static const struct sgpu_bench_goal goals[JOB_SIDES] = { { 0, 0 }, { 0.5, 0 } };
	static const int batches[JOB_SIDES] = { 1, 1 };
	static float sum[3 * COUNT];
	float *a = sum + COUNT, *b = a + COUNT;
	struct job_side sides[JOB_SIDES] = {
		{ .name = "in a row", .add = add_chains, .in_a_row = true },
		{ .name = "at once", .add = add_chains },
	};
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
	return measure_batches(bench, &point, sides, batches, sum, CHAIN_BYTES, error);
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
	s->bench->ns = cpu ? cpu : 1;
	s->bench->cpu_ns = cpu ? cpu : 1;
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

	options->samples = 1; /* each takes long, as does the warm-up */
	rc = sgpu_bench_measure(s->bench, &point, &variant, 1, error);
	options->samples = samples;
	return rc;
}

int sizes_figures(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const int rc = sgpu_bench_wants(bench, SMALL) ? measure_segments(bench, error) : SGPU_OK;

	return rc || !sgpu_bench_wants(bench, CHAIN_BYTES) ? rc : measure_chains(bench, error);
}
