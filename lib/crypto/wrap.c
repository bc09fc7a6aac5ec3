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

/* Returns the bytes of `out`, 0 for a wrong key, or -1 after another failure. */
static int transform(const uint8_t kek[32], bool wrap, const uint8_t *in, int size,
		     uint8_t out[WRAPPED_SIZE])
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	int made = -1;

	if (context) {
		EVP_CIPHER_CTX_set_flags(context, EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
	}
	if (context &&
	    EVP_CipherInit_ex2(context, EVP_aes_256_wrap(), kek, NULL, wrap, NULL) == 1) {
		made = EVP_CipherUpdate(context, out, &made, in, size) == 1 ? made : 0;
	}
	EVP_CIPHER_CTX_free(context);
	return made;
}

int sgpu_wrap(const uint8_t kek[32], const uint8_t key[32], uint8_t wrapped[40],
	      struct sgpu_error *error)
{
	return transform(kek, true, key, SGPU_KEY_SIZE, wrapped) == WRAPPED_SIZE
		       ? 0
		       : sgpu_crypto_fail(error, "AES key wrap");
}

int sgpu_unwrap(const uint8_t kek[32], const uint8_t wrapped[40], uint8_t key[32],
		struct sgpu_error *error)
{
	/* libcrypto may write more of the output than it returns. */
	uint8_t out[WRAPPED_SIZE] = { 0 };
	const int made = transform(kek, false, wrapped, WRAPPED_SIZE, out);
	int rc = 0;

	if (made < 0) {
		return sgpu_crypto_fail(error, "AES key wrap");
	}
	if (made == SGPU_KEY_SIZE) {
		memcpy(key, out, SGPU_KEY_SIZE);
	} else {
		ERR_clear_error();
		sgpu_wipe(key, SGPU_KEY_SIZE);
		rc = sgpu_fail(error, SGPU_EAUTH,
			       "cannot unwrap the key: wrong key, or it was altered");
	}
	sgpu_wipe(out, sizeof(out));
	return rc;
}
