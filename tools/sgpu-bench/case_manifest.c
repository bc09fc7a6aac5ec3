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
static int make_text(struct sgpu_bench *bench, struct text *t, struct sgpu_error *error)
{
	const struct job_type type = { "u8", { 1024 } };
	struct job *job = NULL;
	char in[16], out[16], operation[16];
	int rc = job_new(bench, true, &job, error);

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
	int rc = make_text(bench, &t, error);

	point.bytes = t.size;
	rc = rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
	free(t.text);
	return rc;
}

/* ---- the proposal's example: a HIGH picture, and a LOW table and a LOW offset, which are combined first ---- */
enum { PIXELS = 1 << 18, PICTURE_BYTES = PIXELS * 4 };
enum { IMAGE, TABLE, OFFSET, COMBINED, BETWEEN, RESULT, PICTURES };
static const char *const names[PICTURES] = { "image", "table", "offset", "combined", "between", "result" };
static const bool high[PICTURES] = { [IMAGE] = true, [BETWEEN] = true, [RESULT] = true };
static const struct job_type picture = { "f32", { PIXELS } };

static const struct {
	const char *name;
	int a, b, sum;
} operations[] = { { "FIRST", TABLE, OFFSET, COMBINED }, { "SECOND", IMAGE, COMBINED, BETWEEN },
		   { "THIRD", BETWEEN, COMBINED, RESULT } };

struct example {
	const struct job_place *place;
	struct job job;
	float data[PICTURES][PIXELS];
};

/* Each segment is HIGH or LOW as the job is when it is added. */
static void put_input(struct example *e, int i, bool put[PICTURES])
{
	e->job.sealed = high[i];
	if (!put[i]) {
		job_input(&e->job, names[i], picture, e->data[i], PICTURE_BYTES);
	}
	put[i] = true;
}

/* A batch of some of the operations, from the data to the result: prepared by the client, run, and opened by it. */
static int take_operations(struct example *e, int first, int last, struct sgpu_error *error)
{
	bool put[PICTURES] = { false };
	uint64_t ns;
	int rc = job_begin(&e->job, true, error), sum = operations[last].sum;

	for (int i = first; rc == SGPU_OK && i <= last; i++) {
		put_input(e, operations[i].a, put);
		put_input(e, operations[i].b, put);
		put[operations[i].sum] = true;
		e->job.sealed = high[operations[i].sum];
		if (i < last) {
			job_between(&e->job, names[operations[i].sum]);
		} else {
			job_output(&e->job, names[sum], picture);
		}
		job_operation(&e->job, operations[i].name, "vector_add",
			      json_pack("{s:s, s:s, s:s}", "a", names[operations[i].a], "b", names[operations[i].b],
					"output", names[operations[i].sum]), NULL, NULL);
	}
	rc = rc ? rc : job_finish(&e->job, error);
	rc = rc ? rc : job_run(&e->job, e->place, &ns, error);
	rc = rc ? rc : job_read(&e->job, names[sum], e->data[sum], PICTURE_BYTES, error);
	job_clear(&e->job);
	return rc;
}

static int run_by_hand(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	int rc = take_operations(argument, 0, 0, error);

	(void)ns;
	rc = rc ? rc : take_operations(argument, 1, 1, error);
	return rc ? rc : take_operations(argument, 2, 2, error);
}

static int run_derived(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	(void)ns;
	return take_operations(argument, 0, 2, error);
}

static int prepare(void *argument, struct sgpu_error *error)
{
	struct example *e = argument;

	(void)error;
	for (int i = 0; i < PIXELS; i++) {
		e->data[IMAGE][i] = (float)(i % 1021);
		e->data[TABLE][i] = (float)(i % 31);
		e->data[OFFSET][i] = (float)(i % 7);
		e->data[RESULT][i] = -1;
	}
	return SGPU_OK;
}

static int verify_result(void *argument, struct sgpu_error *error)
{
	const struct example *e = argument;

	for (int i = 0; i < PIXELS; i++) {
		if (e->data[RESULT][i] != (float)(i % 1021 + 2 * (i % 31 + i % 7))) { /* small integers: exact */
			return sgpu_fail(error, SGPU_EDIFFERS, "pixel %d is %g", i, (double)e->data[RESULT][i]);
		}
	}
	return SGPU_OK;
}

static int measure_example(struct sgpu_bench *bench, struct example *e, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "by hand", .prepare = prepare, .run = run_by_hand, .verify = verify_result, .argument = e },
		{ .name = "derived", .prepare = prepare, .run = run_derived, .verify = verify_result, .argument = e },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "decomposition", 0 },
								{ "operations", NULL, 3 },
								{ "segment_bytes", NULL, PICTURE_BYTES } } };

	return sgpu_bench_measure(bench, &point, variants, 2, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct job_place *place = NULL;
	void *state = NULL;
	int rc = measure_check(bench, error);

	rc = rc ? rc : job_new_place(bench, &place, error);
	rc = rc ? rc : sgpu_bench_new(bench, sizeof(struct example), &state, error);
	if (rc == SGPU_OK) {
		((struct example *)state)->place = place;
		rc = measure_example(bench, state, error);
	}
	return rc;
}

const struct sgpu_bench_case case_manifest = {
	.name = "manifest",
	.help = "a manifest with 10 000 segments checked; a job decomposed by hand, and by its manifest",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
