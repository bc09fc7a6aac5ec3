/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the index: the first byte chooses batch or response. What parses must be written as the
 * same bytes, and its recipients and MAC must be handled without a fault.
 */
#include <stdlib.h>
#include <string.h>

#include "batch/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct sgpu_batch *batch, const char *text, size_t size)
{
	static const struct sgpu_key key = { .kind = SGPU_KEY_OCT,
					     .kid = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" };
	uint8_t batch_key[SGPU_KEY_SIZE] = { 0 };
	char *again = NULL;
	size_t again_size = 0;
	if (sgpu_batch_text(batch, &again, &again_size, NULL) || again_size != size ||
	    memcmp(again, text, size)) {
		abort();
	}
	free(again);
	for (size_t i = 0; i < json_array_size(batch->signatures); i++) {
		struct sgpu_signing_key signer;
		const int code = sgpu_batch_signature(batch, (int)i, &signer, NULL);
		if (code && code != SGPU_EINVALID && code != SGPU_EAUTH) {
			abort();
		}
	}
	for (int i = 0; i < batch->segment_count; i++) {
		if (sgpu_batch_segment(batch, batch->segments[i].id) != i) {
			abort();
		}
	}
	if (sgpu_batch_unwrap(batch, &key, 1, batch_key, NULL) == 0 ||
	    (batch->has_mac && sgpu_batch_verify(batch, batch_key, NULL) == 0)) {
		abort(); /* the key is in no corpus */
	}
	if (sgpu_batch_sign(batch, batch_key, NULL) || sgpu_batch_verify(batch, batch_key, NULL)) {
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sgpu_batch *batch = NULL;
	if (!size) {
		return 0;
	}
	char *text = malloc(size);
	if (!text) {
		return 0;
	}
	memcpy(text, data + 1, size - 1);
	if (!sgpu_batch_parse(text, size - 1, data[0] & 1, &batch, NULL)) {
		use(batch, text, size - 1);
	}
	sgpu_batch_free(&batch);
	free(text);
	return 0;
}
