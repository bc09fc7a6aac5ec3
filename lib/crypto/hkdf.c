/* SPDX-License-Identifier: Apache-2.0
 *
 * HKDF (RFC 5869).
 */
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <sgpu/base.h>

#include "crypto/internal.h"

enum { SHA512_SIZE = 64, ROUNDS_MAX = 255 };

static int check_size(size_t size, size_t digest_size, struct sgpu_error *error)
{
	if (size > ROUNDS_MAX * digest_size) {
		return sgpu_fail(error, SGPU_EUSAGE, "HKDF yields at most %zu bytes, not %zu",
				 ROUNDS_MAX * digest_size, size);
	}
	return 0;
}

/* By our own HMAC, which looks up no algorithm by its name. */
int sgpu_hkdf_expand_sha256(const uint8_t *prk, size_t prk_size, const void *info, size_t info_size,
			    uint8_t *out, size_t size, struct sgpu_error *error)
{
	uint8_t block[SGPU_SHA256_SIZE] = { 0 };
	int code = check_size(size, SGPU_SHA256_SIZE, error);

	for (uint8_t i = 1; code == SGPU_OK && size > 0; i++) {
		const struct sgpu_piece pieces[] = { { block, i > 1 ? sizeof(block) : 0 },
						     { info, info_size },
						     { &i, 1 } };
		const size_t part = size < sizeof(block) ? size : sizeof(block);

		code = sgpu_hmac_sha256_pieces(prk, prk_size, pieces, SGPU_ARRAY_LENGTH(pieces),
					       block, error);
		if (code == SGPU_OK) {
			memcpy(out, block, part);
			out += part;
			size -= part;
		}
	}
	sgpu_wipe(block, sizeof(block));
	return code;
}

/* prk_size is not 0: libcrypto takes no empty key. */
int sgpu_hkdf_expand_sha512(const uint8_t *prk, size_t prk_size, const void *info, size_t info_size,
			    uint8_t *out, size_t size, struct sgpu_error *error)
{
	char hash[] = "SHA512";
	int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, hash, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)prk, prk_size),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO,
						  info_size ? (void *)info : "", info_size),
		OSSL_PARAM_construct_end(),
	};
	EVP_KDF *algorithm;
	EVP_KDF_CTX *context;
	int done, code = check_size(size, SHA512_SIZE, error);

	if (code || size == 0) {
		return code;
	}
	algorithm = EVP_KDF_fetch(NULL, "HKDF", NULL);
	context = algorithm ? EVP_KDF_CTX_new(algorithm) : NULL;
	done = context && EVP_KDF_derive(context, out, size, params) == 1;
	EVP_KDF_CTX_free(context);
	EVP_KDF_free(algorithm);
	return done ? 0 : sgpu_crypto_fail(error, "HKDF");
}

int sgpu_hkdf_sha256(const uint8_t *ikm, size_t ikm_size, const void *salt, size_t salt_size,
		     const void *info, size_t info_size, uint8_t *out, size_t size,
		     struct sgpu_error *error)
{
	static const uint8_t no_salt[SGPU_SHA256_SIZE];
	uint8_t prk[SGPU_SHA256_SIZE] = { 0 };
	int code = salt_size
			   ? sgpu_hmac_sha256(salt, salt_size, ikm, ikm_size, prk, error)
			   : sgpu_hmac_sha256(no_salt, sizeof(no_salt), ikm, ikm_size, prk, error);

	if (!code) {
		code = sgpu_hkdf_expand_sha256(prk, sizeof(prk), info, info_size, out, size, error);
	}
	sgpu_wipe(prk, sizeof(prk));
	return code;
}
