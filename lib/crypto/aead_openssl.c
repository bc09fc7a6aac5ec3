/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM by libcrypto: a context for each key, in which each message sets only the nonce.
 */
#include <openssl/err.h>
#include <openssl/evp.h>

#include "crypto/internal.h"

struct openssl_state {
	EVP_CIPHER_CTX *context;
};

enum { PIECE = 1 << 30, SEALING = 1, OPENING = 0 };

static const char *describe(void)
{
	return "openssl";
}

static int init(void *state, const uint8_t key[SGPU_KEY_SIZE])
{
	struct openssl_state *s = state;

	s->context = EVP_CIPHER_CTX_new();
	if (!s->context ||
	    EVP_CipherInit_ex2(s->context, EVP_aes_256_gcm(), key, NULL, SEALING, NULL) != 1) {
		ERR_clear_error();
		return SGPU_EDEVICE;
	}
	return 0;
}

static int copy(void *state, const void *from)
{
	struct openssl_state *s = state;
	const struct openssl_state *f = from;

	s->context = EVP_CIPHER_CTX_new();
	if (!s->context || EVP_CIPHER_CTX_copy(s->context, f->context) != 1) {
		ERR_clear_error();
		return SGPU_EDEVICE;
	}
	return 0;
}

static void clear(void *state)
{
	struct openssl_state *s = state;

	EVP_CIPHER_CTX_free(s->context);
	s->context = NULL;
}

/* Encrypts or decrypts a message, in pieces because libcrypto counts in int. */
static int transform(EVP_CIPHER_CTX *context, const uint8_t nonce[SGPU_NONCE_SIZE], int direction,
		     const uint8_t *in, size_t size, uint8_t *out)
{
	int part = 0;

	if (EVP_CipherInit_ex2(context, NULL, NULL, nonce, direction, NULL) != 1) {
		return SGPU_EDEVICE;
	}
	while (size > 0) {
		size_t piece = size < PIECE ? size : PIECE;
		if (EVP_CipherUpdate(context, out, &part, in, (int)piece) != 1 ||
		    (size_t)part != piece) {
			return SGPU_EDEVICE;
		}
		in += piece;
		out += piece;
		size -= piece;
	}
	return 0;
}

static int seal(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in, size_t size,
		uint8_t *out, uint8_t tag[SGPU_TAG_SIZE])
{
	EVP_CIPHER_CTX *context = ((struct openssl_state *)state)->context;
	uint8_t rest[SGPU_TAG_SIZE];
	int part = 0;

	if (transform(context, nonce, SEALING, in, size, out) ||
	    EVP_CipherFinal_ex(context, rest, &part) != 1 ||
	    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, SGPU_TAG_SIZE, tag) != 1) {
		ERR_clear_error();
		return SGPU_EDEVICE;
	}
	return 0;
}

static int open(void *state, const uint8_t nonce[SGPU_NONCE_SIZE], const uint8_t *in, size_t size,
		uint8_t *out, const uint8_t tag[SGPU_TAG_SIZE])
{
	EVP_CIPHER_CTX *context = ((struct openssl_state *)state)->context;
	uint8_t rest[SGPU_TAG_SIZE];
	int part = 0;

	if (transform(context, nonce, OPENING, in, size, out) ||
	    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, SGPU_TAG_SIZE, (void *)tag) != 1) {
		ERR_clear_error();
		return SGPU_EDEVICE;
	}
	if (EVP_CipherFinal_ex(context, rest, &part) != 1) {
		ERR_clear_error();
		return SGPU_EAUTH;
	}
	return 0;
}

const struct sgpu_aead_provider sgpu_aead_openssl = {
	.name = "openssl",
	.describe = describe,
	.state_size = sizeof(struct openssl_state),
	.init = init,
	.copy = copy,
	.clear = clear,
	.seal = seal,
	.open = open,
};
