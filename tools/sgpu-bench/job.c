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
	sgpu_region_close(&job->region);
	(void)!sgpu_region_release(job->region.id, NULL);
	close(job->batch_fd);
	close(job->response_fd);
	json_decref(job->segments);
	json_decref(job->operations);
	json_decref(job->inputs);
	job_free(&job->batch);
	sgpu_manifest_free(&job->manifest);
	sgpu_key_clear(&job->owner);
}

int job_new(struct sgpu_bench *bench, bool sealed, struct bench_job **job, struct sgpu_error *error)
{
	struct bench_job *new = *job = sgpu_bench_new(bench, sizeof(*new), end_job, error);

	if (!new) {
		return SGPU_ENOMEM;
	}
	*new = (struct bench_job){ .sealed = sealed,
				   .batch_fd = -1,
				   .response_fd = -1,
				   .region = { .fd = -1 },
				   .segments = json_array(),
				   .operations = json_array(),
				   .inputs = json_object() };
	return sgpu_key_generate(SGPU_KEY_OCT, &new->owner, error);
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

void job_chains(struct bench_job *job, int chains, int length, struct job_type type, const float *a,
		const float *b, bool in_a_row)
{
	char from[32], to[32], id[32] = "", before[32];

	job_segment(job, JOB_INPUT, "a", type, a);
	job_segment(job, JOB_INPUT, "b", type, b);
	for (int c = 0; c < chains; c++) {
		snprintf(from, sizeof(from), "a");
		for (int i = 0; i < length; i++) {
			memcpy(before, id, sizeof(before));
			snprintf(to, sizeof(to), "x%d_%d", c, i);
			snprintf(id, sizeof(id), "ADD%d_%d", c, i);
			job_segment(job, i < length - 1 ? JOB_BETWEEN : JOB_OUTPUT, to, type, NULL);
			job_operation(
				job, id, "vector_add",
				json_pack("{s:s, s:s, s:s}", "a", from, "b", "b", "output", to),
				NULL, in_a_row && c > 0 && i == 0 ? before : NULL);
			memcpy(from, to, sizeof(from));
		}
	}
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

/* A sealed payload starts at 8 modulo 16, so that its chunks are aligned, as in sgpu-stage. */
enum { PAGE = 4096, SEALED_SHIFT = 8 };

/* Returns where the next payload or result goes in a region, of which `total` bytes are used. */
static uint64_t place(const struct bench_job *job, uint64_t size, uint64_t *total)
{
	const uint64_t at = *total + (job->sealed ? SEALED_SHIFT : 0);

	if (job->sealed) {
		(void)sgpu_sealed_size(size, &size);
	}
	*total = (at + size + PAGE - 1) / PAGE * PAGE;
	return at;
}

/* Moves the payloads into a region, and says where results go, as sgpu-stage load --keep does. */
static int stage(struct bench_job *job, struct sgpu_tar_reader *tar, struct sgpu_batch *batch,
		 struct sgpu_error *error)
{
	const struct sgpu_region_options options = {
		.use = SGPU_REGION_INPUTS | SGPU_REGION_RESULTS, .numa_node = -1, .keep = true
	};
	uint64_t total = 0;
	int rc, next;

	for (int i = 0; i < batch->segment_count; i++) {
		(void)place(job, batch->segments[i].size, &total);
	}
	rc = sgpu_region_create(total, &options, &job->region, error);
	rc = rc ? rc : sgpu_region_back(&job->region, 0, total, error);
	total = 0;
	for (int i = 0; rc == SGPU_OK && i < batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];
		struct sgpu_location at = { .kind = SGPU_LOCATION_REGION,
					    .offset = place(job, s->size, &total) };

		memcpy(at.region, job->region.id, sizeof(at.region));
		if (!s->input) {
			rc = sgpu_segment_place(s, &at, error);
			continue;
		}
		rc = sgpu_batch_next_payload(tar, batch, &next, error);
		rc = rc ? rc
			: sgpu_tar_read(tar, job->region.data + at.offset,
					sgpu_batch_payload_size(batch, i), error);
		s->location = at;
	}
	return rc ? rc : sgpu_region_publish(&job->region, error);
}

static int write_result(int fd, const char *name, const struct sgpu_batch *response, int segment,
			void *argument, struct sgpu_error *error)
{
	const struct bench_job *job = argument;
	const uint64_t at = SGPU_REGION_HEADER + response->segments[segment].location.offset;

	return lseek(job->region.fd, (off_t)at, SEEK_SET) < 0
		       ? sgpu_fail_errno(error, "cannot seek in a region")
		       : cli_copy(job->region.fd, job->region.id,
				  sgpu_batch_payload_size(response, segment), fd, name, NULL,
				  error);
}

int job_rewind(int fd, bool cuts, struct sgpu_error *error)
{
	return (cuts && ftruncate(fd, lseek(fd, 0, SEEK_CUR)) != 0) || lseek(fd, 0, SEEK_SET) != 0
		       ? sgpu_fail_errno(error, "cannot rewind a memory file")
		       : SGPU_OK;
}

/* With `staged`, writes the batch anew after its payloads have moved into the region, or the
 * response with its payloads inline. */
static int move_payloads(struct bench_job *job, int fd, unsigned what, struct sgpu_error *error)
{
	struct sgpu_tar_reader *tar = NULL;
	struct sgpu_batch *batch = NULL;
	int rc = job_rewind(fd, true, error);

	if (rc != SGPU_OK || !job->staged) {
		return rc;
	}
	rc = sgpu_tar_open(fd, "a memory file", &tar, error);
	rc = rc ? rc : sgpu_batch_read(tar, what, &batch, error);
	if (rc == SGPU_OK && what == SGPU_READ_BATCH) {
		rc = stage(job, tar, batch, error);
	}
	for (int i = 0; rc == SGPU_OK && i < batch->segment_count; i++) {
		if (batch->response) {
			batch->segments[i].location.kind = SGPU_LOCATION_INLINE;
		}
	}
	rc = rc ? rc : job_rewind(fd, false, error);
	rc = rc ? rc : sgpu_batch_write(fd, "a memory file", batch, write_result, job, error);
	rc = rc ? rc : job_rewind(fd, true, error);
	sgpu_tar_close(&tar);
	sgpu_batch_free(&batch);
	return rc;
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
	const int rc = job_new(bench, true, &job, error);

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
	return rc ? rc : move_payloads(job, job->batch_fd, SGPU_READ_BATCH, error);
}

/* After the response, the file may still have the end of a longer one. */
int job_read(struct bench_job *job, void *results, struct sgpu_error *error)
{
	uint8_t *to = results;
	int rc = move_payloads(job, job->response_fd, SGPU_READ_RESPONSE, error);

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
