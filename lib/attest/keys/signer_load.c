/* SPDX-License-Identifier: Apache-2.0
 *
 * Private keys from PEM files. The first line tells the kind, so that a TPM is used only if it is
 * needed.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/decoder.h>
#include <openssl/err.h>

#include <sgpu/base.h>

#include "attest/internal.h"
#include "crypto/internal.h"
#include "crypto/key.h"

static const char plain_mark[] = "-----BEGIN PRIVATE KEY-----";
static const char tpm_mark[] = "-----BEGIN TSS2 PRIVATE KEY-----";

/* Reports the fault of a file of neither kind. */
static int refuse_other(const char *name, const char *text, struct sgpu_error *error)
{
	if (strstr(text, "-----BEGIN ENCRYPTED PRIVATE KEY-----")) {
		(void)sgpu_fail(error, SGPU_EINVALID,
				"private key '%s' is encrypted with a passphrase", name);
		return sgpu_hint(error, "openssl pkcs8 -in '%s' writes it without", name);
	}
	if (strstr(text, "-----BEGIN EC PRIVATE KEY-----")) {
		(void)sgpu_fail(error, SGPU_EINVALID, "private key '%s' is not in PKCS#8", name);
		return sgpu_hint(error, "openssl pkcs8 -topk8 -nocrypt -in '%s' writes it so",
				 name);
	}
	if (strstr(text, "-----BEGIN PUBLIC KEY-----")) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is a public key, not a private one",
				 name);
	}
	return sgpu_fail(error, SGPU_EINVALID, "'%s' is no private key in PEM", name);
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

/* Whether both halves are there and belong together. */
static int check_pair(const char *name, const struct sgpu_signer *signer, struct sgpu_error *error)
{
	EVP_PKEY_CTX *context =
		signer->in_tpm ? NULL : EVP_PKEY_CTX_new_from_pkey(NULL, signer->key, NULL);

	if (signer->in_tpm) {
		return 0;
	}
	int done = context && EVP_PKEY_check(context) == 1;
	EVP_PKEY_CTX_free(context);
	if (!done) {
		ERR_clear_error();
		return sgpu_fail(error, SGPU_EINVALID,
				 "private key '%s': its public half is not its own", name);
	}
	return 0;
}

int sgpu_signer_load(const char *path, struct sgpu_signer **signer, struct sgpu_error *error)
{
	struct sgpu_signer *made = NULL;
	const char *name = NULL;
	char *text = NULL;
	size_t size = 0;

	*signer = NULL;
	int code = sgpu_secret_load(path, SGPU_KEY_TEXT_MAX, &name, &text, &size, error);
	if (code) {
		return code;
	}
	made = calloc(1, sizeof(*made));
	if (!made) {
		code = sgpu_fail_nomem(error);
	} else if (strstr(text, tpm_mark)) {
		made->in_tpm = true;
		code = sgpu_tpm_provider(error);
	} else if (!strstr(text, plain_mark)) {
		code = refuse_other(name, text, error);
	}
	code = code ? code : decode(name, text, size, made, error);
	code = code ? code : check_pair(name, made, error);
	sgpu_free_wiped(&text, size);
	if (code) {
		sgpu_signer_free(&made);
		return code;
	}
	*signer = made;
	return 0;
}
