/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed segments and payloads of batches in memory, for tests: the programs seal and open by the
 * engine of lib/transfer.
 */
#include <string.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "sealed.h"

int seal_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size,
		const void *plaintext, size_t size, void *sealed, struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys = { .salt = { 0 } };
	struct sgpu_aead *aead = NULL;
	uint64_t sealed_size;

	if (!sgpu_sealed_size(size, &sealed_size)) {
		return sgpu_fail(error, SGPU_EUSAGE, "%zu bytes are too many to seal", size);
	}
	int code = sgpu_sealed_keys_new(key, context, context_size, &keys, error);
	if (!code) {
		code = sgpu_aead_create(NULL, keys.key, &aead, error);
	}
	if (!code) {
		sgpu_sealed_header(&keys, sealed);
		code = sgpu_seal_chunks(aead, &keys, 0, true, plaintext, size,
					(uint8_t *)sealed + SGPU_SEALED_HEADER);
		if (code) {
			(void)sgpu_fail(error, code, "AES-256-GCM failed");
		}
	}
	sgpu_aead_free(&aead);
	sgpu_wipe(&keys, sizeof(keys));
	return code;
}

int open_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size,
		const void *sealed, size_t sealed_size, void *plaintext, struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys = { .salt = { 0 } };
	struct sgpu_aead *aead = NULL;
	uint64_t size, bad_chunk = 0;

	if (!sgpu_sealed_plaintext_size(sealed_size, &size)) {
		return sgpu_fail(
			error, SGPU_EAUTH,
			"%zu bytes are not a length of sealed data: cut short, or no such data",
			sealed_size);
	}
	int code = sgpu_sealed_keys_open(key, context, context_size, sealed, &keys, error);
	if (!code) {
		code = sgpu_aead_create(NULL, keys.key, &aead, error);
	}
	if (!code) {
		code = sgpu_open_chunks(aead, &keys, 0, true,
					(const uint8_t *)sealed + SGPU_SEALED_HEADER,
					sealed_size - SGPU_SEALED_HEADER, plaintext, &bad_chunk);
		if (code == SGPU_EAUTH) {
			(void)sgpu_fail(error, code,
					"authentication failed at chunk %llu (offset %llu)",
					(unsigned long long)bad_chunk,
					(unsigned long long)(SGPU_SEALED_HEADER +
							     bad_chunk * SGPU_SEALED_CHUNK));
		} else if (code) {
			(void)sgpu_fail(error, code, "AES-256-GCM failed");
		}
	}
	if (code) {
		sgpu_wipe(plaintext, size);
	}
	sgpu_aead_free(&aead);
	sgpu_wipe(&keys, sizeof(keys));
	return code;
}

int batch_set_payload(struct sgpu_batch *batch, int segment, const void *data, uint64_t size,
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

int batch_seal_payload(const struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
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
		rc = seal_memory(key, context, context_size, data, s->size, payload, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

int batch_open_payload(const struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
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
		rc = open_memory(key, context, context_size, payload, size, data, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}
