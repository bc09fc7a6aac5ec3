/* SPDX-License-Identifier: Apache-2.0
 *
 * batch: what it saves to put small segments into one batch, and independent chains of operations on several streams.
 */
#include <stdlib.h>
#include <string.h>

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

/* A job that is run `times` times; what comes out is the pattern, in every output that starts with "o". */
struct runs {
	struct sgpu_bench *bench;
	const struct job_place *place;
	struct job job;
	int times;
	bool opens;             /* the device for every batch, as a process of its own would */
	const char *last;       /* the output that is verified */
	uint64_t size;
	const void *expected;
	void *got;
};

static int run_job(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct runs *r = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < r->times; i++) {
		uint64_t one = 0;

		rc = job_run_on(&r->job, r->bench, r->place, r->opens, &one, error);
		*ns += one;
	}
	return rc;
}

static int verify_job(void *argument, struct sgpu_error *error)
{
	struct runs *r = argument;
	int rc = job_read(&r->job, r->last, r->got, r->size, error);

	if (rc == SGPU_OK && memcmp(r->got, r->expected, r->size) != 0) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "output '%s' is not what it should be", r->last);
	}
	return rc;
}

/* ---- one batch of n segments, and n batches of one ---- */
enum { SMALL = 1024 };

static int make_copies(struct runs *r, int n, const void *data, struct ids *ids, struct sgpu_error *error)
{
	const struct job_type type = { "u8", { SMALL } };
	int rc = job_begin(&r->job, true, error);

	for (int i = 0; rc == SGPU_OK && i < n; i++) {
		const char *in = new_id(ids, "in", i, 0), *out = new_id(ids, "out", i, 0);

		job_input(&r->job, in, type, data, SMALL);
		job_output(&r->job, out, type);
		job_operation(&r->job, new_id(ids, "OP", i, 0), "copy",
			      json_pack("{s:s, s:s}", "input", in, "output", out), NULL, NULL);
		r->last = out;
	}
	r->size = SMALL;
	r->expected = data;
	return rc == SGPU_OK ? job_finish(&r->job, error) : rc;
}

static int measure_segments(struct sgpu_bench *bench, int n, bool opens, struct runs runs[2], struct ids *ids,
			    struct sgpu_error *error)
{
	uint8_t data[SMALL], got[SMALL];
	const struct sgpu_bench_variant variants[] = {
		{ .name = "n batches", .run = run_job, .verify = verify_job, .argument = &runs[0] },
		{ .name = "one batch", .run = run_job, .verify = verify_job, .argument = &runs[1] },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "device", job_device_text(opens), 0 }, { "segments", NULL, (uint64_t)n },
				{ "segment_bytes", NULL, SMALL } },
		.bytes = (uint64_t)n * SMALL, .operations = (uint64_t)n,
		.bytes_formula = "segments * segment_bytes",
	};
	int rc;

	sgpu_bench_fill(data, sizeof(data), SEED);
	runs[0].times = n;
	runs[1].times = 1;
	runs[0].got = runs[1].got = got;
	runs[0].opens = runs[1].opens = opens;
	rc = make_copies(&runs[0], 1, data, ids, error);
	if (rc == SGPU_OK) {
		rc = make_copies(&runs[1], n, data, ids, error);
	}
	return rc == SGPU_OK ? sgpu_bench_measure(bench, &point, variants, 2, error) : rc;
}

/* ---- chains of operations, one after another and at once ---- */
enum { CHAIN = 8, EDGE = 512, CHAIN_BYTES = EDGE * EDGE * 4 };

/* Each chain adds the second input CHAIN times. in_a_row: a chain waits for the one before it. */
static int make_chains(struct runs *r, int chains, bool in_a_row, const float *a, const float *b, struct ids *ids,
		       struct sgpu_error *error)
{
	const struct job_type type = { "f32", { EDGE, EDGE } };
	int rc = job_begin(&r->job, false, error);
	const char *before = NULL;

	if (rc != SGPU_OK) {
		return rc;
	}
	job_input(&r->job, "a", type, a, CHAIN_BYTES);
	job_input(&r->job, "b", type, b, CHAIN_BYTES);
	for (int c = 0; c < chains; c++) {
		const char *from = "a", *operation = NULL;

		for (int i = 0; i < CHAIN; i++) {
			const char *to = new_id(ids, i < CHAIN - 1 ? "x" : "out", c, i);

			if (i < CHAIN - 1) {
				job_between(&r->job, to);
			} else {
				job_output(&r->job, to, type);
			}
			operation = new_id(ids, "OP", c, i);
			job_operation(&r->job, operation, "vector_add",
				      json_pack("{s:s, s:s, s:s}", "a", from, "b", "b", "output", to), NULL,
				      i == 0 && in_a_row ? before : NULL);
			from = to;
		}
		before = operation;
		r->last = from;
	}
	return job_finish(&r->job, error);
}

static int measure_chains(struct sgpu_bench *bench, int chains, struct runs runs[2], struct ids *ids, float *memory,
			  struct sgpu_error *error)
{
	float *a = memory, *b = a + EDGE * EDGE, *sum = b + EDGE * EDGE, *got = sum + EDGE * EDGE;
	const struct sgpu_bench_variant variants[] = {
		{ .name = "in a row", .run = run_job, .verify = verify_job, .argument = &runs[0] },
		{ .name = "at once", .run = run_job, .verify = verify_job, .argument = &runs[1] },
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
	for (int v = 0; rc == SGPU_OK && v < 2; v++) {
		runs[v].times = 1;
		runs[v].size = CHAIN_BYTES;
		runs[v].expected = sum;
		runs[v].got = got;
		rc = make_chains(&runs[v], chains, v == 0, a, b, ids, error);
	}
	return rc == SGPU_OK ? sgpu_bench_measure(bench, &point, variants, 2, error) : rc;
}

/* ---- all of it ---- */
struct state {
	struct job_place place;
	struct runs runs[2];
	struct ids ids;
	float memory[4 * EDGE * EDGE];
};

static void reset(struct sgpu_bench *bench, struct state *s)
{
	for (int v = 0; v < 2; v++) {
		job_clear(&s->runs[v].job);
		memset(&s->runs[v], 0, sizeof(s->runs[v]));
		s->runs[v].bench = bench;
		s->runs[v].place = &s->place;
	}
	s->ids.count = 0;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	static const int segments[] = { 1, 8, 64 }, chains[] = { 1, 2, 4, 8, 16 };
	struct state *s = state;
	int rc = SGPU_OK;

	for (size_t i = 0; rc == SGPU_OK && i < 2 * SGPU_ARRAY_LENGTH(segments); i++) {
		if (sgpu_bench_wants(bench, SMALL)) {
			reset(bench, s);
			rc = measure_segments(bench, segments[i / 2], i % 2 == 1, s->runs, &s->ids, error);
		}
	}
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(chains); i++) {
		if (sgpu_bench_wants(bench, CHAIN_BYTES)) {
			reset(bench, s);
			rc = measure_chains(bench, chains[i], s->runs, &s->ids, s->memory, error);
		}
	}
	return rc;
}

static int setup(struct sgpu_bench *bench, void **state, struct sgpu_error *error)
{
	struct state *s = calloc(1, sizeof(*s));

	*state = s;
	return s ? job_place_open(&s->place, bench->device, true, error) : sgpu_fail_nomem(error);
}

static void teardown(struct sgpu_bench *bench, void *state)
{
	struct state *s = state;

	if (s) {
		reset(bench, s);
		job_place_close(&s->place);
	}
	free(s);
}

const struct sgpu_bench_case case_batch = {
	.name = "batch",
	.help = "one batch of small segments against as many batches; chains of operations at once",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.setup = setup,
	.run = run,
	.teardown = teardown,
};
