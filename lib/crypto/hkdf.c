/* SPDX-License-Identifier: Apache-2.0
 *
 * HKDF (RFC 5869).
 */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <sgpu/base.h>

#include "crypto/internal.h"

enum { SHA512_SIZE = 64, ROUNDS_MAX = 255 };

/* libcrypto takes no empty key, but an empty salt is one digest of zeros: with it, extract is an HMAC. */
static int expand(const char *hash, const uint8_t *prk, size_t prk_size, const void *info, size_t info_size,
		  uint8_t *out, size_t size, struct sgpu_error *error)
{
	int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)hash, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)prk, prk_size),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info_size ? (void *)info : "", info_size),
		OSSL_PARAM_construct_end(),
	};
	EVP_KDF *algorithm = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *context = algorithm ? EVP_KDF_CTX_new(algorithm) : NULL;
	int done = context && EVP_KDF_derive(context, out, size, params) == 1;

	EVP_KDF_CTX_free(context);
	EVP_KDF_free(algorithm);
	return done ? 0 : sgpu_crypto_fail(error, "HKDF");
}

static int check_size(size_t size, size_t digest_size, struct sgpu_error *error)
{
	if (size > ROUNDS_MAX * digest_size) {
		return sgpu_fail(error, SGPU_EUSAGE, "HKDF yields at most %zu bytes, not %zu",
				 ROUNDS_MAX * digest_size, size);
	}
	return 0;
}

int sgpu_hkdf_expand_sha256(const uint8_t *prk, size_t prk_size, const void *info, size_t info_size, uint8_t *out,
			    size_t size, struct sgpu_error *error)
{
	int code = check_size(size, SGPU_SHA256_SIZE, error);

	if (code || size == 0) {
		return code;
	}
	return expand("SHA256", prk, prk_size, info, info_size, out, size, error);
}

int sgpu_hkdf_expand_sha512(const uint8_t *prk, size_t prk_size, const void *info, size_t info_size, uint8_t *out,
			    size_t size, struct sgpu_error *error)
{
	int code = check_size(size, SHA512_SIZE, error);

	if (code || size == 0) {
		return code;
	}
	return expand("SHA512", prk, prk_size, info, info_size, out, size, error);
}

int sgpu_hkdf_sha256(const uint8_t *ikm, size_t ikm_size, const void *salt, size_t salt_size, const void *info,
		     size_t info_size, uint8_t *out, size_t size, struct sgpu_error *error)
{
	static const uint8_t no_salt[SGPU_SHA256_SIZE];
	uint8_t prk[SGPU_SHA256_SIZE] = { 0 };
	int code = salt_size ? sgpu_hmac_sha256(salt, salt_size, ikm, ikm_size, prk, error)
			     : sgpu_hmac_sha256(no_salt, sizeof(no_salt), ikm, ikm_size, prk, error);

	if (!code) {
		code = sgpu_hkdf_expand_sha256(prk, sizeof(prk), info, info_size, out, size, error);
	}
	sgpu_wipe(prk, sizeof(prk));
	return code;
}
