/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest: the check of a large manifest, against reading its JSON; and a job of three operations
 * on data of both sensitivities, decomposed by its client or by its manifest.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/json.h>
#include <sgpu/ops.h>

#include "cases.h"
#include "job.h"

enum { OPERATIONS = 5000, SEGMENTS = 2 * OPERATIONS };

static int check_count(size_t segments, struct sgpu_error *error)
{
	return segments == SEGMENTS
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS,
				   "the manifest has not %d segments, but %zu", SEGMENTS, segments);
}

static int parse(void *argument, struct sgpu_error *error)
{
	const char *text = argument;
	json_t *value = NULL;
	int rc = sgpu_json_parse_most(text, strlen(text), SIZE_MAX, &value, NULL, NULL, error);

	rc = rc ? rc : check_count(json_array_size(json_object_get(value, "segments")), error);
	json_decref(value);
	return rc;
}

static int check(void *argument, struct sgpu_error *error)
{
	const char *text = argument;
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };
	int rc =
		sgpu_ops_load_manifest(text, strlen(text), "bench", &manifest, &diagnostics, error);

	rc = rc ? rc : check_count((size_t)manifest->segment_count, error);
	sgpu_manifest_free(&manifest);
	sgpu_diagnostics_clear(&diagnostics);
	return rc;
}

static int measure_check(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct job *job = NULL;
	char *text = NULL;
	int rc = job_new(bench, true, &job, error);

	if (rc == SGPU_OK) {
		job_copies(job, OPERATIONS, 1024, NULL);
		text = job_manifest(job);
		rc = text ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK) {
		const struct sgpu_bench_variant variants[] = {
			{ .name = "JSON read", .work = parse, .argument = text },
			{ .name = "manifest checked", .work = check, .argument = text },
		};
		const struct sgpu_bench_point point = { .parameters = { { "segments", NULL,
									  SEGMENTS } },
							.bytes = strlen(text),
							.bytes_formula = "the manifest's text" };

		rc = sgpu_bench_measure(bench, &point, variants, 2, error);
	}
	free(text);
	return rc;
}

/* ---- the proposal's example: a HIGH picture, and a LOW table and a LOW offset, which are combined
 * first ---- */
enum { PIXELS = 1 << 18, PICTURE_BYTES = PIXELS * 4 };
enum { IMAGE, TABLE, OFFSET, COMBINED, BETWEEN, RESULT, PICTURES, WANTED = PICTURES };
static const char *const names[PICTURES] = { "image",	 "table",   "offset",
					     "combined", "between", "result" };
static const bool high[PICTURES] = { [IMAGE] = true, [BETWEEN] = true, [RESULT] = true };

static const struct operation {
	const char *id;
	int pictures[3]; /* what is added, and the sum */
} operations[] = { { "FIRST", { TABLE, OFFSET, COMBINED } },
		   { "SECOND", { IMAGE, COMBINED, BETWEEN } },
		   { "THIRD", { BETWEEN, COMBINED, RESULT } } };

struct example {
	struct sgpu_bench *bench;
	const struct job_place *place;
	float (*data)[PIXELS]; /* and the result that is wanted */
};

/* Adds the next operation of a batch, and its pictures. Each segment is HIGH or LOW as the job is
 * when it is added. */
static void add_operation(const struct example *e, struct job *job, const struct operation *o,
			  bool last, bool there[PICTURES])
{
	const struct job_type type = { "f32", { PIXELS } };

	for (int k = 0; k < 3; k++) {
		const int p = o->pictures[k];

		job->sealed = high[p];
		if (!there[p]) {
			job_segment(job,
				    k < 2  ? JOB_INPUT
				    : last ? JOB_OUTPUT
					   : JOB_BETWEEN,
				    names[p], type, e->data[p]);
		}
		there[p] = true;
	}
	job_operation(job, o->id, "vector_add",
		      json_pack("{s:s, s:s, s:s}", "a", names[o->pictures[0]], "b",
				names[o->pictures[1]], "output", names[o->pictures[2]]),
		      NULL, NULL);
}

/* A batch of some of the operations, from the data to the result: prepared by the client, run, and
 * opened by it. */
static int take_operations(struct example *e, int first, int last, struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(e->bench);
	bool there[PICTURES] = { false };
	struct job *job = NULL;
	int rc = job_new(e->bench, true, &job, error);

	for (int i = first; rc == SGPU_OK && i <= last; i++) {
		add_operation(e, job, &operations[i], i == last, there);
	}
	rc = rc ? rc : job_finish(job, error);
	rc = rc ? rc : job_run(job, e->place, error);
	rc = rc ? rc : job_read(job, e->data[operations[last].pictures[2]], error);
	sgpu_bench_release(e->bench, mark);
	return rc;
}

static int by_hand(void *argument, struct sgpu_error *error)
{
	int rc = take_operations(argument, 0, 0, error);

	rc = rc ? rc : take_operations(argument, 1, 1, error);
	return rc ? rc : take_operations(argument, 2, 2, error);
}

static int derived(void *argument, struct sgpu_error *error)
{
	return take_operations(argument, 0, 2, error);
}

/* Spoils all sums. */
static int prepare(void *argument, struct sgpu_error *error)
{
	const struct example *e = argument;

	(void)error;
	memset(e->data[COMBINED], 0xff, (size_t)(PICTURES - COMBINED) * PICTURE_BYTES);
	return SGPU_OK;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct example *e = argument;

	return memcmp(e->data[RESULT], e->data[WANTED], PICTURE_BYTES) == 0
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS, "the picture is not what it should be");
}

static int measure_example(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct example e = { .bench = bench };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "by hand",
		  .prepare = prepare,
		  .work = by_hand,
		  .verify = verify,
		  .argument = &e },
		{ .name = "derived",
		  .prepare = prepare,
		  .work = derived,
		  .verify = verify,
		  .argument = &e },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "decomposition", 0 },
								{ "operations", NULL, 3 },
								{ "segment_bytes", NULL,
								  PICTURE_BYTES } } };
	struct job_place *place = NULL;
	void *data = NULL;
	int rc = job_new_place(bench, bench->device, true, &place, error);

	rc = rc ? rc : sgpu_bench_new(bench, (size_t)(PICTURES + 1) * PICTURE_BYTES, &data, error);
	e.place = place;
	e.data = data;
	for (int i = 0; rc == SGPU_OK && i < PIXELS; i++) { /* small integers: exact */
		e.data[IMAGE][i] = (float)(i % 1021);
		e.data[TABLE][i] = (float)(i % 31);
		e.data[OFFSET][i] = (float)(i % 7);
		e.data[WANTED][i] = (float)(i % 1021 + 2 * (i % 31 + i % 7));
	}
	return rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	int rc = measure_check(bench, error);

	return rc ? rc : measure_example(bench, error);
}

const struct sgpu_bench_case case_manifest = {
	.name = "manifest",
	.help = "a manifest with 10 000 segments checked; a job decomposed by hand, and by its "
		"manifest",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
