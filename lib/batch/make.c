/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a batch from a checked manifest, and writes one whose payloads the caller writes.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "batch/batch.h"
#include "crypto/crypto.h"
#include "index.h"

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
	int rc = sgpu_batch_write_head(fd, name, batch, error);

	for (int i = 0; rc == SGPU_OK && i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind != SGPU_LOCATION_INLINE) {
			continue;
		}
		rc = sgpu_batch_payload_begin(fd, name, batch, i, error);
		rc = rc ? rc : write_payload(fd, name, batch, i, argument, error);
		rc = rc ? rc : sgpu_tar_padding(fd, name, sgpu_batch_payload_size(batch, i), error);
	}
	return rc == SGPU_OK ? sgpu_tar_end(fd, name, error) : rc;
}
