/* SPDX-License-Identifier: Apache-2.0
 *
 * HPKE (RFC 9180), base mode, one suite: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM.
 */
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>

#include <sgpu/base.h>

#include "crypto/internal.h"

static const struct sgpu_piece version = { "HPKE-v1", 7 }, kem = { "KEM\0\x20", 5 },
			       suite = { "HPKE\0\x20\0\1\0\2", 10 };

/* LabeledExtract of RFC 9180. salt NULL: an empty salt, which for HMAC equals zeros. */
static int labeled_extract(struct sgpu_piece id, const uint8_t salt[32], const char *label,
			   const void *ikm, size_t ikm_size, uint8_t prk[32],
			   struct sgpu_error *error)
{
	const struct sgpu_piece pieces[] = {
		version, id, { label, strlen(label) }, { ikm, ikm_size }
	};

	return sgpu_hmac_pieces(SGPU_SHA256_SIZE, salt, salt ? 32 : 0, pieces,
				SGPU_ARRAY_LENGTH(pieces), prk, error);
}

/* LabeledExpand of RFC 9180, of at most one block of HKDF. */
static int labeled_expand(struct sgpu_piece id, const uint8_t prk[32], const char *label,
			  const uint8_t *info, size_t info_size, uint8_t *out, uint8_t size,
			  struct sgpu_error *error)
{
	const uint8_t length[] = { 0, size }, counter = 1;
	const struct sgpu_piece pieces[] = {
		{ length, sizeof(length) }, version,	    id, { label, strlen(label) },
		{ info, info_size },	    { &counter, 1 }
	};
	uint8_t block[SGPU_SHA256_SIZE] = { 0 };
	int rc = sgpu_hmac_pieces(SGPU_SHA256_SIZE, prk, 32, pieces, SGPU_ARRAY_LENGTH(pieces),
				  block, error);

	memcpy(out, block, size);
	sgpu_wipe(block, sizeof(block));
	return rc;
}

/* ExtractAndExpand of DHKEM. */
static int kem_secret(const uint8_t dh[32], const uint8_t enc[32], const uint8_t public_key[32],
		      uint8_t secret[32], struct sgpu_error *error)
{
	uint8_t context[64], prk[32] = { 0 };

	memcpy(context, enc, 32);
	memcpy(context + 32, public_key, 32);
	int rc = labeled_extract(kem, NULL, "eae_prk", dh, 32, prk, error);
	rc = rc ? rc
		: labeled_expand(kem, prk, "shared_secret", context, sizeof(context), secret, 32,
				 error);
	sgpu_wipe(prk, sizeof(prk));
	return rc;
}

/* KeySchedule in mode 0, without a pre-shared key. */
static int key_schedule(const uint8_t shared[32], const void *info, size_t info_size,
			struct sgpu_message_keys *keys, struct sgpu_error *error)
{
	uint8_t context[1 + 32 + 32] = { 0 }, secret[32] = { 0 };
	int rc = labeled_extract(suite, NULL, "psk_id_hash", NULL, 0, context + 1, error);

	rc = rc ? rc
		: labeled_extract(suite, NULL, "info_hash", info, info_size, context + 33, error);
	rc = rc ? rc : labeled_extract(suite, shared, "secret", NULL, 0, secret, error);
	rc = rc ? rc
		: labeled_expand(suite, secret, "key", context, sizeof(context), keys->key,
				 sizeof(keys->key), error);
	rc = rc ? rc
		: labeled_expand(suite, secret, "base_nonce", context, sizeof(context), keys->nonce,
				 sizeof(keys->nonce), error);
	sgpu_wipe(secret, sizeof(secret));
	return rc;
}

int sgpu_message_crypt(const struct sgpu_message_keys *keys, bool seal, const void *aad,
		       size_t aad_size, const uint8_t *in, size_t size, uint8_t *out,
		       struct sgpu_error *error)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	uint8_t *tag = seal ? out + size : (uint8_t *)(uintptr_t)in + size;
	int rc = SGPU_EDEVICE;

	if (context &&
	    EVP_CipherInit_ex2(context, EVP_aes_256_gcm(), keys->key, NULL, seal, NULL) == 1) {
		rc = sgpu_gcm_crypt(context, keys->nonce, seal, aad, aad_size, in, size, out, tag);
	}
	if (rc == SGPU_EAUTH) {
		sgpu_fail(error, rc, "cannot open the HPKE message: wrong key, or it was altered");
		ERR_clear_error();
	} else if (rc) {
		rc = sgpu_crypto_fail(error, "AES-256-GCM");
	}
	if (rc) {
		sgpu_wipe(out, size);
	}
	EVP_CIPHER_CTX_free(context);
	return rc;
}

/* Makes a message's keys for `receiver` from the secret that the key pair and `peer` agree on. */
static int agree(const uint8_t private_key[32], const uint8_t public_key[32],
		 const uint8_t peer[32], const uint8_t enc[32], const uint8_t receiver[32],
		 const void *info, size_t info_size, struct sgpu_message_keys *keys,
		 struct sgpu_error *error)
{
	uint8_t dh[32] = { 0 }, shared[32] = { 0 };
	int rc = sgpu_x25519(private_key, public_key, peer, dh, error);

	rc = rc ? rc : kem_secret(dh, enc, receiver, shared, error);
	rc = rc ? rc : key_schedule(shared, info, info_size, keys, error);
	sgpu_wipe(shared, sizeof(shared));
	sgpu_wipe(dh, sizeof(dh));
	return rc;
}

int sgpu_hpke_seal(const uint8_t public_key[32], const void *info, size_t info_size,
		   const void *aad, size_t aad_size, const uint8_t *plaintext, size_t size,
		   uint8_t enc[32], uint8_t *ciphertext, struct sgpu_error *error)
{
	uint8_t ephemeral[32] = { 0 };
	struct sgpu_message_keys keys = { { 0 }, { 0 } };
	int rc = sgpu_raw_generate("X25519", ephemeral, enc, error);
	rc = rc ? rc
		: agree(ephemeral, enc, public_key, enc, public_key, info, info_size, &keys, error);
	if (rc == SGPU_EAUTH) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "the recipient's X25519 public key has low order");
	}
	rc = rc ? rc
		: sgpu_message_crypt(&keys, true, aad, aad_size, plaintext, size, ciphertext,
				     error);
	sgpu_wipe(&keys, sizeof(keys));
	sgpu_wipe(ephemeral, sizeof(ephemeral));
	return rc;
}

int sgpu_hpke_open(const struct sgpu_key *key, const uint8_t enc[32], const void *info,
		   size_t info_size, const void *aad, size_t aad_size, const uint8_t *ciphertext,
		   size_t size, uint8_t *plaintext, struct sgpu_error *error)
{
	struct sgpu_message_keys keys = { { 0 }, { 0 } };
	int rc = SGPU_OK;

	if (key->kind != SGPU_KEY_X25519 || !key->secret_known) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "HPKE messages are opened with an X25519 private key");
	}
	if (size < SGPU_TAG_SIZE) {
		rc = sgpu_fail(error, SGPU_EAUTH,
			       "the HPKE message of %zu bytes is shorter than its tag", size);
	}
	rc = rc ? rc
		: agree(key->secret, key->public_half, enc, enc, key->public_half, info, info_size,
			&keys, error);
	rc = rc ? rc
		: sgpu_message_crypt(&keys, false, aad, aad_size, ciphertext, size - SGPU_TAG_SIZE,
				     plaintext, error);
	sgpu_wipe(&keys, sizeof(keys));
	return rc;
}
