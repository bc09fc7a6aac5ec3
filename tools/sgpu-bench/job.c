/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs: their manifests, batches and responses, in memory files, and variants that run them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/seal.h>

#include "channel/channel.h"

#include "cli.h"
#include "job.h"

static void end_job(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct bench_job *job = (struct bench_job *)what;

	(void)bench, (void)size;
	close(job->batch_fd);
	close(job->response_fd);
	json_decref(job->segments);
	json_decref(job->operations);
	json_decref(job->inputs);
	job_free(&job->batch);
	sgpu_manifest_free(&job->manifest);
	sgpu_key_clear(&job->owner);
}

/* The job is kept. */
static int job_new(struct sgpu_bench *bench, const struct job_side *side, struct bench_job **job,
		   struct sgpu_error *error)
{
	struct bench_job *new = *job = sgpu_bench_new(bench, sizeof(*new), end_job, error);

	if (!new) {
		return SGPU_ENOMEM;
	}
	*new = (struct bench_job){ .sealed = side->sealed,
				   .batch_fd = -1,
				   .response_fd = -1,
				   .segments = json_array(),
				   .operations = json_array(),
				   .inputs = json_object() };
	if (side->owner) {
		new->owner = *side->owner;
	}
	return side->owner ? SGPU_OK : sgpu_key_generate(SGPU_KEY_OCT, &new->owner, error);
}

void job_data(struct bench_job *job, const char *id, const void *data)
{
	json_object_set_new(job->inputs, id, json_integer((json_int_t)(uintptr_t)data));
}

void job_segment(struct bench_job *job, enum job_kind kind, const char *id, struct job_type type,
		 const void *data)
{
	static const char *const directions[] = { "INPUT", "INTERMEDIATE", "OUTPUT" };
	json_t *segment = json_pack("{s:s, s:s, s:s}", "segment_id", id, "sensitivity_level",
				    job->sealed ? "HIGH" : "LOW", "direction", directions[kind]);

	if (kind != JOB_BETWEEN) {
		json_object_set_new(segment, "data_location_client", json_string(id));
		json_object_set_new(segment, "data_type_info",
				    json_pack(type.shape[1] ? "{s:s, s:[I, I]}" : "{s:s, s:[I]}",
					      "dtype", type.dtype, "shape",
					      (json_int_t)type.shape[0],
					      (json_int_t)type.shape[1]));
	}
	json_array_append_new(job->segments, segment);
	if (kind == JOB_INPUT) {
		job_data(job, id, data);
	}
}

void job_operation(struct bench_job *job, const char *id, const char *kernel, json_t *arguments,
		   json_t *params, const char *after)
{
	json_t *operation = json_pack("{s:s, s:s, s:o, s:o*}", "gpu_operation_id", id, "kernel",
				      kernel, "arguments", arguments, "params", params);

	if (after) {
		json_object_set_new(operation, "dependencies", json_pack("[s]", after));
	}
	json_array_append_new(job->operations, operation);
}

/* Copies the inputs, to be sealed, and adds up the outputs. */
static int take_data(struct bench_job *job, struct sgpu_error *error)
{
	for (int i = 0; i < job->manifest->segment_count; i++) {
		const struct sgpu_segment *s = &job->manifest->segments[i];
		const json_t *address = json_object_get(job->inputs, s->id);
		struct job_array *array = &job->batch.arrays[i];
		uint64_t size = 0;

		(void)sgpu_type_bytes(&s->type, &size);
		job->result_size += sgpu_segment_is_output(s) ? size : 0;
		if (address) {
			array->size = size;
			array->data = malloc(size + 1);
			if (!array->data) {
				return sgpu_fail_nomem(error);
			}
			memcpy(array->data, (const void *)(uintptr_t)json_integer_value(address),
			       size);
		}
	}
	return SGPU_OK;
}

int job_rewind(int fd, bool cuts, struct sgpu_error *error)
{
	return (cuts && ftruncate(fd, lseek(fd, 0, SEEK_CUR)) != 0) || lseek(fd, 0, SEEK_SET) != 0
		       ? sgpu_fail_errno(error, "cannot rewind a memory file")
		       : SGPU_OK;
}

static char *manifest_text(const struct bench_job *job)
{
	json_t *document = json_pack("{s:i, s:s, s:O, s:O}", "version", 1, "manifest_id", "bench",
				     "segments", job->segments, "operations", job->operations);
	char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;

	json_decref(document);
	return text;
}

int job_describe(struct sgpu_bench *bench, const struct job_side *side, char **text,
		 struct sgpu_error *error)
{
	struct bench_job *job;
	const int rc = job_new(bench, side, &job, error);

	*text = NULL;
	if (rc == SGPU_OK) {
		side->add(job, side);
		*text = manifest_text(job);
	}
	return rc || *text ? rc : sgpu_fail_nomem(error);
}

/* Makes the batch: sealed or with digests, signed. */
static int job_finish(struct bench_job *job, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	char *text = manifest_text(job);
	int rc = text ? sgpu_ops_load_manifest(text, strlen(text), "bench", 0, &job->manifest,
					       &diagnostics, error)
		      : sgpu_fail_nomem(error);

	sgpu_diagnostics_clear(&diagnostics);
	free(text);
	rc = rc ? rc : job_create(job->manifest, &job->batch, error);
	rc = rc ? rc : take_data(job, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	job->batch_fd = memfd_create("batch", MFD_CLOEXEC);
	job->response_fd = memfd_create("response", MFD_CLOEXEC);
	if (job->batch_fd < 0 || job->response_fd < 0) {
		return sgpu_fail_errno(error, "cannot make a memory file");
	}
	rc = job_seal(&job->batch, &job->owner, NULL, job->batch_fd, error);
	return rc ? rc : job_rewind(job->batch_fd, true, error);
}

/* Reads a response, once after each run. results: the authentic plaintext of all outputs, in the
 * manifest's order, result_size bytes. The end of a longer response may follow in the file. */
static int job_read(struct bench_job *job, void *results, struct sgpu_error *error)
{
	uint8_t *to = results;
	int rc = job_rewind(job->response_fd, true, error);

	sgpu_batch_free(&job->batch.response);
	rc = rc ? rc : job_open(&job->batch, job->response_fd, error);
	for (int i = 0; rc == SGPU_OK && i < job->manifest->segment_count; i++) {
		const struct job_array *array = &job->batch.arrays[i];

		if (sgpu_segment_is_output(&job->manifest->segments[i])) {
			memcpy(to, array->data, array->size);
			to += array->size;
		}
	}
	return rc;
}

/* ---- runners ---- */
/* A device's runners. As in sgpu-run, sealed jobs run in a secure context over it. */
struct place {
	struct sgpu_secure *context; /* NULL if the device maps no pages: all run in `plain` */
	struct sgpu_runner *plain, *sealed;
};

/* For the case's jobs, on bench->device, which stays open. */
static struct place *standing;

static void end_place(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct place *place = (struct place *)what;

	standing = place == standing ? NULL : standing;
	(void)bench, (void)size;
	sgpu_runner_free(&place->sealed);
	sgpu_secure_destroy(&place->context);
	sgpu_runner_free(&place->plain);
}

static int new_place(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct sgpu_runner_config config = { .device = bench->device };
	struct place *new = standing = sgpu_bench_new(bench, sizeof(*new), end_place, error);
	int rc = new ? sgpu_runner_create(&config, &new->plain, error) : SGPU_ENOMEM;

	rc = rc ? rc : sgpu_secure_create(bench->device, NULL, &new->context, error);
	if (rc != SGPU_OK) {
		return new &&rc == SGPU_EUNAVAILABLE &&new->plain ? SGPU_OK : rc;
	}
	config.device = sgpu_secure_device(new->context);
	return sgpu_runner_create(&config, &new->sealed, error);
}

/* ---- variants ---- */
/* The response's file keeps its size: new pages would cost more than some jobs. */
static int run_here(void *argument, struct sgpu_error *error)
{
	struct bench_job *job = ((const struct job_side *)argument)->job;
	const struct sgpu_submission submission = {
		.in_fd = job->batch_fd,
		.in_name = "batch",
		.out_fd = job->response_fd,
		.out_name = "response",
		.options = { .keys = &job->owner, .key_count = 1 },
	};
	struct sgpu_runner *runner =
		job->sealed && standing->sealed ? standing->sealed : standing->plain;
	struct sgpu_run *run = NULL;
	int rc = job_rewind(job->batch_fd, false, error);

	rc = rc ? rc : job_rewind(job->response_fd, false, error);
	rc = rc ? rc : sgpu_run_create(runner, &submission, &run, error);
	rc = rc ? rc : sgpu_run_batch(run, error);
	sgpu_run_free(&run);
	return rc;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct job_side *side = argument;
	const uint64_t size = side->job->result_size;
	void *results = malloc(size);
	int rc = results ? job_read(side->job, results, error) : sgpu_fail_nomem(error);

	rc = rc ? rc : side->check(side, results, size, error);
	free(results);
	return rc;
}

int job_measure(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		struct job_side sides[JOB_SIDES], int (*work)(void *side, struct sgpu_error *error),
		struct sgpu_error *error)
{
	const void *const mark = bench->kept;
	struct sgpu_bench_variant variants[JOB_SIDES];
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < JOB_SIDES; i++) {
		struct job_side *side = &sides[i];

		side->bench = bench;
		rc = job_new(bench, side, &side->job, error);
		if (rc == SGPU_OK) {
			side->add(side->job, side);
			rc = job_finish(side->job, error);
		}
		variants[i] = (struct sgpu_bench_variant){ side->name, NULL, work, verify, side };
	}
	rc = rc ? rc : sgpu_bench_measure(bench, point, variants, JOB_SIDES, error);
	sgpu_bench_release(bench, mark);
	return rc;
}

int job_measure_here(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		     const struct job_side *side, struct sgpu_error *error)
{
	struct job_side sides[JOB_SIDES] = { *side, *side };
	const int rc = standing ? SGPU_OK : new_place(bench, error);

	sides[0].name = "unsealed";
	sides[1].name = "sealed";
	sides[1].sealed = true;
	return rc ? rc : job_measure(bench, point, sides, run_here, error);
}
