/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256.
 */
#include <stdlib.h>

#include <openssl/evp.h>

#include "crypto/internal.h"

struct sgpu_sha256 {
	EVP_MD_CTX *context;
};

int sgpu_sha256(const void *data, size_t size, uint8_t digest[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	if (EVP_Digest(size ? data : "", size, digest, NULL, EVP_sha256(), NULL) != 1) {
		return sgpu_crypto_fail(error, "SHA-256");
	}
	return 0;
}

int sgpu_sha256_create(struct sgpu_sha256 **state, struct sgpu_error *error)
{
	struct sgpu_sha256 *made = calloc(1, sizeof(*made));

	*state = NULL;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->context = EVP_MD_CTX_new();
	if (!made->context || EVP_DigestInit_ex2(made->context, EVP_sha256(), NULL) != 1) {
		sgpu_sha256_free(&made);
		return sgpu_crypto_fail(error, "SHA-256");
	}
	*state = made;
	return 0;
}

int sgpu_sha256_update(struct sgpu_sha256 *state, const void *data, size_t size, struct sgpu_error *error)
{
	if (EVP_DigestUpdate(state->context, data, size) != 1) {
		return sgpu_crypto_fail(error, "SHA-256");
	}
	return 0;
}

int sgpu_sha256_finish(struct sgpu_sha256 *state, uint8_t digest[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	if (EVP_DigestFinal_ex(state->context, digest, NULL) != 1) {
		return sgpu_crypto_fail(error, "SHA-256");
	}
	return 0;
}

void sgpu_sha256_free(struct sgpu_sha256 **state)
{
	if (state && *state) {
		EVP_MD_CTX_free((*state)->context);
		free(*state);
		*state = NULL;
	}
}
