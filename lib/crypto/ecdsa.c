/* SPDX-License-Identifier: Apache-2.0
 *
 * The two forms of an ECDSA signature: r || s, big-endian, as JWS and processors have it, and DER,
 * as libcrypto has it.
 */
#include <openssl/ecdsa.h>
#include <openssl/err.h>

#include "crypto/internal.h"

enum { DER_MAX = 256 /* DER of two 48-byte numbers, and what a provider asks for */ };

bool sgpu_ecdsa_sign(EVP_MD_CTX *context, const void *data, size_t size, uint8_t *raw, int half)
{
	uint8_t der[DER_MAX];
	const uint8_t *next = der;
	size_t der_size = sizeof(der);
	ECDSA_SIG *parts = EVP_DigestSign(context, der, &der_size, data, size) == 1
				   ? d2i_ECDSA_SIG(NULL, &next, (long)der_size)
				   : NULL;
	bool done = parts && BN_bn2binpad(ECDSA_SIG_get0_r(parts), raw, half) == half &&
		    BN_bn2binpad(ECDSA_SIG_get0_s(parts), raw + half, half) == half;

	ECDSA_SIG_free(parts);
	return done;
}

/* Converts r || s to DER. Returns its size, or 0 if that fails. */
static int to_der(const uint8_t *raw, int half, uint8_t der[DER_MAX])
{
	ECDSA_SIG *parts = ECDSA_SIG_new();
	BIGNUM *r = BN_bin2bn(raw, half, NULL), *s = BN_bin2bn(raw + half, half, NULL);
	int size = 0;

	if (parts && r && s && ECDSA_SIG_set0(parts, r, s) == 1) {
		r = s = NULL;
		size = i2d_ECDSA_SIG(parts, NULL) <= DER_MAX ? i2d_ECDSA_SIG(parts, &der) : 0;
	}
	BN_free(r);
	BN_free(s);
	ECDSA_SIG_free(parts);
	return size;
}

bool sgpu_ecdsa_verifies(EVP_PKEY *key, const char *digest, const void *data, size_t size,
			 const uint8_t *raw, int half)
{
	uint8_t der[DER_MAX];
	int der_size = to_der(raw, half, der);
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool good = der_size > 0 && context &&
		    EVP_DigestVerifyInit_ex(context, NULL, digest, NULL, NULL, key, NULL) == 1 &&
		    EVP_DigestVerify(context, der, (size_t)der_size, data, size) == 1;

	EVP_MD_CTX_free(context);
	ERR_clear_error();
	return good;
}
