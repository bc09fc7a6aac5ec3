/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures and certificates of the makers of processors. Their chains are not of the strict profile that ours are:
 * leaves without key usage or key identifiers, RSA-PSS in one and ECDSA in the other.
 */

#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <sgpu/base.h>

#include "attest/internal.h"
#include "attest/verify/tsm_report.h"
#include "crypto/internal.h"

enum { DEPTH_MAX = 4, AUTH_LEVEL = 2 /* of libcrypto: 112 bits at least in every certificate */ };

bool sgpu_tsm_signed(EVP_PKEY *key, const char *digest, struct sgpu_bytes data, const uint8_t *signature, size_t half)
{
	ECDSA_SIG *parts = ECDSA_SIG_new();
	BIGNUM *r = BN_bin2bn(signature, (int)half, NULL), *s = BN_bin2bn(signature + half, (int)half, NULL);
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	unsigned char *der = NULL;
	int size = 0;
	bool good = false;

	if (parts && r && s && ECDSA_SIG_set0(parts, r, s) == 1) {
		r = s = NULL;
		size = i2d_ECDSA_SIG(parts, &der);
	}
	if (size > 0 && context && EVP_DigestVerifyInit_ex(context, NULL, digest, NULL, NULL, key, NULL) == 1) {
		good = EVP_DigestVerify(context, der, (size_t)size, data.data, data.size) == 1;
	}
	ERR_clear_error();
	OPENSSL_free(der);
	EVP_MD_CTX_free(context);
	BN_free(r);
	BN_free(s);
	ECDSA_SIG_free(parts);
	return good;
}

static int add_roots(X509_STORE *store, const struct sgpu_chain *roots, struct sgpu_error *error)
{
	for (int i = 0; i < roots->count; i++) {
		X509 *root = sgpu_certificate_parse(roots->der[i], roots->size[i]);
		int done = root && X509_STORE_add_cert(store, root) == 1;

		X509_free(root);
		if (!done) {
			return sgpu_fail(error, SGPU_ECHAIN, "root %d for TEE reports is malformed", i + 1);
		}
	}
	return SGPU_OK;
}

static int fail_chain(X509_STORE_CTX *context, const char *what, struct sgpu_error *error)
{
	int reason = X509_STORE_CTX_get_error(context), depth = X509_STORE_CTX_get_error_depth(context);
	bool expired = reason == X509_V_ERR_CERT_HAS_EXPIRED || reason == X509_V_ERR_CERT_NOT_YET_VALID;

	ERR_clear_error();
	return sgpu_fail(error, expired ? SGPU_EEXPIRED : SGPU_ECHAIN, "certificate %d of the %s's chain: %s",
			 depth + 1,
			 what, X509_verify_cert_error_string(reason));
}

/* The self-signed root itself must be among the trusted ones: no partial chains. */
int sgpu_tsm_chain(X509 *leaf, STACK_OF(X509) *others, const struct sgpu_tsm_trust *trust, const char *what,
		   struct sgpu_error *error)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	int rc = store && context ? SGPU_OK : sgpu_fail_nomem(error);

	if (rc == SGPU_OK && (!trust->roots || !trust->roots->count)) {
		rc = sgpu_fail(error, SGPU_ECHAIN, "there is no trusted root for TEE reports");
	}
	if (rc == SGPU_OK) {
		rc = add_roots(store, trust->roots, error);
	}
	if (rc == SGPU_OK && X509_STORE_CTX_init(context, store, leaf, others) != 1) {
		rc = sgpu_crypto_fail(error, "preparing the verification of certificates");
	}
	if (rc == SGPU_OK) {
		X509_VERIFY_PARAM *parameters = X509_STORE_CTX_get0_param(context);

		X509_VERIFY_PARAM_set_time(parameters, (time_t)trust->now);
		X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_CHECK_SS_SIGNATURE);
		X509_VERIFY_PARAM_set_auth_level(parameters, AUTH_LEVEL);
		X509_VERIFY_PARAM_set_depth(parameters, DEPTH_MAX);
		if (X509_verify_cert(context) != 1) {
			rc = fail_chain(context, what, error);
		}
	}
	X509_STORE_CTX_free(context);
	X509_STORE_free(store);
	return rc;
}
