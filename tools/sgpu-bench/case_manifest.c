/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest: the check of a large manifest, against reading its JSON.
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

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	struct text t = { 0 };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "JSON read", .run = parse, .verify = verify, .argument = &t },
		{ .name = "manifest checked", .run = check, .verify = verify, .argument = &t },
	};
	struct sgpu_bench_point point = { .parameters = { { "segments", NULL, SEGMENTS } },
					  .bytes_formula = "the manifest's text" };
	int rc = make_text(&t, error);

	(void)state;
	point.bytes = t.size;
	rc = rc ? rc : sgpu_bench_measure(bench, &point, variants, 2, error);
	free(t.text);
	return rc;
}

const struct sgpu_bench_case case_manifest = {
	.name = "manifest",
	.help = "the check of a manifest with 10 000 segments, against reading its JSON",
	.unit = SGPU_BENCH_NS,
	.run = run,
};
