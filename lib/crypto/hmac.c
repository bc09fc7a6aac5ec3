/* SPDX-License-Identifier: Apache-2.0
 *
 * HMAC with SHA-256 (RFC 2104).
 */
#include <pthread.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "crypto/internal.h"

/* A context without a key. To look up algorithms by their names takes libcrypto as long as a short
 * MAC. */
static EVP_MAC_CTX *keyless;

static void make_keyless(void)
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *context = algorithm ? EVP_MAC_CTX_new(algorithm) : NULL;

	if (context && EVP_MAC_CTX_set_params(context, params) == 1) {
		keyless = context;
	} else {
		EVP_MAC_CTX_free(context);
	}
	EVP_MAC_free(algorithm);
}

int sgpu_hmac_sha256_pieces(const uint8_t *key, size_t key_size, const struct sgpu_piece *pieces,
			    size_t count, uint8_t mac[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	EVP_MAC_CTX *context;
	size_t size = 0;
	int code = SGPU_ESYSTEM;

	pthread_once(&once, make_keyless);
	context = keyless ? EVP_MAC_CTX_dup(keyless) : NULL;
	if (!context ||
	    EVP_MAC_init(context, key_size ? key : (const uint8_t *)"", key_size, NULL) != 1) {
		goto out;
	}
	for (size_t i = 0; i < count; i++) {
		if (pieces[i].size &&
		    EVP_MAC_update(context, pieces[i].data, pieces[i].size) != 1) {
			goto out;
		}
	}
	if (EVP_MAC_final(context, mac, &size, SGPU_SHA256_SIZE) != 1 || size != SGPU_SHA256_SIZE) {
		goto out;
	}
	code = 0;
out:
	EVP_MAC_CTX_free(context);
	return code ? sgpu_crypto_fail(error, "HMAC") : 0;
}

int sgpu_hmac_sha256(const uint8_t *key, size_t key_size, const void *data, size_t size,
		     uint8_t mac[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	struct sgpu_piece piece = { .data = data, .size = size };

	return sgpu_hmac_sha256_pieces(key, key_size, &piece, 1, mac, error);
}
