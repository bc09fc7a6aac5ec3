/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures: Ed25519 (RFC 8032), and ECDSA on P-256 with SHA-256 as JWS has it, r || s (RFC 7518,
 * section 3.4).
 */
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <sgpu/base.h>

#include "crypto/internal.h"
#include "crypto/key.h"

enum {
	POINT_SIZE = 65,
	DER_MAX = 256, /* DER of two 48-byte numbers, and what a provider asks for */
};

EVP_PKEY *sgpu_p256_key(const uint8_t public_half[64], const uint8_t *secret)
{
	char group[] = "P-256";
	uint8_t point[POINT_SIZE] = { POINT_CONVERSION_UNCOMPRESSED }, native[32];
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	BIGNUM *number = secret ? BN_bin2bn(secret, sizeof(native), NULL) : NULL;
	EVP_PKEY *made = NULL;
	OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)),
		OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_PRIV_KEY, native, sizeof(native)),
		OSSL_PARAM_construct_end(),
	};

	memcpy(point + 1, public_half, sizeof(point) - 1);
	if (!secret) {
		parameters[2] = parameters[3];
	}
	if (context && EVP_PKEY_fromdata_init(context) == 1 &&
	    (!secret || (number && BN_bn2nativepad(number, native, sizeof(native)) > 0))) {
		(void)EVP_PKEY_fromdata(context, &made,
					secret ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY,
					parameters);
	}
	sgpu_wipe(native, sizeof(native));
	BN_clear_free(number);
	EVP_PKEY_CTX_free(context);
	return made;
}

/* Makes libcrypto's form of the key, also of an X25519 key; NULL also for a point off its curve. */
static EVP_PKEY *load(const struct sgpu_key *key)
{
	const char *type = sgpu_key_name(key->kind);

	if (key->kind == SGPU_KEY_P256) {
		return sgpu_p256_key(key->public_half, key->secret_known ? key->secret : NULL);
	}
	return key->secret_known
		       ? EVP_PKEY_new_raw_private_key_ex(NULL, type, NULL, key->secret, 32)
		       : EVP_PKEY_new_raw_public_key_ex(NULL, type, NULL, key->public_half, 32);
}

/* Under a key of small order anybody can sign most messages. The points are listed by y; both signs
 * of x and encodings that are not reduced are refused (RFC 8032, sections 5.1.3 and 8.9). */
static bool has_small_order(const uint8_t point[32])
{
	static const uint8_t points[][32] = {
		{ 0x00 },
		{ 0x01 },
		{ 0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4,
		  0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6,
		  0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05 },
		{ 0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b,
		  0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39,
		  0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a },
	};
	static const uint8_t last[] = { 0xec, 0xed,
					0xee }; /* low bytes of p - 1, p, p + 1; the rest is ones */
	uint8_t y[32];
	bool ones = true;

	memcpy(y, point, sizeof(y));
	y[31] &= 0x7f;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		if (!memcmp(y, points[i], sizeof(y))) {
			return true;
		}
	}
	for (int i = 1; i < 31; i++) {
		ones = ones && y[i] == 0xff;
	}
	return ones && y[31] == 0x7f && memchr(last, y[0], sizeof(last));
}

static bool belongs(const struct sgpu_key *key, EVP_PKEY *loaded)
{
	uint8_t derived[32] = { 0 };
	size_t size = sizeof(derived);

	if (key->kind == SGPU_KEY_P256) {
		EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, loaded, NULL);
		bool good = context && EVP_PKEY_public_check(context) == 1 &&
			    (!key->secret_known || EVP_PKEY_pairwise_check(context) == 1);
		EVP_PKEY_CTX_free(context);
		return good;
	}
	return EVP_PKEY_get_raw_public_key(loaded, derived, &size) == 1 &&
	       sgpu_equal(derived, key->public_half, sizeof(derived));
}

int sgpu_key_check(const struct sgpu_key *key, struct sgpu_error *error)
{
	if (key->kind == SGPU_KEY_OCT) {
		return 0;
	}
	EVP_PKEY *loaded = load(key);
	bool good = loaded && belongs(key, loaded);

	EVP_PKEY_free(loaded);
	ERR_clear_error();
	if (key->kind == SGPU_KEY_ED25519 && has_small_order(key->public_half)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "it is a point of small order, under which anybody can sign");
	}
	if (key->kind == SGPU_KEY_X25519 && sgpu_x25519_check(key->public_half, error)) {
		return sgpu_fail(
			error, SGPU_EINVALID,
			"'x' is a point of low order: anybody can open what is sealed to it");
	}
	if (good) {
		return 0;
	}
	return key->secret_known
		       ? sgpu_fail(error, SGPU_EINVALID, "its public half is not the one of 'd'")
		       : sgpu_fail(error, SGPU_EINVALID, "it is not a point of its curve");
}

/* ---- the two forms of an ECDSA signature: r || s, and DER, as libcrypto has it ---- */
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

/* 0 if that fails. */
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

/* ---- signing and verifying ---- */
int sgpu_signing_sign(const struct sgpu_key *key, const void *data, size_t size,
		      uint8_t signature[SGPU_SIGNATURE_SIZE], struct sgpu_error *error)
{
	const bool ec = key->kind == SGPU_KEY_P256; /* Ed25519 needs no digest */
	size_t made = SGPU_SIGNATURE_SIZE;

	if (!key->secret_known) {
		return sgpu_fail(error, SGPU_EKEY, "the key '%s' cannot sign: it is a public half",
				 key->kid);
	}
	EVP_PKEY *loaded = load(key);
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool done = loaded && context &&
		    EVP_DigestSignInit_ex(context, NULL, ec ? "SHA256" : NULL, NULL, NULL, loaded,
					  NULL) == 1 &&
		    (ec ? sgpu_ecdsa_sign(context, data, size, signature, SGPU_SIGNATURE_SIZE / 2)
			: EVP_DigestSign(context, signature, &made, data, size) == 1);
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(loaded);
	return done ? 0 : sgpu_crypto_fail(error, "signing");
}

int sgpu_signing_verify(const struct sgpu_key *key, const void *data, size_t size,
			const uint8_t signature[SGPU_SIGNATURE_SIZE], struct sgpu_error *error)
{
	struct sgpu_key public_key;
	int rc = key->kind == SGPU_KEY_NONE
			 ? sgpu_fail(error, SGPU_EINVALID,
				     "there is no key to verify a signature with")
			 : sgpu_key_public(key, &public_key, error);

	if (rc) {
		return rc;
	}
	EVP_PKEY *loaded = load(&public_key);
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool good = loaded && context &&
		    (key->kind == SGPU_KEY_P256
			     ? sgpu_ecdsa_verifies(loaded, "SHA256", data, size, signature,
						   SGPU_SIGNATURE_SIZE / 2)
			     : EVP_DigestVerifyInit_ex(context, NULL, NULL, NULL, NULL, loaded,
						       NULL) == 1 &&
				       EVP_DigestVerify(context, signature, SGPU_SIGNATURE_SIZE,
							data, size) == 1);
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(loaded);
	ERR_clear_error();
	return good ? 0
		    : sgpu_fail(error, SGPU_EAUTH, "the signature of '%s' does not verify",
				key->kid);
}
