/* SPDX-License-Identifier: Apache-2.0
 *
 * struct sgpu_batch: its memory, its segments by id, the size of a payload; a batch of a checked
 * manifest.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "batch/batch.h"
#include "crypto/crypto.h"
#include "index.h"

void sgpu_batch_free(struct sgpu_batch **batch)
{
	if (!batch || !*batch) {
		return;
	}
	struct sgpu_batch *b = *batch;
	for (int i = 0; b->segments && i < b->segment_count; i++) {
		free(b->segments[i].id);
		free(b->segments[i].location.file);
		free(b->segments[i].location.array);
		free(b->segments[i].place);
		free(b->segments[i].error_text);
	}
	free(b->segments);
	free(b->payload);
	free(b->index_text);
	free(b->note);
	free(b->manifest_text);
	sgpu_manifest_free(&b->manifest);
	json_decref(b->recipients);
	json_decref(b->signatures);
	json_decref(b->timings);
	free(b);
	*batch = NULL;
}

const char *sgpu_index_name(const struct sgpu_batch *batch)
{
	return batch->response ? "response.json" : "batch.json";
}

int sgpu_segment_fail(const struct sgpu_batch_segment *s, int code, const char *what,
		      struct sgpu_error *error)
{
	return sgpu_fail(error, code, "segment '%s'%s", s->id, what);
}

uint64_t sgpu_batch_payload_size(const struct sgpu_batch *batch, int segment)
{
	const struct sgpu_batch_segment *s = &batch->segments[segment];

	if (s->sealed) {
		return s->sealed_size;
	}
	return !batch->response && s->output && !s->input ? sgpu_segment_masked_size(s) : s->size;
}

int sgpu_batch_segment(const struct sgpu_batch *batch, const char *id)
{
	for (int i = 0; i < batch->segment_count; i++) {
		if (!strcmp(batch->segments[i].id, id)) {
			return i;
		}
	}
	return -1;
}

int sgpu_segment_place(struct sgpu_batch_segment *segment, const struct sgpu_location *at,
		       struct sgpu_error *error)
{
	if (!segment->place) {
		segment->place = malloc(sizeof(*segment->place));
	}
	if (!segment->place) {
		return sgpu_fail_nomem(error);
	}
	*segment->place = *at;
	return SGPU_OK;
}

/* ---- making ---- */
int sgpu_batch_create(const struct sgpu_manifest *manifest, struct sgpu_batch **batch,
		      struct sgpu_error *error)
{
	struct sgpu_batch *b = *batch = calloc(1, sizeof(*b));

	if (!b) {
		return sgpu_fail_nomem(error);
	}
	b->segments = calloc((size_t)manifest->segment_count + 1, sizeof(*b->segments));
	b->manifest_text = strdup(manifest->canonical);
	b->manifest_size = manifest->canonical_size;
	memcpy(b->manifest_sha256, manifest->sha256, sizeof(b->manifest_sha256));
	if (!b->segments || !b->manifest_text) {
		sgpu_batch_free(batch);
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *from = &manifest->segments[i];
		struct sgpu_batch_segment *to = &b->segments[b->segment_count];

		if (from->direction == SGPU_INTERMEDIATE) {
			continue;
		}
		b->segment_count++;
		to->id = strdup(from->id);
		to->input = sgpu_segment_is_input(from);
		to->output = sgpu_segment_is_output(from);
		to->masking =
			from->sensitivity == SGPU_HIGH ? SGPU_MASKING_AES_GCM : SGPU_MASKING_NONE;
		b->packed = b->packed || to->masking == SGPU_MASKING_AES_GCM;
		if (!to->id || !sgpu_type_bytes(&from->type, &to->size)) {
			sgpu_batch_free(batch);
			return sgpu_fail_nomem(error);
		}
	}
	int rc = sgpu_random(b->id, sizeof(b->id), error);
	rc = rc ? rc : sgpu_batch_make_note(b, manifest, NULL, error);
	if (rc) {
		sgpu_batch_free(batch);
	}
	return rc;
}

int sgpu_batch_write(int fd, const char *name, struct sgpu_batch *batch,
		     sgpu_batch_payload_writer *write_payload, void *argument,
		     struct sgpu_error *error)
{
	uint8_t header[SGPU_TAR_BLOCK];
	int rc = sgpu_batch_write_head(fd, name, batch, false, error);

	for (int i = 0; rc == SGPU_OK && i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind != SGPU_LOCATION_INLINE) {
			continue;
		}
		rc = sgpu_batch_payload_header(batch, i, header, error);
		rc = rc ? rc : sgpu_write(fd, name, header, sizeof(header), error);
		rc = rc ? rc : write_payload(fd, name, batch, i, argument, error);
		rc = rc ? rc : sgpu_tar_padding(fd, name, sgpu_batch_payload_size(batch, i), error);
	}
	return rc == SGPU_OK ? sgpu_tar_end(fd, name, error) : rc;
}
