/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM by libcrypto: a context for each key, in which each message sets only the nonce.
 */
#include <openssl/err.h>
#include <openssl/evp.h>

#include "crypto/internal.h"

enum { PIECE = 1 << 30 };

static const char *describe(void)
{
	return "openssl";
}

/* `state` is a pointer to the context. */
static int init(void *state, const uint8_t key[SGPU_KEY_SIZE])
{
	EVP_CIPHER_CTX **context = state;

	*context = EVP_CIPHER_CTX_new();
	if (!*context ||
	    EVP_CipherInit_ex2(*context, EVP_aes_256_gcm(), key, NULL, true, NULL) != 1) {
		ERR_clear_error();
		return SGPU_EDEVICE;
	}
	return 0;
}

static int copy(void *state, const void *from)
{
	EVP_CIPHER_CTX **context = state, *const *other = from;

	*context = EVP_CIPHER_CTX_new();
	if (!*context || EVP_CIPHER_CTX_copy(*context, *other) != 1) {
		ERR_clear_error();
		return SGPU_EDEVICE;
	}
	return 0;
}

static void clear(void *state)
{
	EVP_CIPHER_CTX **context = state;

	EVP_CIPHER_CTX_free(*context);
	*context = NULL;
}

int sgpu_gcm_crypt(EVP_CIPHER_CTX *context, const uint8_t nonce[SGPU_NONCE_SIZE], bool seal,
		   const void *aad, size_t aad_size, const uint8_t *in, size_t size, uint8_t *out,
		   uint8_t tag[SGPU_TAG_SIZE])
{
	uint8_t rest[SGPU_TAG_SIZE];
	int part = 0;
	bool ready = EVP_CipherInit_ex2(context, NULL, NULL, nonce, seal, NULL) == 1 &&
		     (!aad_size || EVP_CipherUpdate(context, NULL, &part, aad, (int)aad_size) == 1);

	/* in pieces, because libcrypto counts in int */
	for (size_t piece; ready && size > 0; in += piece, out += piece, size -= piece) {
		piece = size < PIECE ? size : PIECE;
		ready = EVP_CipherUpdate(context, out, &part, in, (int)piece) == 1 &&
			(size_t)part == piece;
	}
	ready = ready && (seal || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, SGPU_TAG_SIZE,
						      tag) == 1);
	if (!ready) {
		return SGPU_EDEVICE;
	}
	if (EVP_CipherFinal_ex(context, rest, &part) != 1) {
		return seal ? SGPU_EDEVICE : SGPU_EAUTH;
	}
	return !seal || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, SGPU_TAG_SIZE, tag) == 1
		       ? 0
		       : SGPU_EDEVICE;
}

static int seal(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in, size_t size,
		uint8_t *out, uint8_t tag[SGPU_TAG_SIZE])
{
	int rc =
		sgpu_gcm_crypt(*(EVP_CIPHER_CTX **)state, nonce, true, NULL, 0, in, size, out, tag);

	if (rc) {
		ERR_clear_error();
	}
	return rc;
}

static int open(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in, size_t size,
		uint8_t *out, const uint8_t tag[SGPU_TAG_SIZE])
{
	int rc = sgpu_gcm_crypt(*(EVP_CIPHER_CTX **)state, nonce, false, NULL, 0, in, size, out,
				(uint8_t *)(uintptr_t)tag);

	if (rc) {
		ERR_clear_error();
	}
	return rc;
}

const struct sgpu_aead_provider sgpu_aead_openssl = {
	.name = "openssl",
	.describe = describe,
	.state_size = sizeof(EVP_CIPHER_CTX *),
	.init = init,
	.copy = copy,
	.clear = clear,
	.seal = seal,
	.open = open,
};
