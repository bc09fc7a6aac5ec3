/* SPDX-License-Identifier: Apache-2.0
 *
 * The sealed segment: its lengths, its key schedule, and chunk runs in memory.
 */
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/seal.h>

#include "batch/batch.h"
#include "crypto/crypto.h"

static const char label[] = "c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM"; /* with its NUL */

enum {
	DERIVED_SIZE = SGPU_KEY_SIZE + SGPU_NONCE_SIZE + SGPU_COMMITMENT_SIZE,
	INFO_MAX = sizeof(label) + SGPU_SALT_SIZE + SGPU_CONTEXT_MAX,
};

static int derive(const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size,
		  struct sgpu_sealed_keys *keys, struct sgpu_error *error)
{
	uint8_t info[INFO_MAX], derived[DERIVED_SIZE] = { 0 };

	if (context_size > SGPU_CONTEXT_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "the context has %zu bytes, more than %d",
				 context_size, SGPU_CONTEXT_MAX);
	}
	memcpy(info, label, sizeof(label));
	memcpy(info + sizeof(label), keys->header, SGPU_SALT_SIZE);
	if (context_size) {
		memcpy(info + sizeof(label) + SGPU_SALT_SIZE, context, context_size);
	}
	int rc = sgpu_hkdf_expand(SGPU_SHA512_SIZE, key, SGPU_KEY_SIZE, info,
				  sizeof(label) + SGPU_SALT_SIZE + context_size, derived,
				  sizeof(derived), error);
	if (!rc) {
		memcpy(keys->key, derived, SGPU_KEY_SIZE);
		memcpy(keys->base_nonce, derived + SGPU_KEY_SIZE, SGPU_NONCE_SIZE);
		memcpy(keys->header + SGPU_SALT_SIZE, derived + SGPU_KEY_SIZE + SGPU_NONCE_SIZE,
		       SGPU_COMMITMENT_SIZE);
	}
	sgpu_wipe(derived, sizeof(derived));
	return rc;
}

int sgpu_sealed_keys_new(const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size,
			 struct sgpu_sealed_keys *keys, struct sgpu_error *error)
{
	memset(keys, 0, sizeof(*keys));
	int rc = sgpu_random(keys->header, SGPU_SALT_SIZE, error);
	rc = rc ? rc : derive(key, context, context_size, keys, error);
	if (rc) {
		sgpu_wipe(keys, sizeof(*keys));
	}
	return rc;
}

int sgpu_sealed_keys_open(const uint8_t key[SGPU_KEY_SIZE], const void *context,
			  size_t context_size, const uint8_t header[SGPU_SEALED_HEADER],
			  struct sgpu_sealed_keys *keys, struct sgpu_error *error)
{
	memset(keys, 0, sizeof(*keys));
	memcpy(keys->header, header, SGPU_SALT_SIZE);
	int rc = derive(key, context, context_size, keys, error);
	if (!rc && !sgpu_equal(keys->header, header, SGPU_SEALED_HEADER)) {
		rc = sgpu_fail(
			error, SGPU_EKEY,
			"the key or the context is not the one that the data were sealed with");
		sgpu_hint(error,
			  "the key commitment in the header does not match; no data were opened");
	}
	if (rc) {
		sgpu_wipe(keys, sizeof(*keys));
	}
	return rc;
}

static void make_nonce(const struct sgpu_sealed_keys *keys, uint64_t chunk,
		       uint8_t nonce[SGPU_NONCE_SIZE])
{
	memcpy(nonce, keys->base_nonce, SGPU_NONCE_SIZE);
	for (int i = 0; i < 8; i++) {
		nonce[SGPU_NONCE_SIZE - 1 - i] ^= (uint8_t)(chunk >> (8 * i));
	}
}

/* ---- lengths ---- */
bool sgpu_sealed_size(uint64_t size, uint64_t *sealed_size)
{
	if (size > SGPU_SEALED_PLAINTEXT_MAX) {
		return false;
	}
	*sealed_size = SGPU_SEALED_HEADER + sgpu_run_sealed_size(size, true);
	return true;
}

uint64_t sgpu_run_sealed_size(uint64_t size, bool last)
{
	return size + SGPU_TAG_SIZE * (size / SGPU_CHUNK + last);
}

uint64_t sgpu_opened_size(uint64_t size)
{
	uint64_t rest = size % SGPU_SEALED_CHUNK;

	return size / SGPU_SEALED_CHUNK * SGPU_CHUNK +
	       (rest > SGPU_TAG_SIZE ? rest - SGPU_TAG_SIZE : 0);
}

bool sgpu_sealed_plaintext_size(uint64_t sealed_size, uint64_t *size)
{
	if (sealed_size < SGPU_SEALED_HEADER + SGPU_TAG_SIZE) {
		return false;
	}
	uint64_t full = (sealed_size - SGPU_SEALED_HEADER) / SGPU_SEALED_CHUNK;
	uint64_t last = (sealed_size - SGPU_SEALED_HEADER) % SGPU_SEALED_CHUNK;
	if (full > SGPU_SEALED_PLAINTEXT_MAX / SGPU_CHUNK || last < SGPU_TAG_SIZE) {
		return false;
	}
	*size = full * SGPU_CHUNK + (last - SGPU_TAG_SIZE);
	return true;
}

/* ---- runs of chunks ---- */
int sgpu_seal_chunks(struct sgpu_aead *aead, const struct sgpu_sealed_keys *keys, uint64_t first,
		     bool last, const uint8_t *in, size_t size, uint8_t *out)
{
	uint8_t nonce[SGPU_NONCE_SIZE];

	if (!last && size % SGPU_CHUNK) {
		return SGPU_EUSAGE;
	}
	for (;; first++) {
		size_t part = size < SGPU_CHUNK ? size : SGPU_CHUNK;
		if (part < SGPU_CHUNK && !last) {
			return 0;
		}
		make_nonce(keys, first, nonce);
		int rc = sgpu_aead_seal(aead, nonce, in, part, out, out + part);
		if (rc || part < SGPU_CHUNK) {
			return rc;
		}
		in += part;
		size -= part;
		out += part + SGPU_TAG_SIZE;
	}
}

int sgpu_open_chunks(struct sgpu_aead *aead, const struct sgpu_sealed_keys *keys, uint64_t first,
		     bool last, const uint8_t *in, size_t size, uint8_t *out, uint64_t *bad_chunk)
{
	uint8_t nonce[SGPU_NONCE_SIZE];
	int rc = 0;

	for (; size >= SGPU_SEALED_CHUNK && !rc; first++) {
		make_nonce(keys, first, nonce);
		rc = sgpu_aead_open(aead, nonce, in, SGPU_CHUNK, out, in + SGPU_CHUNK);
		if (rc) {
			break;
		}
		in += SGPU_SEALED_CHUNK;
		size -= SGPU_SEALED_CHUNK;
		out += SGPU_CHUNK;
	}
	if (!rc && last && size >= SGPU_TAG_SIZE) {
		make_nonce(keys, first, nonce);
		rc = sgpu_aead_open(aead, nonce, in, size - SGPU_TAG_SIZE, out,
				    in + size - SGPU_TAG_SIZE);
	} else if (!rc && (last || size)) {
		/* The last chunk is missing, or a short one is not the last. */
		rc = SGPU_EAUTH;
	}
	if (rc && bad_chunk) {
		*bad_chunk = first;
	}
	return rc;
}

/* ---- whole segments in memory ---- */
int sgpu_seal_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size,
		     const void *plaintext, size_t size, uint8_t *sealed, struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead = NULL;
	int rc = sgpu_sealed_keys_new(key, context, context_size, &keys, error);

	rc = rc ? rc : sgpu_aead_create(NULL, keys.key, &aead, error);
	if (!rc) {
		rc = sgpu_seal_chunks(aead, &keys, 0, true, plaintext, size,
				      mempcpy(sealed, keys.header, SGPU_SEALED_HEADER));
		rc = rc ? sgpu_fail(error, rc, "AES-256-GCM failed") : 0;
	}
	sgpu_aead_free(&aead);
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

int sgpu_open_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size,
		     const uint8_t *sealed, size_t sealed_size, void *plaintext,
		     struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead = NULL;
	uint64_t size = 0;
	int rc = sgpu_sealed_plaintext_size(sealed_size, &size)
			 ? sgpu_sealed_keys_open(key, context, context_size, sealed, &keys, error)
			 : sgpu_fail(error, SGPU_EAUTH, "%zu bytes are no length of sealed data",
				     sealed_size);

	rc = rc ? rc : sgpu_aead_create(NULL, keys.key, &aead, error);
	if (!rc) {
		rc = sgpu_open_chunks(aead, &keys, 0, true, sealed + SGPU_SEALED_HEADER,
				      sealed_size - SGPU_SEALED_HEADER, plaintext, NULL);
		rc = rc ? sgpu_fail(error, rc, "the sealed data do not verify") : 0;
	}
	if (rc) {
		sgpu_wipe(plaintext, size);
	}
	sgpu_aead_free(&aead);
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}

/* ---- the header of a file that is sealed to a public key ----
 * sgpu-sealed(5): magic (16) || key id (32) || enc (32) || wrapped key (48), before the segment
 * that is sealed with the wrapped key */
static const char magic[] = "sgpu-sealed-to/1", info[] = "sgpu sealed-to v1";

enum { KID = sizeof(magic) - 1, ENC = KID + 32, CT = ENC + 32, CT_SIZE = SGPU_SEALED_TO - CT };
_Static_assert(CT_SIZE == SGPU_KEY_SIZE + SGPU_TAG_SIZE, "the header ends with the wrapped key");

int sgpu_sealed_to_make(const struct sgpu_key *recipient, uint8_t key[SGPU_KEY_SIZE],
			uint8_t header[SGPU_SEALED_TO], struct sgpu_error *error)
{
	int rc = sgpu_random(key, SGPU_KEY_SIZE, error);

	memcpy(header, magic, KID);
	rc = rc ? rc : sgpu_base64url_decode(recipient->kid, header + KID, ENC - KID, error);
	rc = rc ? rc
		: sgpu_hpke_seal(recipient->public_half, info, sizeof(info) - 1, header, ENC, key,
				 SGPU_KEY_SIZE, header + ENC, header + CT, error);
	if (rc) {
		sgpu_wipe(key, SGPU_KEY_SIZE);
	}
	return rc;
}

bool sgpu_sealed_to_kid(const uint8_t *data, size_t size, char kid[SGPU_KID_SIZE + 1])
{
	if (size < SGPU_SEALED_TO || memcmp(data, magic, KID)) {
		return false;
	}
	sgpu_base64url_encode(data + KID, ENC - KID, kid);
	return true;
}

int sgpu_sealed_to_open(const struct sgpu_key *key, const uint8_t *data, size_t size,
			uint8_t file_key[SGPU_KEY_SIZE], struct sgpu_error *error)
{
	char kid[SGPU_KID_SIZE + 1];

	sgpu_wipe(file_key, SGPU_KEY_SIZE);
	if (!sgpu_sealed_to_kid(data, size, kid)) {
		return sgpu_fail(error, SGPU_EKEY, "the data are not sealed to a public key");
	}
	if (key->kind != SGPU_KEY_X25519 || !key->secret_known || strcmp(kid, key->kid)) {
		return sgpu_fail(error, SGPU_EKEY,
				 "the data are sealed to the key '%s', and '%s' was given", kid,
				 key->kid);
	}
	const int rc = sgpu_hpke_open(key, data + ENC, info, sizeof(info) - 1, data, ENC, data + CT,
				      CT_SIZE, file_key, error);

	return rc == SGPU_EAUTH
		       ? sgpu_fail(error, rc, "the header for the key '%s' does not verify", kid)
		       : rc;
}
