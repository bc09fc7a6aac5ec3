/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes jobs from manifests, and their batches and responses in memory files: what sgpu-seal and
 * sgpu-stage do, in one process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/seal.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "job.h"

static void end_job(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct job *job = (struct job *)what;

	(void)bench, (void)size;
	sgpu_region_close(&job->region);
	(void)!sgpu_region_release(job->region.id, NULL);
	close(job->batch_fd);
	close(job->response_fd);
	json_decref(job->segments);
	json_decref(job->operations);
	json_decref(job->inputs);
	sgpu_batch_free(&job->batch);
	sgpu_key_clear(&job->owner);
	sgpu_wipe(job->key, sizeof(job->key));
}

int job_new(struct sgpu_bench *bench, bool sealed, struct job **job, struct sgpu_error *error)
{
	struct job *new = *job = sgpu_bench_new(bench, sizeof(*new), end_job, error);
	int rc;

	if (!new) {
		return SGPU_ENOMEM;
	}
	*new = (struct job){ .sealed = sealed,
			     .batch_fd = -1,
			     .response_fd = -1,
			     .region = { .fd = -1 },
			     .segments = json_array(),
			     .operations = json_array(),
			     .inputs = json_object() };
	rc = sgpu_key_generate(SGPU_KEY_OCT, &new->owner, error);
	return rc ? rc : sgpu_random(new->key, sizeof(new->key), error);
}

/* ---- the manifest ---- */
void job_data(struct job *job, const char *id, const void *data)
{
	json_object_set_new(job->inputs, id, json_integer((json_int_t)(uintptr_t)data));
}

void job_segment(struct job *job, enum job_kind kind, const char *id, struct job_type type,
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

void job_operation(struct job *job, const char *id, const char *kernel, json_t *arguments,
		   json_t *params, const char *after)
{
	json_t *operation = json_pack("{s:s, s:s, s:o, s:o*}", "gpu_operation_id", id, "kernel",
				      kernel, "arguments", arguments, "params", params);

	if (after) {
		json_object_set_new(operation, "dependencies", json_pack("[s]", after));
	}
	json_array_append_new(job->operations, operation);
}

void job_chains(struct job *job, int chains, int length, struct job_type type, const float *a,
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
static void *data_of(const struct job *job, int segment)
{
	const json_t *address = json_object_get(job->inputs, job->batch->segments[segment].id);

	return (void *)(uintptr_t)json_integer_value(address);
}

/* Makes the payload of a batch from the data, or the data from the payload of a response. */
static int convert(const struct job *job, const struct sgpu_batch *batch, int segment,
		   uint8_t *payload, void *data, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &batch->segments[segment];
	const bool opens = batch->response;
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t size = 0;
	int rc;

	if (!s->sealed) {
		memcpy(opens ? data : payload, opens ? payload : data,
		       sgpu_batch_payload_size(batch, segment));
		return SGPU_OK;
	}
	rc = sgpu_batch_segment_key(batch, job->key, s->id, opens ? batch->response_id : NULL, key,
				    context, &size, error);
	if (rc == SGPU_OK) {
		rc = opens ? sgpu_open_memory(key, context, size, payload, s->sealed_size, data,
					      error)
			   : sgpu_seal_memory(key, context, size, s->header, data, s->size, payload,
					      error);
	}
	return rc;
}

static int write_payload(int fd, const char *name, const struct sgpu_batch *batch, int segment,
			 void *job, struct sgpu_error *error)
{
	const uint64_t size = sgpu_batch_payload_size(batch, segment);
	uint8_t *payload = malloc(size + 1);
	int rc = payload ? convert(job, batch, segment, payload, data_of(job, segment), error)
			 : sgpu_fail_nomem(error);

	rc = rc ? rc : sgpu_write(fd, name, payload, size, error);
	free(payload);
	return rc;
}

/* A sealed payload starts at 8 modulo 16, so that its chunks are aligned, as in sgpu-stage. */
enum { PAGE = 4096, SEALED_SHIFT = 8 };

/* total: size of a region for all payloads and the largest results. A segment without data is an
 * output. */
static int set_payloads(struct job *job, uint64_t *total, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	*total = 0;
	job->batch->packed = false;
	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &job->batch->segments[i];
		const void *data = data_of(job, i);
		uint64_t room = s->size;

		if (job->sealed && !sgpu_sealed_size(s->size, &room)) {
			return sgpu_fail(error, SGPU_EUSAGE, "the data are too large");
		}
		if (job->staged) {
			s->location.offset = *total + (job->sealed ? SEALED_SHIFT : 0);
			*total = (s->location.offset + room + PAGE - 1) / PAGE * PAGE;
		}
		if (!data) {
			job->result_size += s->size;
			continue;
		}
		s->location.kind = SGPU_LOCATION_INLINE;
		s->sealed = job->sealed;
		s->has_kt128 = !job->sealed;
		if (job->sealed) {
			s->sealed_size = room;
			rc = sgpu_batch_draw_header(job->batch, job->key, i, error);
		} else {
			sgpu_kt128(data, s->size, NULL, 0, s->kt128, sizeof(s->kt128));
		}
	}
	return rc;
}

/* Copies the payloads into a region, as sgpu-stage load --keep does. */
static int stage(struct job *job, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_region_options options = {
		.use = SGPU_REGION_INPUTS | SGPU_REGION_RESULTS, .numa_node = -1, .keep = true
	};
	struct sgpu_region *region = &job->region;
	int rc = sgpu_region_create(size, &options, region, error);

	rc = rc ? rc : sgpu_region_back(region, 0, size, error);
	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &job->batch->segments[i];
		void *data = data_of(job, i);
		struct sgpu_location at = { .kind = SGPU_LOCATION_REGION,
					    .offset = s->location.offset };

		memcpy(at.region, region->id, sizeof(at.region));
		if (data) {
			rc = convert(job, job->batch, i, region->data + at.offset, data, error);
			s->location = at;
		} else {
			rc = sgpu_segment_place(s, &at, error);
		}
	}
	return rc ? rc : sgpu_region_publish(region, error);
}

int job_finish(struct job *job, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_manifest *manifest = NULL;
	json_t *document = json_pack("{s:i, s:s, s:O, s:O}", "version", 1, "manifest_id", "bench",
				     "segments", job->segments, "operations", job->operations);
	char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;
	uint64_t size = 0;
	int rc = text ? sgpu_ops_load_manifest(text, strlen(text), "bench", &manifest, &diagnostics,
					       error)
		      : sgpu_fail_nomem(error);

	json_decref(document);
	sgpu_diagnostics_clear(&diagnostics);
	free(text);
	rc = rc ? rc : sgpu_batch_create(manifest, &job->batch, error);
	sgpu_manifest_free(&manifest);
	rc = rc ? rc : set_payloads(job, &size, error);
	rc = rc ? rc : sgpu_batch_wrap(job->batch, &job->owner, job->key, error);
	rc = rc ? rc : sgpu_batch_sign(job->batch, job->key, error);
	if (rc == SGPU_OK && job->staged) {
		rc = stage(job, size, error);
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

/* ---- the response ---- */
/* Inline payloads are in the archive in the order of the index, so the next one is the one
 * wanted. */
static int read_payload(const struct job *job, struct sgpu_tar_reader *tar,
			const struct sgpu_batch *response, int index, uint8_t *payload,
			uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &response->segments[index];
	size_t got = 0;
	int next, rc;

	if (s->location.kind != SGPU_LOCATION_REGION) {
		rc = sgpu_batch_next_payload(tar, response, &next, error);
		return rc ? rc : sgpu_tar_read(tar, payload, size, error);
	}
	rc = sgpu_pread(job->region.fd, job->region.id, payload, size,
			SGPU_REGION_HEADER + s->location.offset, &got, error);
	return rc || got == size
		       ? rc
		       : sgpu_fail(error, SGPU_EDIFFERS, "output '%s' is cut short", s->id);
}

static int read_outputs(const struct job *job, struct sgpu_tar_reader *tar,
			const struct sgpu_batch *response, uint8_t *results,
			struct sgpu_error *error)
{
	uint64_t left = job->result_size;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < response->segment_count; i++) {
		const struct sgpu_batch_segment *s = &response->segments[i];
		const uint64_t size = sgpu_batch_payload_size(response, i);
		uint8_t *payload;

		if (s->actual_size > left) {
			return sgpu_fail(error, SGPU_EDIFFERS, "output '%s' is too long", s->id);
		}
		payload = malloc(size + 1);
		rc = payload ? read_payload(job, tar, response, i, payload, size, error)
			     : sgpu_fail_nomem(error);
		rc = rc ? rc : convert(job, response, i, payload, results, error);
		free(payload);
		results += s->actual_size;
		left -= s->actual_size;
	}
	return rc || left == 0 ? rc : sgpu_fail(error, SGPU_EDIFFERS, "the outputs are too short");
}

/* After the response, the file may still have the end of a longer one. */
int job_read(struct job *job, void *results, struct sgpu_error *error)
{
	struct sgpu_tar_reader *tar = NULL;
	struct sgpu_batch *response = NULL;
	int rc;

	if (lseek(job->response_fd, 0, SEEK_SET) != 0) {
		return sgpu_fail_errno(error, "cannot rewind a memory file");
	}
	rc = sgpu_tar_open(job->response_fd, "response", &tar, error);
	rc = rc ? rc : sgpu_batch_read(tar, SGPU_READ_RESPONSE, &response, error);
	rc = rc ? rc : sgpu_batch_verify(response, job->key, error);
	rc = rc ? rc : read_outputs(job, tar, response, results, error);
	sgpu_tar_close(&tar);
	sgpu_batch_free(&response);
	return rc;
}
