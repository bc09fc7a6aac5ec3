/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256 key wrap (RFC 3394) of 32-byte keys.
 */
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>

#include <sgpu/base.h>

#include "crypto/internal.h"

enum { WRAPPED_SIZE = SGPU_KEY_SIZE + 8 };

static EVP_CIPHER_CTX *wrap_context(const uint8_t kek[32], int wrapping)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();

	if (!context) {
		return NULL;
	}
	EVP_CIPHER_CTX_set_flags(context, EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
	if (EVP_CipherInit_ex2(context, EVP_aes_256_wrap(), kek, NULL, wrapping, NULL) != 1) {
		EVP_CIPHER_CTX_free(context);
		return NULL;
	}
	return context;
}

int sgpu_wrap(const uint8_t kek[32], const uint8_t key[32], uint8_t wrapped[40],
	      struct sgpu_error *error)
{
	EVP_CIPHER_CTX *context = wrap_context(kek, 1);
	int size = 0;
	int done = context && EVP_CipherUpdate(context, wrapped, &size, key, SGPU_KEY_SIZE) == 1 &&
		   size == WRAPPED_SIZE;

	EVP_CIPHER_CTX_free(context);
	return done ? 0 : sgpu_crypto_fail(error, "AES key wrap");
}

int sgpu_unwrap(const uint8_t kek[32], const uint8_t wrapped[40], uint8_t key[32],
		struct sgpu_error *error)
{
	EVP_CIPHER_CTX *context = wrap_context(kek, 0);
	/* libcrypto may write more of the output than it returns. */
	uint8_t out[WRAPPED_SIZE] = { 0 };
	int size = 0, rc = 0;

	if (!context) {
		return sgpu_crypto_fail(error, "AES key wrap");
	}
	if (EVP_CipherUpdate(context, out, &size, wrapped, WRAPPED_SIZE) == 1 &&
	    size == SGPU_KEY_SIZE) {
		memcpy(key, out, SGPU_KEY_SIZE);
	} else {
		ERR_clear_error();
		sgpu_wipe(key, SGPU_KEY_SIZE);
		rc = sgpu_fail(error, SGPU_EAUTH,
			       "cannot unwrap the key: wrong key, or it was altered");
	}
	sgpu_wipe(out, sizeof(out));
	EVP_CIPHER_CTX_free(context);
	return rc;
}
