/* SPDX-License-Identifier: Apache-2.0
 *
 * Private keys on P-384, in memory or in a TPM 2.0.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/decoder.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/provider.h>

#include <sgpu/base.h>

#include "attest/internal.h"
#include "crypto/internal.h"
#include "crypto/key.h"

/* ---- keys in a TPM 2.0, by OpenSSL's provider "tpm2" (package tpm2-openssl), loaded only for such
 * a key; TSS2_LOG=all+NONE in the environment silences its library ---- */
/* Unless the provider is named, OpenSSL signs with the default one, which has no private half. */
static const char tpm_properties[] = "?provider=tpm2";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static OSSL_PROVIDER *standard, *loaded;

/* The message is ours: the provider's own error texts may be missing. */
static int unavailable(struct sgpu_error *error, const char *what)
{
	unsigned long reason = ERR_peek_error();
	const char *text = reason ? ERR_reason_error_string(reason) : NULL;

	(void)sgpu_fail(error, SGPU_EUNAVAILABLE, "%s%s%s", what, text ? ": " : "",
			text ? text : "");
	ERR_clear_error();
	(void)sgpu_hint(
		error, "this needs the package tpm2-openssl and a TPM 2.0 that this user may open; "
		       "TPM2OPENSSL_TCTI names another one, as in 'device:/dev/tpmrm0'");
	return SGPU_EUNAVAILABLE;
}

/* Loading a provider by name switches the default one off, so that is loaded by name, too. Both
 * stay until the process ends, since keys refer to them. */
static int load_provider(struct sgpu_error *error)
{
	int rc = SGPU_OK;

	pthread_mutex_lock(&lock);
	if (!loaded) {
		standard = standard ? standard : OSSL_PROVIDER_load(NULL, "default");
		loaded = standard ? OSSL_PROVIDER_load(NULL, "tpm2") : NULL;
		if (!standard) {
			rc = unavailable(error, "OpenSSL does not load its default provider");
		} else if (!loaded) {
			rc = unavailable(error, "OpenSSL does not load its provider 'tpm2'");
		}
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* ---- keys ---- */
bool sgpu_is_on_curve(const EVP_PKEY *key, const char *name, const char *other)
{
	char group[32] = "";
	size_t length = 0;
	int is_explicit = 0;

	if (!key || !EVP_PKEY_is_a(key, "EC") ||
	    EVP_PKEY_get_group_name(key, group, sizeof(group), &length) != 1) {
		ERR_clear_error();
		return false;
	}
	/* A curve with explicit parameters may differ from the named one. A TPM's key has none. */
	if (EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS,
				   &is_explicit) != 1) {
		ERR_clear_error();
	}
	return !is_explicit && (!strcmp(group, name) || !strcmp(group, other));
}

int sgpu_key_fingerprint(EVP_PKEY *key, uint8_t hash[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	unsigned char *der = NULL;

	/* A key has one name, even if read from a compressed point. A TPM's key has only one. */
	(void)EVP_PKEY_set_utf8_string_param(key, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT,
					     "uncompressed");
	ERR_clear_error();
	int size = i2d_PUBKEY(key, &der);

	if (size <= 0) {
		return sgpu_crypto_fail(error, "encoding a public key");
	}
	int rc = sgpu_sha256(der, (size_t)size, hash, error);
	OPENSSL_free(der);
	return rc;
}

int sgpu_signer_generate(bool tpm, struct sgpu_signer **signer, struct sgpu_error *error)
{
	*signer = calloc(1, sizeof(**signer));
	if (!*signer) {
		return sgpu_fail_nomem(error);
	}
	(*signer)->in_tpm = tpm;
	int rc = tpm ? load_provider(error) : SGPU_OK;
	if (!rc) {
		/* In memory even if the TPM's provider was loaded before. */
		(*signer)->key = EVP_PKEY_Q_keygen(NULL, tpm ? "provider=tpm2" : "provider!=tpm2",
						   "EC", "P-384");
	}
	if (!rc && !(*signer)->key) {
		rc = tpm ? unavailable(error, "the TPM makes no signing key on P-384")
			 : sgpu_crypto_fail(error, "making a P-384 key");
	}
	if (rc) {
		sgpu_signer_free(signer);
	}
	return rc;
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
	int rc = bio && PEM_write_bio_PrivateKey(bio, signer->key, NULL, NULL, 0, NULL, NULL) == 1
			 ? sgpu_bio_text(bio, pem, size, error)
			 : sgpu_crypto_fail(error, "writing a private key");
	BIO_free(bio);
	return rc;
}

int sgpu_signer_fingerprint(const struct sgpu_signer *signer, uint8_t hash[SGPU_SHA256_SIZE],
			    struct sgpu_error *error)
{
	return sgpu_key_fingerprint(signer->key, hash, error);
}

EVP_MD_CTX *sgpu_signer_context(const struct sgpu_signer *signer)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();

	if (context &&
	    EVP_DigestSignInit_ex(context, NULL, "SHA384", NULL,
				  signer->in_tpm ? tpm_properties : NULL, signer->key, NULL) != 1) {
		EVP_MD_CTX_free(context);
		context = NULL;
	}
	return context;
}

/* ---- PEM files: the first line tells the kind, so that a TPM is used only if needed ---- */
static const char plain_mark[] = "-----BEGIN PRIVATE KEY-----";
static const char tpm_mark[] = "-----BEGIN TSS2 PRIVATE KEY-----";

static int refuse_other(const char *name, const char *text, struct sgpu_error *error)
{
	const bool is_private = strstr(text, " PRIVATE KEY-----");

	(void)sgpu_fail(error, SGPU_EINVALID,
			is_private ? "private key '%s' is not in PKCS#8, or is encrypted"
				   : "'%s' is no private key in PEM",
			name);
	return is_private ? sgpu_hint(error, "openssl pkcs8 -topk8 -nocrypt -in '%s' writes it so",
				      name)
			  : SGPU_EINVALID;
}

static int decode(const char *name, const char *text, size_t size, struct sgpu_signer *signer,
		  struct sgpu_error *error)
{
	const unsigned char *data = (const unsigned char *)text;
	OSSL_DECODER_CTX *context =
		OSSL_DECODER_CTX_new_for_pkey(&signer->key, "PEM", NULL, "EC", EVP_PKEY_KEYPAIR,
					      NULL, signer->in_tpm ? "provider=tpm2" : NULL);
	int done = context && OSSL_DECODER_from_data(context, &data, &size) == 1;

	OSSL_DECODER_CTX_free(context);
	if (!done) {
		ERR_clear_error();
		return sgpu_fail(error, SGPU_EINVALID,
				 signer->in_tpm ? "private key '%s' cannot be loaded into this TPM"
						: "private key '%s' cannot be read, or is no key "
						  "on an elliptic curve",
				 name);
	}
	if (!sgpu_is_p384(signer->key)) {
		return sgpu_fail(error, SGPU_EINVALID, "private key '%s' is not on the curve P-384",
				 name);
	}
	return 0;
}

static int check_pair(const char *name, const struct sgpu_signer *signer, struct sgpu_error *error)
{
	EVP_PKEY_CTX *context =
		signer->in_tpm ? NULL : EVP_PKEY_CTX_new_from_pkey(NULL, signer->key, NULL);
	bool done = signer->in_tpm || (context && EVP_PKEY_check(context) == 1);

	EVP_PKEY_CTX_free(context);
	ERR_clear_error();
	return done ? 0
		    : sgpu_fail(error, SGPU_EINVALID,
				"private key '%s': its public half is not its own", name);
}

int sgpu_signer_load(const char *path, struct sgpu_signer **signer, struct sgpu_error *error)
{
	struct sgpu_signer *made = NULL;
	const char *name = NULL;
	char *text = NULL;
	size_t size = 0;

	*signer = NULL;
	int rc = sgpu_secret_load(path, SGPU_KEY_TEXT_MAX, &name, &text, &size, error);
	if (rc) {
		return rc;
	}
	made = calloc(1, sizeof(*made));
	if (!made) {
		rc = sgpu_fail_nomem(error);
	} else if (strstr(text, tpm_mark)) {
		made->in_tpm = true;
		rc = load_provider(error);
	} else if (!strstr(text, plain_mark)) {
		rc = refuse_other(name, text, error);
	}
	rc = rc ? rc : decode(name, text, size, made, error);
	rc = rc ? rc : check_pair(name, made, error);
	sgpu_free_wiped(&text, size);
	if (rc) {
		sgpu_signer_free(&made);
	}
	*signer = made;
	return rc;
}
