/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes jobs from manifests, and their batches and responses in memory files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/seal.h>

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

int job_new(struct sgpu_bench *bench, const struct job_side *side, struct bench_job **job,
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

/* ---- the manifest ---- */
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

/* ---- the batch ---- */
/* Copies the inputs, which are sealed from there, and adds up the outputs. */
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

int job_finish(struct bench_job *job, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	char *text = manifest_text(job);
	int rc = text ? sgpu_ops_load_manifest(text, strlen(text), "bench", &job->manifest,
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

/* After the response, the file may still have the end of a longer one. */
int job_read(struct bench_job *job, void *results, struct sgpu_error *error)
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
