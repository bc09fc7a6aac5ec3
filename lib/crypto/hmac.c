/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 and SHA-512, and HMAC with them (RFC 2104).
 */
#include <pthread.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "crypto/internal.h"

/* Contexts to be copied: looking up algorithms by name takes libcrypto as long as a short MAC. */
static EVP_MAC_CTX *keyless[2];

static void make_keyless(void)
{
	char digests[][8] = { "SHA256", "SHA512" };
	EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);

	for (size_t i = 0; algorithm && i < SGPU_ARRAY_LENGTH(digests); i++) {
		const OSSL_PARAM params[] = {
			OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digests[i], 0),
			OSSL_PARAM_construct_end(),
		};
		EVP_MAC_CTX *made = EVP_MAC_CTX_new(algorithm);

		if (made && EVP_MAC_CTX_set_params(made, params) == 1) {
			keyless[i] = made;
		} else {
			EVP_MAC_CTX_free(made);
		}
	}
	EVP_MAC_free(algorithm);
}

int sgpu_hmac_pieces(size_t mac_size, const uint8_t *key, size_t key_size,
		     const struct sgpu_piece *pieces, size_t count, uint8_t *mac,
		     struct sgpu_error *error)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	EVP_MAC_CTX *from, *context;
	size_t size = 0;
	bool done;

	pthread_once(&once, make_keyless);
	from = keyless[mac_size != SGPU_SHA256_SIZE];
	context = from ? EVP_MAC_CTX_dup(from) : NULL;
	done = context &&
	       EVP_MAC_init(context, key_size ? key : (const uint8_t *)"", key_size, NULL) == 1;
	for (size_t i = 0; i < count; i++) {
		done = done && (!pieces[i].size ||
				EVP_MAC_update(context, pieces[i].data, pieces[i].size) == 1);
	}
	done = done && EVP_MAC_final(context, mac, &size, mac_size) == 1 && size == mac_size;
	EVP_MAC_CTX_free(context);
	return done ? 0 : sgpu_crypto_fail(error, "HMAC");
}

int sgpu_hmac_sha256(const uint8_t *key, size_t key_size, const void *data, size_t size,
		     uint8_t mac[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	struct sgpu_piece piece = { .data = data, .size = size };

	return sgpu_hmac_pieces(SGPU_SHA256_SIZE, key, key_size, &piece, 1, mac, error);
}

static int hash(const EVP_MD *type, const void *data, size_t size, uint8_t *digest,
		struct sgpu_error *error)
{
	return EVP_Digest(size ? data : "", size, digest, NULL, type, NULL) == 1
		       ? 0
		       : sgpu_crypto_fail(error, "SHA-2");
}

int sgpu_sha256(const void *data, size_t size, uint8_t digest[SGPU_SHA256_SIZE],
		struct sgpu_error *error)
{
	return hash(EVP_sha256(), data, size, digest, error);
}

int sgpu_sha512(const void *data, size_t size, uint8_t digest[SGPU_SHA512_SIZE],
		struct sgpu_error *error)
{
	return hash(EVP_sha512(), data, size, digest, error);
}

bool sgpu_equal(const void *a, const void *b, size_t size)
{
	return !size || CRYPTO_memcmp(a, b, size) == 0;
}
