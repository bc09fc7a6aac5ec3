/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs in memory files: what sgpu-manifest, sgpu-seal and sgpu-run do, without the processes between.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/run.h>
#include <sgpu/io.h>
#include <sgpu/seal.h>
#include <sgpu/stage.h>

#include "job.h"

int job_begin(struct job *job, bool sealed, struct sgpu_error *error)
{
	int rc;

	memset(job, 0, sizeof(*job));
	job->sealed = sealed;
	job->batch_fd = job->response_fd = -1;
	job->segments = json_array();
	job->operations = json_array();
	rc = sgpu_key_generate(SGPU_KEY_OCT, &job->owner, error);
	return rc == SGPU_OK ? sgpu_random(job->key, sizeof(job->key), error) : rc;
}

static void add_segment(struct job *job, const char *id, const char *direction, const struct job_type *type)
{
	json_t *segment = json_pack("{s:s, s:s, s:s}", "segment_id", id, "sensitivity_level",
				    job->sealed ? "HIGH" : "LOW", "direction", direction);

	if (type) {
		json_t *shape = json_array();

		for (int i = 0; i < 2 && type->shape[i]; i++) {
			json_array_append_new(shape, json_integer((json_int_t)type->shape[i]));
		}
		json_object_set_new(segment, "data_location_client", json_string(id));
		json_object_set_new(segment, "data_type_info",
				    json_pack("{s:s, s:o}", "dtype", type->dtype, "shape", shape));
	}
	json_array_append_new(job->segments, segment);
}

void job_data(struct job *job, const char *id, const void *data, uint64_t size)
{
	if (job->input_count < JOB_INPUTS_MAX) {
		job->inputs[job->input_count] = (struct job_input){ id, data, size };
	}
	job->input_count++;
}

void job_input(struct job *job, const char *id, struct job_type type, const void *data, uint64_t size)
{
	job_data(job, id, data, size);
	add_segment(job, id, "INPUT", &type);
}

void job_between(struct job *job, const char *id)
{
	add_segment(job, id, "INTERMEDIATE", NULL);
}

void job_output(struct job *job, const char *id, struct job_type type)
{
	add_segment(job, id, "OUTPUT", &type);
}

void job_operation(struct job *job, const char *id, const char *kernel, json_t *arguments, json_t *params,
		   const char *after)
{
	json_t *operation = json_pack("{s:s, s:s, s:o}", "gpu_operation_id", id, "kernel", kernel, "arguments",
				      arguments);

	if (params) {
		json_object_set_new(operation, "params", params);
	}
	if (after) {
		json_object_set_new(operation, "dependencies", json_pack("[s]", after));
	}
	json_array_append_new(job->operations, operation);
}

/* ---- the batch ---- */
static const struct job_input *find_input(const struct job *job, const char *id)
{
	for (int i = 0; i < job->input_count; i++) {
		if (strcmp(job->inputs[i].id, id) == 0) {
			return &job->inputs[i];
		}
	}
	return NULL;
}

int job_payload(const struct job *job, int segment, uint8_t *payload, struct sgpu_error *error)
{
	return sgpu_batch_seal_payload(job->batch, job->key, segment, find_input(job, job->batch->segments[segment].id)->data,
				       payload, error);
}

static int write_payload(int fd, const char *name, const struct sgpu_batch *batch, int segment, void *job,
			 struct sgpu_error *error)
{
	const uint64_t size = sgpu_batch_payload_size(batch, segment);
	uint8_t *payload = malloc(size + 1);
	int rc = payload ? job_payload(job, segment, payload, error) : sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		rc = sgpu_write(fd, name, payload, size, error);
	}
	free(payload);
	return rc;
}

char *job_manifest(const struct job *job)
{
	json_t *document = json_pack("{s:i, s:s, s:O, s:O}", "version", 1, "manifest_id", "bench", "segments",
				     job->segments, "operations", job->operations);
	char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;

	json_decref(document);
	return text;
}

static int load_manifest(struct job *job, struct sgpu_manifest **manifest, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	char *text = job_manifest(job);
	int rc = text ? sgpu_ops_load_manifest(text, strlen(text), "bench", manifest, &diagnostics, error) :
		 sgpu_fail_nomem(error);

	sgpu_diagnostics_clear(&diagnostics);
	free(text);
	return rc;
}

int job_finish(struct job *job, struct sgpu_error *error)
{
	struct sgpu_manifest *manifest = NULL;
	int rc;

	if (job->input_count > JOB_INPUTS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a job with more than %d inputs", JOB_INPUTS_MAX);
	}
	rc = load_manifest(job, &manifest, error);
	if (rc == SGPU_OK) {
		rc = sgpu_batch_create(manifest, &job->batch, error);
	}
	sgpu_manifest_free(&manifest);
	for (int i = 0; rc == SGPU_OK && i < job->input_count; i++) {
		rc = sgpu_batch_set_payload(job->batch, sgpu_batch_segment(job->batch, job->inputs[i].id),
					    job->inputs[i].data, job->inputs[i].size, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_batch_wrap(job->batch, &job->owner, job->key, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_batch_sign(job->batch, job->key, error);
	}
	if (rc == SGPU_OK && job->staged) {
		rc = job_stage(job, error);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	job->batch_fd = memfd_create("batch", MFD_CLOEXEC);
	job->response_fd = memfd_create("response", MFD_CLOEXEC);
	if (job->batch_fd < 0 || job->response_fd < 0) {
		return sgpu_fail_errno(error, "cannot make a memory file");
	}
	return sgpu_batch_write(job->batch_fd, "batch", job->batch, write_payload, job, error);
}

/* ---- a run ---- */
/* The response's file keeps its memory from run to run: to get fresh pages would cost more than some jobs. What an
 * earlier, longer response left behind is cut off. */
static int rewind_files(const struct job *job, struct sgpu_error *error)
{
	if (lseek(job->batch_fd, 0, SEEK_SET) < 0 || lseek(job->response_fd, 0, SEEK_SET) < 0) {
		return sgpu_fail_errno(error, "cannot rewind a memory file");
	}
	return SGPU_OK;
}

static int cut_response(const struct job *job, struct sgpu_error *error)
{
	off_t end = lseek(job->response_fd, 0, SEEK_CUR);

	return end >= 0 && ftruncate(job->response_fd, end) == 0 ? SGPU_OK :
	       sgpu_fail_errno(error, "cannot cut the response off");
}

int job_submit(struct job *job, const struct job_place *place, struct sgpu_run **run, struct sgpu_error *error)
{
	const struct sgpu_submission submission = {
		.in_fd = job->batch_fd, .in_name = "batch", .out_fd = job->response_fd, .out_name = "response",
		.options = { .keys = &job->owner, .key_count = 1 },
	};
	struct sgpu_runner *runner = job->sealed && place->sealed ? place->sealed : place->plain;
	int rc = rewind_files(job, error);

	return rc ? rc : sgpu_runner_submit(runner, &submission, NULL, NULL, run, error);
}

int job_wait(struct job *job, struct sgpu_run **run, struct sgpu_error *error)
{
	int rc = *run ? sgpu_run_wait(*run, error) : SGPU_OK;

	if (*run && rc == SGPU_OK) {
		rc = cut_response(job, error);
	}
	sgpu_run_free(run);
	return rc;
}

int job_run(struct job *job, const struct job_place *place, uint64_t *ns, struct sgpu_error *error)
{
	struct sgpu_run *run = NULL;
	uint64_t begin = sgpu_now_ns();
	int rc = job_submit(job, place, &run, error);

	rc = rc ? rc : sgpu_run_wait(run, error);
	*ns = sgpu_now_ns() - begin;
	sgpu_run_free(&run);
	return rc ? rc : cut_response(job, error);
}

static int read_region(const struct sgpu_batch_segment *s, uint8_t *payload, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_source source;
	size_t got = 0;
	int rc = sgpu_source_open(&s->location, size, false, &source, error);

	if (rc == SGPU_OK) {
		rc = sgpu_pread(source.fd, source.name, payload, size, source.offset, &got, error);
		sgpu_source_close(&source);
	}
	return rc == SGPU_OK && got < size ? sgpu_fail(error, SGPU_EDIFFERS, "output '%s' is cut short", s->id) : rc;
}

static int read_payload(const struct job *job, struct sgpu_tar_reader *tar, const struct sgpu_batch *response,
			int index, void *data, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &response->segments[index];
	uint64_t payload_size = sgpu_batch_payload_size(response, index);
	uint8_t *payload = malloc(payload_size + 1);
	int rc = !payload ? sgpu_fail_nomem(error) : s->location.kind == SGPU_LOCATION_REGION ?
		 read_region(s, payload, payload_size, error) : sgpu_tar_read(tar, payload, payload_size, error);

	if (rc == SGPU_OK && s->actual_size != size) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "output '%s' has %llu bytes, not %llu", s->id,
			       (unsigned long long)s->actual_size, (unsigned long long)size);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_batch_open_payload(response, job->key, index, payload, data, error);
	}
	free(payload);
	return rc;
}

int job_read(struct job *job, const char *id, void *data, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_tar_reader *tar = NULL;
	struct sgpu_batch *response = NULL;
	int rc = rewind_files(job, error), index = 0;
	bool found = false;

	if (rc == SGPU_OK) {
		rc = sgpu_tar_open(job->response_fd, "response", &tar, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_batch_read_head(tar, true, &response, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_batch_verify(response, job->key, error);
	}
	for (int i = 0; rc == SGPU_OK && !found && i < response->segment_count; i++) {
		found = response->segments[i].location.kind == SGPU_LOCATION_REGION && !strcmp(response->segments[i].id, id);
		index = i;
	}
	while (rc == SGPU_OK && !found && index >= 0) {
		rc = sgpu_batch_next_payload(tar, response, &index, error);
		found = rc == SGPU_OK && index >= 0 && strcmp(response->segments[index].id, id) == 0;
	}
	if (rc == SGPU_OK && !found) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "the response has no output '%s'", id);
	}
	if (rc == SGPU_OK) {
		rc = read_payload(job, tar, response, index, data, size, error);
	}
	sgpu_tar_close(&tar);
	sgpu_batch_free(&response);
	return rc;
}

void job_clear(struct job *job)
{
	job_unstage(job);
	if (job->segments) {
		close(job->batch_fd);
		close(job->response_fd);
	}
	json_decref(job->segments);
	json_decref(job->operations);
	sgpu_batch_free(&job->batch);
	sgpu_key_clear(&job->owner);
	sgpu_wipe(job->key, sizeof(job->key));
	memset(job, 0, sizeof(*job));
}
