/* SPDX-License-Identifier: Apache-2.0
 *
 * X25519 (RFC 7748).
 */
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <sgpu/base.h>

#include "crypto/internal.h"

int sgpu_raw_generate(const char *type, uint8_t private_key[32], uint8_t public_key[32],
		      struct sgpu_error *error)
{
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, type);
	size_t private_size = 32, public_size = 32;
	int done = key && EVP_PKEY_get_raw_private_key(key, private_key, &private_size) == 1 &&
		   EVP_PKEY_get_raw_public_key(key, public_key, &public_size) == 1;

	EVP_PKEY_free(key);
	return done ? 0
		    : sgpu_crypto_fail(error, *type == 'X' ? "making an X25519 key"
							   : "making an Ed25519 key");
}

/* public_key NULL: it is derived. */
static EVP_PKEY *load_pair(const uint8_t private_key[32], const uint8_t *public_key)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PRIV_KEY, (void *)private_key,
						  32),
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)public_key, 32),
		OSSL_PARAM_construct_end(),
	};
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "X25519", NULL);
	EVP_PKEY *key = NULL;

	if (!public_key) {
		params[1] = params[2];
	}
	if (!context || EVP_PKEY_fromdata_init(context) != 1 ||
	    EVP_PKEY_fromdata(context, &key, EVP_PKEY_KEYPAIR, params) != 1) {
		key = NULL;
	}
	EVP_PKEY_CTX_free(context);
	return key;
}

int sgpu_x25519_check(const uint8_t public_key[32], struct sgpu_error *error)
{
	static const uint8_t scalar[32] = { 1 }; /* any will do: clamping clears its low bits */
	uint8_t shared[32];

	return sgpu_x25519(scalar, NULL, public_key, shared, error);
}

int sgpu_x25519(const uint8_t private_key[32], const uint8_t *public_key, const uint8_t peer[32],
		uint8_t shared[32], struct sgpu_error *error)
{
	static const uint8_t zero[32];
	EVP_PKEY *mine = load_pair(private_key, public_key);
	EVP_PKEY *theirs = EVP_PKEY_new_raw_public_key_ex(NULL, "X25519", NULL, peer, 32);
	EVP_PKEY_CTX *context =
		mine && theirs ? EVP_PKEY_CTX_new_from_pkey(NULL, mine, NULL) : NULL;
	size_t size = 32;
	int rc = SGPU_ESYSTEM;

	if (!context || EVP_PKEY_derive_init(context) != 1 ||
	    EVP_PKEY_derive_set_peer(context, theirs) != 1) {
		rc = sgpu_crypto_fail(error, "X25519");
		goto out;
	}
	/* libcrypto fails for an all-zero result; the comparison is for versions that may not. */
	if (EVP_PKEY_derive(context, shared, &size) != 1 || sgpu_equal(shared, zero, 32)) {
		ERR_clear_error();
		rc = sgpu_fail(error, SGPU_EAUTH, "the X25519 public key has low order");
		goto out;
	}
	rc = 0;
out:
	if (rc) {
		sgpu_wipe(shared, 32);
	}
	EVP_PKEY_CTX_free(context);
	EVP_PKEY_free(theirs);
	EVP_PKEY_free(mine);
	return rc;
}
