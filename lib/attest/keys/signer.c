/* SPDX-License-Identifier: Apache-2.0
 *
 * Private keys on P-384, in memory or in a TPM 2.0: making them, using them, naming them.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <sgpu/base.h>

#include "attest/internal.h"
#include "crypto/internal.h"

bool sgpu_is_p384(const EVP_PKEY *key)
{
	char group[32] = "";
	size_t length = 0;
	int is_explicit = 0;

	if (!EVP_PKEY_is_a(key, "EC") ||
	    EVP_PKEY_get_group_name(key, group, sizeof(group), &length) != 1) {
		ERR_clear_error();
		return false;
	}
	/* A curve with explicit parameters may differ from the named one. A key in a TPM has no
	 * such parameter. */
	if (EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS,
				   &is_explicit) != 1) {
		ERR_clear_error();
	}
	return !is_explicit && (!strcmp(group, "secp384r1") || !strcmp(group, "P-384"));
}

int sgpu_sha512(const void *data, size_t size, uint8_t digest[SGPU_SHA512_SIZE],
		struct sgpu_error *error)
{
	return EVP_Digest(size ? data : "", size, digest, NULL, EVP_sha512(), NULL) == 1
		       ? 0
		       : sgpu_crypto_fail(error, "SHA-512");
}

int sgpu_key_fingerprint(EVP_PKEY *key, uint8_t hash[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	unsigned char *der = NULL;

	/* One key has one: it may have been read from a short form of its point. A key in a TPM has
	 * no other form. */
	(void)EVP_PKEY_set_utf8_string_param(key, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT,
					     "uncompressed");
	ERR_clear_error();
	int size = i2d_PUBKEY(key, &der);

	if (size <= 0) {
		return sgpu_crypto_fail(error, "encoding a public key");
	}
	int code = sgpu_sha256(der, (size_t)size, hash, error);
	OPENSSL_free(der);
	return code;
}

static int generate(EVP_PKEY **key, struct sgpu_error *error)
{
	/* In memory even where the TPM's provider was loaded before. */
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", "provider!=tpm2");
	int done = context && EVP_PKEY_keygen_init(context) == 1 &&
		   EVP_PKEY_CTX_set_group_name(context, "P-384") == 1 &&
		   EVP_PKEY_generate(context, key) == 1;

	EVP_PKEY_CTX_free(context);
	return done ? 0 : sgpu_crypto_fail(error, "making a P-384 key");
}

int sgpu_signer_generate(bool tpm, struct sgpu_signer **signer, struct sgpu_error *error)
{
	struct sgpu_signer *made = calloc(1, sizeof(*made));

	*signer = NULL;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->in_tpm = tpm;
	int code = tpm ? sgpu_tpm_generate(&made->key, error) : generate(&made->key, error);
	if (code) {
		sgpu_signer_free(&made);
		return code;
	}
	*signer = made;
	return 0;
}

void sgpu_signer_free(struct sgpu_signer **signer)
{
	if (signer && *signer) {
		EVP_PKEY_free((*signer)->key);
		free(*signer);
		*signer = NULL;
	}
}

bool sgpu_signer_in_tpm(const struct sgpu_signer *signer)
{
	return signer->in_tpm;
}

int sgpu_bio_text(BIO *bio, char **text, size_t *size, struct sgpu_error *error)
{
	char *data = NULL;
	long length = BIO_get_mem_data(bio, &data);

	*text = length > 0 ? malloc((size_t)length + 1) : NULL;
	if (!*text) {
		return sgpu_fail_nomem(error);
	}
	memcpy(*text, data, (size_t)length);
	(*text)[length] = '\0';
	*size = (size_t)length;
	sgpu_wipe(data, (size_t)length);
	return 0;
}

int sgpu_signer_private_pem(const struct sgpu_signer *signer, char **pem, size_t *size,
			    struct sgpu_error *error)
{
	BIO *bio = BIO_new(BIO_s_secmem());

	*pem = NULL;
	*size = 0;
	int code = bio && PEM_write_bio_PrivateKey(bio, signer->key, NULL, NULL, 0, NULL, NULL) == 1
			   ? sgpu_bio_text(bio, pem, size, error)
			   : sgpu_crypto_fail(error, "writing a private key");
	BIO_free(bio);
	return code;
}

int sgpu_signer_fingerprint(const struct sgpu_signer *signer, uint8_t hash[SGPU_SHA256_SIZE],
			    struct sgpu_error *error)
{
	return sgpu_key_fingerprint(signer->key, hash, error);
}

EVP_MD_CTX *sgpu_signer_context(const struct sgpu_signer *signer)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();

	if (context && EVP_DigestSignInit_ex(context, NULL, "SHA384", NULL,
					     signer->in_tpm ? SGPU_TPM_PROPERTIES : NULL,
					     signer->key, NULL) != 1) {
		EVP_MD_CTX_free(context);
		context = NULL;
	}
	return context;
}

int sgpu_signer_sign(const struct sgpu_signer *signer, const void *data, size_t size,
		     uint8_t signature[SGPU_ES384_SIZE], struct sgpu_error *error)
{
	EVP_MD_CTX *context = sgpu_signer_context(signer);
	uint8_t der[256];
	size_t der_size = sizeof(der);
	/* RFC 7518, section 3.4 */
	bool done = context && EVP_DigestSign(context, der, &der_size, data, size) == 1 &&
		    sgpu_ecdsa_raw(der, der_size, signature, SGPU_ES384_SIZE / 2);

	EVP_MD_CTX_free(context);
	return done ? 0 : sgpu_crypto_fail(error, "ECDSA");
}
