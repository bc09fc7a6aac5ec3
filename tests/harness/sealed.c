/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads of batches in memory, for tests: the programs seal and open by the engine of
 * lib/transfer.
 */
#include <string.h>

#include <sgpu/base.h>

#include "batch/batch.h"
#include "crypto/crypto.h"
#include "sealed.h"

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

int batch_seal_payload(struct sgpu_batch *batch, const uint8_t batch_key[SGPU_KEY_SIZE],
		       int segment, const void *data, void *payload, struct sgpu_error *error)
{
	struct sgpu_batch_segment *s = &batch->segments[segment];
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size = 0;
	int rc;

	if (!s->sealed) {
		memcpy(payload, data, s->size);
		return SGPU_OK;
	}
	rc = sgpu_batch_segment_key(batch, batch_key, s->id, NULL, key, context, &context_size,
				    error);
	rc = rc ? rc : sgpu_seal_memory(key, context, context_size, data, s->size, payload, error);
	sgpu_wipe(key, sizeof(key));
	memcpy(s->header, payload, rc ? 0 : sizeof(s->header));
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
		rc = sgpu_open_memory(key, context, context_size, payload, size, data, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}
