/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenSSL's provider for TPM 2.0. This library cannot suppress the messages of the provider's own
 * library on standard error; TSS2_LOG=all+NONE in the environment silences it.
 */
#include <pthread.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>

#include "attest/internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static OSSL_PROVIDER *standard, *loaded;

/* The provider has its own numbers and texts, which may be missing: what failed is said in ours. */
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

/* A provider that is loaded by name switches the default one off, unless that one is loaded by name
 * too. Both stay for the life of the process: keys refer to them, and without the default one
 * nothing else would work. */
int sgpu_tpm_provider(struct sgpu_error *error)
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

int sgpu_tpm_generate(EVP_PKEY **key, struct sgpu_error *error)
{
	EVP_PKEY_CTX *context;
	int rc = sgpu_tpm_provider(error);

	*key = NULL;
	if (rc != SGPU_OK) {
		return rc;
	}
	context = EVP_PKEY_CTX_new_from_name(NULL, "EC", "provider=tpm2");
	if (!context || EVP_PKEY_keygen_init(context) <= 0 ||
	    EVP_PKEY_CTX_set_group_name(context, "P-384") <= 0 ||
	    EVP_PKEY_generate(context, key) <= 0) {
		*key = NULL;
		rc = unavailable(error, "the TPM makes no signing key on P-384");
	}
	EVP_PKEY_CTX_free(context);
	return rc;
}
