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

void job_input(struct job *job, const char *id, struct job_type type, const void *data, uint64_t size)
{
	if (job->input_count < JOB_INPUTS_MAX) {
		job->inputs[job->input_count] = (struct job_input){ id, data, size };
	}
	job->input_count++;
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
static uint64_t type_size(const struct sgpu_type *type)
{
	uint64_t size = 0;

	return sgpu_type_bytes(type, &size) ? size : 0;
}

static const struct job_input *find_input(const struct job *job, const char *id)
{
	for (int i = 0; i < job->input_count; i++) {
		if (strcmp(job->inputs[i].id, id) == 0) {
			return &job->inputs[i];
		}
	}
	return NULL;
}

static int describe_segment(const struct job *job, const struct sgpu_segment *from, struct sgpu_batch_segment *to,
			    struct sgpu_error *error)
{
	const struct job_input *input = find_input(job, from->id);

	to->id = strdup(from->id);
	to->masking = job->sealed ? SGPU_MASKING_AES_GCM : SGPU_MASKING_NONE;
	to->size = input ? input->size : type_size(&from->type);
	if (!to->id) {
		return sgpu_fail_nomem(error);
	}
	if (!input) {
		return SGPU_OK;
	}
	to->location.kind = SGPU_LOCATION_INLINE;
	to->sealed = job->sealed;
	if (job->sealed) {
		return sgpu_sealed_size(input->size, &to->sealed_size) ? SGPU_OK :
		       sgpu_fail(error, SGPU_EUSAGE, "a segment that is too large");
	}
	to->has_kt128 = true;
	sgpu_kt128(input->data, input->size, NULL, 0, to->kt128, sizeof(to->kt128));
	return SGPU_OK;
}

static int describe(struct job *job, const struct sgpu_manifest *manifest, struct sgpu_error *error)
{
	struct sgpu_batch *b = job->batch = calloc(1, sizeof(*b));
	int rc = b ? sgpu_random(b->id, sizeof(b->id), error) : sgpu_fail_nomem(error);

	if (rc != SGPU_OK) {
		return rc;
	}
	b->manifest_text = strdup(manifest->canonical);
	b->manifest_size = manifest->canonical_size;
	memcpy(b->manifest_sha256, manifest->sha256, sizeof(b->manifest_sha256));
	b->segments = calloc((size_t)manifest->segment_count, sizeof(*b->segments));
	if (!b->manifest_text || !b->segments) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; rc == SGPU_OK && i < manifest->segment_count; i++) {
		if (manifest->segments[i].direction != SGPU_INTERMEDIATE) {
			rc = describe_segment(job, &manifest->segments[i], &b->segments[b->segment_count++], error);
		}
	}
	return rc;
}

int job_payload(const struct job *job, int segment, uint8_t *payload, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &job->batch->segments[segment];
	const struct job_input *input = find_input(job, s->id);
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size = 0;
	int rc;

	if (!job->sealed) {
		memcpy(payload, input->data, input->size);
		return SGPU_OK;
	}
	rc = sgpu_batch_segment_key(job->batch, job->key, s->id, NULL, key, context, &context_size, error);
	if (rc == SGPU_OK) {
		rc = sgpu_seal_memory(key, context, context_size, input->data, input->size, payload, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

static int write_payload(struct job *job, int segment, struct sgpu_error *error)
{
	const uint64_t size = sgpu_batch_payload_size(job->batch, segment);
	uint8_t *payload = malloc(size + 1);
	int rc = payload ? job_payload(job, segment, payload, error) : sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		rc = sgpu_write(job->batch_fd, "batch", payload, size, error);
	}
	free(payload);
	return rc;
}

static int write_batch(struct job *job, struct sgpu_error *error)
{
	int rc = sgpu_batch_write_head(job->batch_fd, "batch", job->batch, error);

	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		if (job->batch->segments[i].location.kind != SGPU_LOCATION_INLINE) {
			continue;
		}
		rc = sgpu_batch_payload_begin(job->batch_fd, "batch", job->batch, i, error);
		if (rc == SGPU_OK) {
			rc = write_payload(job, i, error);
		}
		if (rc == SGPU_OK) {
			rc = sgpu_batch_payload_end(job->batch_fd, "batch", job->batch, i, error);
		}
	}
	return rc == SGPU_OK ? sgpu_tar_end(job->batch_fd, "batch", error) : rc;
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
	struct sgpu_faults faults = { 0 };
	char *text = job_manifest(job);
	int rc = text ? sgpu_ops_load_manifest(text, strlen(text), "bench", manifest, &faults, error) :
		 sgpu_fail_nomem(error);

	sgpu_faults_clear(&faults);
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
		rc = describe(job, manifest, error);
	}
	sgpu_manifest_free(&manifest);
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
	return write_batch(job, error);
}

/* ---- a run ---- */
/* The response's file keeps its memory from run to run: to get fresh pages would cost more than some jobs. What an
 * earlier response leaves behind a shorter one is cut off. */
static int rewind_files(const struct job *job, struct sgpu_error *error)
{
	if (lseek(job->batch_fd, 0, SEEK_SET) < 0 || lseek(job->response_fd, 0, SEEK_SET) < 0) {
		return sgpu_fail_errno(error, "cannot rewind a memory file");
	}
	return SGPU_OK;
}

int job_run(struct job *job, struct sgpu_device *device, uint64_t *ns, struct sgpu_error *error)
{
	const struct sgpu_run_options options = { .keys = &job->owner, .key_count = 1 };
	struct sgpu_run *run = NULL;
	int rc = rewind_files(job, error);
	uint64_t begin = sgpu_now_ns();
	off_t end;

	if (rc == SGPU_OK) {
		rc = sgpu_run_create(device, &options, &run, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_run_batch(run, job->batch_fd, "batch", job->response_fd, "response", error);
	}
	*ns = sgpu_now_ns() - begin;
	sgpu_run_free(&run);
	if (rc == SGPU_OK) {
		end = lseek(job->response_fd, 0, SEEK_CUR);
		if (end < 0 || ftruncate(job->response_fd, end) != 0) {
			rc = sgpu_fail_errno(error, "cannot cut the response off");
		}
	}
	return rc;
}

static int make_context(struct sgpu_device *device, struct sgpu_secure **context, struct sgpu_error *error)
{
	int rc = sgpu_secure_create(device, NULL, context, error);

	return rc == SGPU_EUNAVAILABLE ? SGPU_OK : rc;
}

int job_context(struct sgpu_bench *bench, struct sgpu_secure **context, struct sgpu_error *error)
{
	return make_context(bench->device, context, error);
}

static int run_in(struct job *job, struct sgpu_device *device, struct sgpu_secure *context, uint64_t *ns,
		  struct sgpu_error *error)
{
	return job_run(job, job->sealed && !job->bare && context ? sgpu_secure_device(context) : device, ns, error);
}

int job_run_on(struct job *job, struct sgpu_bench *bench, struct sgpu_secure *context, bool opens, uint64_t *ns,
	       struct sgpu_error *error)
{
	const struct sgpu_device_config config = { .jobs = bench->options.jobs };
	struct sgpu_device *device = NULL;
	struct sgpu_secure *own = NULL;
	uint64_t begin = sgpu_now_ns(), inside;
	int rc;

	if (!opens) {
		return run_in(job, bench->device, context, ns, error);
	}
	rc = sgpu_device_open(bench->info.selector, &config, &device, error);
	if (rc == SGPU_OK && job->sealed && !job->bare) {
		rc = make_context(device, &own, error);
	}
	if (rc == SGPU_OK) {
		rc = run_in(job, device, own, &inside, error);
	}
	sgpu_secure_destroy(&own);
	sgpu_device_close(&device);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

const char *job_device_text(bool opens)
{
	return opens ? "opened for a batch" : "resident";
}

static int open_output(const struct job *job, const struct sgpu_batch *response, int index, const uint8_t *payload,
		       void *data, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &response->segments[index];
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX], digest[SGPU_KT128_SIZE];
	size_t context_size = 0;
	int rc;

	if (s->actual_size != size) {
		return sgpu_fail(error, SGPU_EDIFFERS, "output '%s' has %llu bytes, not %llu", s->id,
				 (unsigned long long)s->actual_size, (unsigned long long)size);
	}
	if (s->masking == SGPU_MASKING_NONE) {
		sgpu_kt128(payload, size, NULL, 0, digest, sizeof(digest));
		memcpy(data, payload, size);
		return memcmp(digest, s->kt128, sizeof(digest)) == 0 ? SGPU_OK :
		       sgpu_fail(error, SGPU_EAUTH, "output '%s' has another digest", s->id);
	}
	rc = sgpu_batch_segment_key(response, job->key, s->id, response->response_id, key, context,
				    &context_size, error);
	if (rc == SGPU_OK) {
		rc = sgpu_open_memory(key, context, context_size, payload, sgpu_batch_payload_size(response, index),
				      data, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

static int read_payload(const struct job *job, struct sgpu_tar_reader *tar, const struct sgpu_batch *response,
			int index, void *data, uint64_t size, struct sgpu_error *error)
{
	uint64_t payload_size = sgpu_batch_payload_size(response, index);
	uint8_t *payload = malloc(payload_size + 1);
	int rc = payload ? sgpu_tar_read(tar, payload, payload_size, error) : sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		rc = open_output(job, response, index, payload, data, size, error);
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
