/* SPDX-License-Identifier: Apache-2.0
 *
 * Signs the index, verifies its signatures, and finds those of owners.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "batch/batch.h"
#include "crypto/crypto.h"
#include "index.h"

/* Hashes a part of the index. Signatures are over all that carriers may not change. */
static int digest_of(const struct sgpu_batch *batch, enum sgpu_index_part part,
		     uint8_t digest[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_batch_canonical(batch, part, &text, &size, error);
	rc = rc ? rc : sgpu_sha256(text, size, digest, error);
	free(text);
	return rc;
}

int sgpu_batch_identity(const struct sgpu_batch *batch, uint8_t identity[SGPU_SHA256_SIZE],
			struct sgpu_error *error)
{
	return digest_of(batch, SGPU_INDEX_FOR_IDENTITY, identity, error);
}

static const char *token_at(const struct sgpu_batch *batch, size_t index)
{
	return json_string_value(json_array_get(batch->signatures, index));
}

/* Gets the key that a signature names; verifies nothing. */
static int named_key(const struct sgpu_batch *batch, size_t index, struct sgpu_signing_key *key,
		     struct sgpu_error *error)
{
	uint8_t signature[SGPU_SIGNATURE_SIZE];
	const char *token = token_at(batch, index);
	return token ? sgpu_detached_parse(token, SGPU_BATCH_TYP, key, signature, error)
		     : sgpu_fail(error, SGPU_EINVALID, "signature: not a text");
}

static void remove_of(struct sgpu_batch *batch, const char *kid)
{
	for (size_t i = json_array_size(batch->signatures); i-- > 0;) {
		struct sgpu_signing_key key;
		if (named_key(batch, i, &key, NULL) == 0 && !strcmp(key.kid, kid)) {
			(void)json_array_remove(batch->signatures, i);
		}
	}
}

int sgpu_batch_add_signature(struct sgpu_batch *batch, const struct sgpu_signing_key *key,
			     struct sgpu_error *error)
{
	uint8_t digest[SGPU_SHA256_SIZE];
	char *token = NULL;
	remove_of(batch, key->kid);
	if (json_array_size(batch->signatures) >= SGPU_SIGNATURES_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d signatures",
				 SGPU_SIGNATURES_MAX);
	}
	int rc = digest_of(batch, SGPU_INDEX_FOR_SIGNATURES, digest, error);
	rc = rc ? rc
		: sgpu_detached_sign(key, SGPU_BATCH_TYP, digest, sizeof(digest), &token, error);
	if (!rc && !batch->signatures) {
		batch->signatures = json_array();
	}
	if (!rc && json_array_append_new(batch->signatures, json_string(token))) {
		rc = sgpu_fail_nomem(error);
	}
	free(token);
	return rc;
}

static int verify(const struct sgpu_batch *batch, size_t index,
		  const uint8_t digest[SGPU_SHA256_SIZE], struct sgpu_signing_key *key,
		  struct sgpu_error *error)
{
	const int rc = sgpu_detached_verify(token_at(batch, index), SGPU_BATCH_TYP, digest,
					    SGPU_SHA256_SIZE, key, error);
	return rc != SGPU_EAUTH
		       ? rc
		       : sgpu_fail(error, SGPU_EAUTH,
				   "the signature of '%s' does not verify: the batch was altered",
				   key->kid);
}

int sgpu_batch_signature(const struct sgpu_batch *batch, int index, struct sgpu_signing_key *key,
			 struct sgpu_error *error)
{
	uint8_t digest[SGPU_SHA256_SIZE];
	int rc = named_key(batch, (size_t)index, key, error);
	rc = rc ? rc : digest_of(batch, SGPU_INDEX_FOR_SIGNATURES, digest, error);
	return rc ? rc : verify(batch, (size_t)index, digest, key, error);
}

int sgpu_batch_signed_by(const struct sgpu_batch *batch, const char *kid, bool *yes,
			 struct sgpu_error *error)
{
	const size_t count = json_array_size(batch->signatures);
	int rc = 0;

	*yes = false;
	for (size_t i = 0; !rc && !*yes && i < count; i++) {
		struct sgpu_signing_key key;
		if (named_key(batch, i, &key, NULL) == 0 && !strcmp(key.kid, kid)) {
			rc = sgpu_batch_signature(batch, (int)i, &key, error);
			*yes = !rc;
		}
	}
	return rc;
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
	struct sgpu_signing_key key = { .kind = SGPU_SIGNING_NONE };
	uint8_t digest[SGPU_SHA256_SIZE];
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
		rc = named_key(batch, i, &key, error);
		if (rc || !listed(key.kid, owners, owner_count)) {
			continue;
		}
		if (!kid[0]) {
			memcpy(kid, key.kid, sizeof(key.kid));
			rc = digest_of(batch, SGPU_INDEX_FOR_SIGNATURES, digest, error);
		}
		rc = rc ? rc : verify(batch, i, digest, &key, error);
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
