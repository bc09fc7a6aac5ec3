/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch from a checked manifest, and its payloads from and to memory.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/batch.h>

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
		to->masking =
			from->sensitivity == SGPU_HIGH ? SGPU_MASKING_AES_GCM : SGPU_MASKING_NONE;
		if (!to->id || !sgpu_type_bytes(&from->type, &to->size)) {
			sgpu_batch_free(batch);
			return sgpu_fail_nomem(error);
		}
	}
	if (sgpu_random(b->id, sizeof(b->id), error) != SGPU_OK) {
		sgpu_batch_free(batch);
		return SGPU_ESYSTEM;
	}
	return SGPU_OK;
}

int sgpu_batch_set_payload(struct sgpu_batch *batch, int segment, const void *data, uint64_t size,
			   struct sgpu_error *error)
{
	struct sgpu_batch_segment *s = &batch->segments[segment];

	s->size = size;
	s->location.kind = SGPU_LOCATION_INLINE;
	s->sealed = s->masking == SGPU_MASKING_AES_GCM;
	s->has_kt128 = !s->sealed;
	if (s->has_kt128) {
		sgpu_kt128(data, size, NULL, 0, s->kt128, sizeof(s->kt128));
	} else if (!sgpu_sealed_size(size, &s->sealed_size)) {
		return sgpu_fail(error, SGPU_EUSAGE, "segment '%s' is too large", s->id);
	}
	return SGPU_OK;
}

int sgpu_batch_seal_payload(const struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
			    int segment, const void *data, void *payload, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &batch->segments[segment];
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size = 0;
	int rc;

	if (!s->sealed) {
		memcpy(payload, data, s->size);
		return SGPU_OK;
	}
	rc = sgpu_batch_segment_key(batch, batch_key, s->id, NULL, key, context, &context_size,
				    error);
	if (rc == SGPU_OK) {
		rc = sgpu_seal_memory(key, context, context_size, data, s->size, payload, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

int sgpu_batch_open_payload(const struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
			    int segment, const void *payload, void *data, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &batch->segments[segment];
	const uint64_t size = sgpu_batch_payload_size(batch, segment);
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX], digest[SGPU_KT128_SIZE];
	size_t context_size = 0;
	int rc;

	if (!s->sealed) {
		sgpu_kt128(payload, size, NULL, 0, digest, sizeof(digest));
		if (!s->has_kt128 || !sgpu_equal(digest, s->kt128, sizeof(digest))) {
			return sgpu_fail(error, SGPU_EAUTH, "segment '%s' has another digest",
					 s->id);
		}
		memcpy(data, payload, size);
		return SGPU_OK;
	}
	rc = sgpu_batch_segment_key(batch, batch_key, s->id,
				    batch->response ? batch->response_id : NULL, key, context,
				    &context_size, error);
	if (rc == SGPU_OK) {
		rc = sgpu_open_memory(key, context, context_size, payload, size, data, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

int sgpu_batch_write(int fd, const char *name, const struct sgpu_batch *batch,
		     sgpu_batch_payload_writer *write_payload, void *argument,
		     struct sgpu_error *error)
{
	int rc = sgpu_batch_write_head(fd, name, batch, error);

	for (int i = 0; rc == SGPU_OK && i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind != SGPU_LOCATION_INLINE) {
			continue;
		}
		rc = sgpu_batch_payload_begin(fd, name, batch, i, error);
		if (rc == SGPU_OK) {
			rc = write_payload(fd, name, batch, i, argument, error);
		}
		if (rc == SGPU_OK) {
			rc = sgpu_batch_payload_end(fd, name, batch, i, error);
		}
	}
	return rc == SGPU_OK ? sgpu_tar_end(fd, name, error) : rc;
}
