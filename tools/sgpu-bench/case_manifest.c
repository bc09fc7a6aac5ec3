/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest: the check of a large manifest, against reading its JSON; and a job of three operations on data of both
 * sensitivities, decomposed by its client or by its manifest.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/json.h>
#include <sgpu/ops.h>

#include "cases.h"
#include "job.h"

enum { OPERATIONS = 5000, SEGMENTS = 2 * OPERATIONS };

struct text {
	char *text;
	size_t size;
	bool good;
};

static int parse(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct text *t = argument;
	json_t *value = NULL;
	int rc = sgpu_json_parse_most(t->text, t->size, SIZE_MAX, &value, NULL, NULL, error);

	(void)ns;
	t->good = json_array_size(json_object_get(value, "segments")) == SEGMENTS;
	json_decref(value);
	return rc;
}

static int check(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct text *t = argument;
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };
	int rc = sgpu_ops_load_manifest(t->text, t->size, "bench", &manifest, &diagnostics, error);

	(void)ns;
	t->good = rc == SGPU_OK && manifest->segment_count == SEGMENTS;
	sgpu_manifest_free(&manifest);
	sgpu_diagnostics_clear(&diagnostics);
	return rc;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct text *t = argument;

	return t->good ? SGPU_OK : sgpu_fail(error, SGPU_EDIFFERS, "the manifest has not %d segments", SEGMENTS);
}

/* Independent copies of 1 KiB. */
static int make_text(struct text *t, struct sgpu_error *error)
{
	const struct job_type type = { "u8", { 1024 } };
	struct job *job = malloc(sizeof(*job));
	char in[16], out[16], operation[16];
	int rc = job ? job_begin(job, true, error) : sgpu_fail_nomem(error);

	for (int i = 0; rc == SGPU_OK && i < OPERATIONS; i++) {
		snprintf(in, sizeof(in), "in%d", i);
		snprintf(out, sizeof(out), "out%d", i);
		snprintf(operation, sizeof(operation), "OP%d", i);
		job_input(job, in, type, NULL, 1024);
		job_output(job, out, type);
		job_operation(job, operation, "copy", json_pack("{s:s, s:s}", "input", in, "output", out), NULL, NULL);
	}
	if (rc == SGPU_OK) {
		t->text = job_manifest(job);
		t->size = t->text ? strlen(t->text) : 0;
		rc = t->text ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (job) {
		job_clear(job);
	}
	free(job);
	return rc;
}

static int measure_check(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct text t = { 0 };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "JSON read", .run = parse, .verify = verify, .argument = &t },
		{ .name = "manifest checked", .run = check, .verify = verify, .argument = &t },
	};
	struct sgpu_bench_point point = { .parameters = { { "segments", NULL, SEGMENTS } },
					  .bytes_formula = "the manifest's text" };
	int rc = make_text(&t, error);

	point.bytes = t.size;
	rc = rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
	free(t.text);
	return rc;
}

/* ---- the proposal's example: a HIGH picture, and a LOW table and a LOW offset, which are combined first ---- */
enum { PIXELS = 1 << 18, PICTURE_BYTES = PIXELS * 4 };
static const struct job_type picture = { "f32", { PIXELS } };

struct example {
	struct job_place place;
	struct job job;
	float image[PIXELS], table[PIXELS], offset[PIXELS], combined[PIXELS], between[PIXELS], result[PIXELS];
};

static void put_input(struct job *job, const char *id, bool high, const float *data)
{
	job->sealed = high;
	job_input(job, id, picture, data, PICTURE_BYTES);
}

static void put_sum(struct job *job, const char *id, const char *a, const char *b, const char *output)
{
	job_operation(job, id, "vector_add", json_pack("{s:s, s:s, s:s}", "a", a, "b", b, "output", output), NULL, NULL);
}

/* From the data to the result: what the client prepares, the run, and what the client opens. */
static int finish_job(struct example *e, bool sealed, const char *output, float *data, struct sgpu_error *error)
{
	uint64_t ns;
	int rc;

	e->job.sealed = sealed;
	rc = job_finish(&e->job, error);
	rc = rc ? rc : job_run(&e->job, &e->place, &ns, error);
	rc = rc ? rc : job_read(&e->job, output, data, PICTURE_BYTES, error);
	job_clear(&e->job);
	return rc;
}

/* A request of one operation; b is LOW. */
static int request(struct example *e, bool sealed, const float *a, const float *b, float *sum,
		   struct sgpu_error *error)
{
	int rc = job_begin(&e->job, sealed, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	put_input(&e->job, "a", sealed, a);
	put_input(&e->job, "b", false, b);
	e->job.sealed = sealed;
	job_output(&e->job, "sum", picture);
	put_sum(&e->job, "ADD", "a", "b", "sum");
	return finish_job(e, sealed, "sum", sum, error);
}

static int run_by_hand(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct example *e = argument;
	int rc = request(e, false, e->table, e->offset, e->combined, error);

	(void)ns;
	rc = rc ? rc : request(e, true, e->image, e->combined, e->between, error);
	return rc ? rc : request(e, true, e->between, e->combined, e->result, error);
}

static int run_derived(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct example *e = argument;
	int rc = job_begin(&e->job, true, error);

	(void)ns;
	if (rc != SGPU_OK) {
		return rc;
	}
	put_input(&e->job, "image", true, e->image);
	put_input(&e->job, "table", false, e->table);
	put_input(&e->job, "offset", false, e->offset);
	job_between(&e->job, "combined");
	e->job.sealed = true;
	job_between(&e->job, "between");
	job_output(&e->job, "result", picture);
	put_sum(&e->job, "COMBINE", "table", "offset", "combined");
	put_sum(&e->job, "FIRST", "image", "combined", "between");
	put_sum(&e->job, "SECOND", "between", "combined", "result");
	return finish_job(e, true, "result", e->result, error);
}

static int verify_result(void *argument, struct sgpu_error *error)
{
	const struct example *e = argument;

	for (int i = 0; i < PIXELS; i++) {
		if (e->result[i] != e->image[i] + 2 * (e->table[i] + e->offset[i])) { /* small integers: exact */
			return sgpu_fail(error, SGPU_EDIFFERS, "pixel %d is %g", i, (double)e->result[i]);
		}
	}
	return SGPU_OK;
}

static int prepare(void *argument, struct sgpu_error *error)
{
	struct example *e = argument;

	(void)error;
	for (int i = 0; i < PIXELS; i++) {
		e->image[i] = (float)(i % 1021);
		e->table[i] = (float)(i % 31);
		e->offset[i] = (float)(i % 7);
		e->result[i] = -1;
	}
	return SGPU_OK;
}

static int measure_example(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct example *e = calloc(1, sizeof(*e));
	const struct sgpu_bench_variant variants[] = {
		{ .name = "by hand", .prepare = prepare, .run = run_by_hand, .verify = verify_result, .argument = e },
		{ .name = "derived", .prepare = prepare, .run = run_derived, .verify = verify_result, .argument = e },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "decomposition", 0 },
								{ "operations", NULL, 3 },
								{ "segment_bytes", NULL, PICTURE_BYTES } } };
	int rc = e ? job_place_open(&e->place, bench->device, true, error) : sgpu_fail_nomem(error);

	rc = rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
	if (e) {
		job_clear(&e->job); /* of a request that failed */
		job_place_close(&e->place);
	}
	free(e);
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	int rc = measure_check(bench, error);

	(void)state;
	return rc ? rc : measure_example(bench, error);
}

const struct sgpu_bench_case case_manifest = {
	.name = "manifest",
	.help = "a manifest with 10 000 segments checked; a job decomposed by hand, and by its manifest",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
