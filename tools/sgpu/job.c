/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "batch/batch.h"
#include "crypto/crypto.h"
#include "manifest/manifest.h"
#include "transfer/transfer.h"

int job_create(const struct sgpu_manifest *manifest, struct job *job, struct sgpu_error *error)
{
	*job = (struct job){ .manifest = manifest };
	job->arrays = calloc((size_t)manifest->segment_count + 1, sizeof(*job->arrays));
	return job->arrays ? sgpu_batch_create(manifest, &job->batch, error)
			   : sgpu_fail_nomem(error);
}

void job_free(struct job *job)
{
	for (int i = 0; job->arrays && i < job->manifest->segment_count; i++) {
		sgpu_free_wiped(&job->arrays[i].data, job->arrays[i].size);
	}
	free(job->arrays);
	job->arrays = NULL;
	sgpu_wipe(job->batch_key, sizeof(job->batch_key));
	sgpu_batch_free(&job->batch);
	sgpu_batch_free(&job->response);
}

static struct job_array *array_of(const struct job *job, const char *id)
{
	return &job->arrays[sgpu_manifest_segment(job->manifest, id)];
}

/* ---- sealing ---- */
/* Says how each segment travels: HIGH inputs sealed, LOW inputs with their digest. */
static int describe(struct job *job, struct sgpu_error *error)
{
	struct sgpu_batch *batch = job->batch;
	int rc = sgpu_random(job->batch_key, sizeof(job->batch_key), error);

	for (int i = 0; i < batch->segment_count && !rc; i++) {
		struct sgpu_batch_segment *s = &batch->segments[i];

		if (!s->input) {
			continue;
		}
		s->location.kind = SGPU_LOCATION_INLINE;
		s->sealed = s->masking == SGPU_MASKING_AES_GCM;
		if (!s->sealed) {
			const struct job_array *array = array_of(job, s->id);

			sgpu_kt128(array->data, array->size, NULL, 0, s->kt128, sizeof(s->kt128));
			s->has_kt128 = true;
		} else {
			s->sealed_size = sgpu_segment_masked_size(s);
			rc = sgpu_batch_draw_header(batch, job->batch_key, i, error);
		}
	}
	return rc;
}

static int move(struct sgpu_host_part *part, struct sgpu_error *error)
{
	struct sgpu_host_move moves = { .parts = part, .count = 1 };

	return sgpu_host_move(&moves, error);
}

static int write_payload(int fd, const char *name, const struct sgpu_batch *batch, int segment,
			 void *argument, struct sgpu_error *error)
{
	const struct job *job = argument;
	const struct sgpu_batch_segment *s = &batch->segments[segment];
	const struct job_array *array = array_of(job, s->id);
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	struct sgpu_descriptor out;
	struct sgpu_host_part part = { .action = s->sealed ? SGPU_HOST_SEAL : SGPU_HOST_COPY,
				       .name = s->id,
				       .source.memory = array->data,
				       .size = s->size,
				       .key = key,
				       .context = context,
				       .header = s->header };
	int rc = SGPU_OK;

	sgpu_descriptor_from_fd(fd, name, &out);
	part.sink = sgpu_endpoint_of(&out);
	if (s->sealed) {
		rc = sgpu_batch_segment_key(batch, job->batch_key, s->id, NULL, key, context,
					    &part.context_size, error);
	}
	rc = rc ? rc : move(&part, error);
	if (!rc && out.positioned && lseek(fd, (off_t)part.bytes_out, SEEK_CUR) < 0) {
		rc = sgpu_fail_errno(error, "cannot seek in '%s'", name);
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_descriptor_close(&out);
	return rc;
}

int job_seal(struct job *job, const struct sgpu_key *runner, const struct sgpu_key *signer, int fd,
	     struct sgpu_error *error)
{
	struct sgpu_batch *batch = job->batch;
	struct timespec now;
	int rc = describe(job, error);

	clock_gettime(CLOCK_REALTIME, &now);
	batch->counter = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	batch->packed = false;
	rc = rc ? rc : sgpu_batch_wrap(batch, runner, job->batch_key, error);
	rc = rc || !signer ? rc : sgpu_batch_add_signature(batch, signer, error);
	rc = rc ? rc : sgpu_batch_sign(batch, job->batch_key, error);
	rc = rc ? rc : sgpu_batch_identity(batch, job->identity, error);
	return rc ? rc : sgpu_batch_write(fd, "the batch", batch, write_payload, job, error);
}

/* ---- opening ---- */
static int fail_refused(struct sgpu_tar_reader *reader, struct sgpu_error *error)
{
	struct sgpu_batch_refusal refusal;
	const int rc = sgpu_batch_refusal_read(reader, &refusal, error);

	return rc ? rc
		  : sgpu_fail(error, SGPU_EREFUSED,
			      "not authenticated: the runner's side says %s: %s",
			      sgpu_error_name(refusal.code), refusal.text);
}

static int authenticate(const struct job *job, struct sgpu_error *error)
{
	const struct sgpu_batch *response = job->response;
	int rc =
		response->has_mac ? sgpu_batch_verify(response, job->batch_key, error) : SGPU_EAUTH;

	if (rc || !sgpu_equal(job->identity, response->identity, sizeof(job->identity))) {
		rc = sgpu_fail(error, SGPU_EAUTH, "the response is not that to this batch");
	}
	return rc;
}

/* Whether the payload of an output came with the response, in the size of its type. */
static bool is_whole(const struct sgpu_segment *own, const struct sgpu_batch_segment *output)
{
	const uint64_t element = sgpu_dtype_size(own->type.dtype), size = output->size;
	uint64_t bytes = 0;

	(void)sgpu_type_bytes(&own->type, &bytes);
	return output->location.kind == SGPU_LOCATION_INLINE &&
	       (own->at_most ? size <= bytes && size % element == 0 : size == bytes);
}

/* A response has no manifest. Whoever runs the batch could name other segments in it, leave outputs
 * out or give them other sizes; who carries it, name a place elsewhere. */
static int check_list(const struct job *job, struct sgpu_error *error)
{
	const struct sgpu_batch *response = job->response;
	int outputs = 0;
	bool same = true;

	for (int i = 0; i < job->manifest->segment_count; i++) {
		const struct sgpu_segment *own = &job->manifest->segments[i];

		if (sgpu_segment_is_output(own)) {
			const int at = sgpu_batch_segment(response, own->id);

			same = same && at >= 0 &&
			       (response->segments[at].status != SGPU_OK ||
				is_whole(own, &response->segments[at]));
			outputs++;
		}
	}
	return same && outputs == response->segment_count
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EAUTH,
				   "the response has other outputs than the batch");
}

static int write_array(void *context, uint64_t position, const void *data, size_t size,
		       struct sgpu_error *error)
{
	const struct job_array *array = context;

	if (position > array->size || size > array->size - position) {
		return sgpu_fail(error, SGPU_EAUTH, "an output is larger than its size says");
	}
	memcpy(array->data + position, data, size);
	return SGPU_OK;
}

/* Opens the current payload of the archive. */
static int open_payload(struct job *job, struct sgpu_tar_reader *reader, int segment,
			struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &job->response->segments[segment];
	struct job_array *array = array_of(job, s->id);
	const bool sealed = s->masking == SGPU_MASKING_AES_GCM;
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	struct sgpu_descriptor in;
	struct sgpu_host_part part = { .action = sealed ? SGPU_HOST_OPEN : SGPU_HOST_COPY,
				       .name = s->id,
				       .size = sgpu_batch_payload_size(job->response, segment),
				       .key = key,
				       .context = context,
				       .digest = sealed ? NULL : s->kt128 };
	int rc = SGPU_OK;

	sgpu_free_wiped(&array->data, array->size);
	array->size = s->size;
	array->data = malloc(array->size + 1);
	if (!array->data) {
		return sgpu_fail_nomem(error);
	}
	if (sealed) {
		rc = sgpu_batch_segment_key(job->response, job->batch_key, s->id,
					    job->response->response_id, key, context,
					    &part.context_size, error);
	}
	sgpu_descriptor_from_fd(sgpu_tar_fd(reader), "the response", &in);
	part.source = sgpu_endpoint_of(&in);
	part.sink =
		(struct sgpu_endpoint){ .write = write_array, .parallel = true, .context = array };
	rc = rc ? rc : move(&part, error);
	if (rc == SGPU_EKEY) { /* key and context follow from the verified index */
		rc = sgpu_fail(error, SGPU_EAUTH, "output '%s' was altered", s->id);
	}
	if (!rc && in.positioned && lseek(in.fd, (off_t)part.size, SEEK_CUR) < 0) {
		rc = sgpu_fail_errno(error, "cannot seek in the response");
	}
	sgpu_tar_consumed(reader, part.size);
	sgpu_wipe(key, sizeof(key));
	sgpu_descriptor_close(&in);
	return rc;
}

static int open_payloads(struct job *job, struct sgpu_tar_reader *reader, struct sgpu_error *error)
{
	int segment = 0, rc = SGPU_OK;

	while (!rc && segment >= 0) {
		rc = sgpu_batch_next_payload(reader, job->response, &segment, error);
		if (!rc && segment >= 0) {
			rc = open_payload(job, reader, segment, error);
		}
	}
	return rc;
}

/* Fails with the first output that has failed. */
static int check_outputs(const struct job *job, struct sgpu_error *error)
{
	for (int i = 0; i < job->response->segment_count; i++) {
		const struct sgpu_batch_segment *s = &job->response->segments[i];

		if (s->status != SGPU_OK) {
			return sgpu_fail(error, SGPU_ESEGMENTS, "output '%s' has failed: %s (%s)",
					 s->id, s->error_text ? s->error_text : "",
					 sgpu_error_name(s->status));
		}
	}
	return SGPU_OK;
}

int job_open(struct job *job, int fd, struct sgpu_error *error)
{
	struct sgpu_tar_reader *reader = NULL;
	int rc = sgpu_tar_open(fd, "the response", &reader, error);

	rc = rc ? rc : sgpu_batch_read_seal(reader, SGPU_READ_RESPONSE, &job->response, error);
	rc = rc == SGPU_EREFUSED ? fail_refused(reader, error) : rc;
	rc = rc ? rc : authenticate(job, error);
	rc = rc ? rc : sgpu_batch_read_rest(reader, job->response, NULL, error);
	rc = rc ? rc : check_list(job, error);
	rc = rc ? rc : open_payloads(job, reader, error);
	sgpu_tar_close(&reader);
	return rc ? rc : check_outputs(job, error);
}
