/* SPDX-License-Identifier: Apache-2.0
 *
 * Signs the payload of seal.json, verifies its signatures, and finds those of owners.
 */
#include <endian.h>
#include <string.h>

#include <sgpu/base.h>

#include "batch/batch.h"
#include "crypto/crypto.h"
#include "index.h"

int sgpu_batch_identity(const struct sgpu_batch *batch, uint8_t identity[SGPU_SHA256_SIZE],
			struct sgpu_error *error)
{
	static const char label[] = "sgpu v2 batch"; /* with its NUL */
	const uint64_t counter = htobe64(batch->counter);
	uint8_t text[sizeof(label) + SGPU_BATCH_ID_SIZE + 8 + SGPU_SHA256_SIZE], *at = text;

	at = mempcpy(at, label, sizeof(label));
	at = mempcpy(at, batch->id, sizeof(batch->id));
	at = mempcpy(at, &counter, sizeof(counter));
	memcpy(at, batch->index_sha256, sizeof(batch->index_sha256));
	return sgpu_sha256(text, sizeof(text), identity, error);
}

int sgpu_batch_add_signature(struct sgpu_batch *batch, const struct sgpu_key *key,
			     struct sgpu_error *error)
{
	json_t *entry = NULL;

	if (json_array_size(batch->signatures) >= SGPU_SIGNATURES_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d signatures",
				 SGPU_SIGNATURES_MAX);
	}
	int rc = sgpu_seal_json_freeze(batch, error);
	rc = rc ? rc : sgpu_signature_make(key, SGPU_BATCH_TYP, batch->payload, &entry, error);
	if (!rc && !batch->signatures) {
		batch->signatures = json_array();
	}
	return rc || json_array_append_new(batch->signatures, entry) == 0 ? rc
									  : sgpu_fail_nomem(error);
}

static bool listed(const char *kid, const char *const *owners, int owner_count)
{
	for (int i = 0; i < owner_count; i++) {
		if (!strcmp(owners[i], kid)) {
			return true;
		}
	}
	return false;
}

int sgpu_batch_owner(const struct sgpu_batch *batch, const char *const *owners, int owner_count,
		     char kid[SGPU_KID_SIZE + 1], struct sgpu_error *error)
{
	const size_t count = json_array_size(batch->signatures);
	struct sgpu_key key = { .kind = SGPU_KEY_NONE };
	int rc = 0;
	kid[0] = '\0';
	if (!count) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "the batch is not signed, and this runner takes work of known owners "
			  "alone");
		return sgpu_hint(
			error,
			"seal it with a key file that has a key to sign with: 'sgpu-seal keygen'");
	}
	for (size_t i = 0; !rc && i < count; i++) {
		const json_t *entry = json_array_get(batch->signatures, i);

		rc = sgpu_signature_key(entry, SGPU_BATCH_TYP, &key, error);
		if (rc || !listed(key.kid, owners, owner_count)) {
			continue;
		}
		if (!kid[0]) {
			memcpy(kid, key.kid, sizeof(key.kid));
		}
		rc = sgpu_signature_verify(entry, batch->payload, &key, error);
		if (rc == SGPU_EAUTH) {
			sgpu_fail(error, rc,
				  "the signature of '%s' does not verify: the batch was altered",
				  key.kid);
		}
	}
	if (rc) {
		kid[0] = '\0';
	}
	if (rc || kid[0]) {
		return rc;
	}
	sgpu_fail(error, SGPU_EPOLICY,
		  "the batch is signed by '%s', which is none of the owners of this runner",
		  key.kid);
	return sgpu_hint(error, "'sgpu-seal keyinfo --owner' prints the line for their file");
}

int sgpu_batch_signed_by(const struct sgpu_batch *batch, const char *kid, bool *yes,
			 struct sgpu_error *error)
{
	char named[SGPU_KID_SIZE + 1];
	const int rc = sgpu_batch_owner(batch, &kid, 1, named, error);

	*yes = rc == SGPU_OK;
	return rc == SGPU_EPOLICY ? SGPU_OK : rc;
}
