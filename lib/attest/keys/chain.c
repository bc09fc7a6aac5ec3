/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates from PEM, and whether they lead to a trusted root.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "attest/internal.h"
#include "crypto/internal.h"

enum {
	PEM_MAX = 1 << 18,
	AUTH_LEVEL = 2, /* of libcrypto: 112 bits at least in every certificate */
	LOOSE_DEPTH = 4,
	CLOCKS = 60, /* seconds: openssl(1) reads the clock for each end of a certificate */
};

X509 *sgpu_certificate_parse(const uint8_t *der, size_t size)
{
	const unsigned char *next = der;
	X509 *certificate = size <= SGPU_CERTIFICATE_MAX ? d2i_X509(NULL, &next, (long)size) : NULL;

	if (certificate && next != der + size) {
		X509_free(certificate);
		certificate = NULL;
	}
	ERR_clear_error();
	return certificate;
}

int sgpu_certificate_key(const X509 *certificate, const char *what, EVP_PKEY **key,
			 struct sgpu_error *error)
{
	*key = X509_get0_pubkey(certificate);
	ERR_clear_error();
	return sgpu_is_p384(*key)
		       ? 0
		       : sgpu_fail(error, SGPU_EINVALID, "%s has no key on the curve P-384", what);
}

bool sgpu_is_ek_certificate(X509 *certificate)
{
	return certificate && X509_get_pathlen(certificate) == 0 &&
	       !(X509_get_extension_flags(certificate) & EXFLAG_SI);
}

int64_t sgpu_certificate_time(const ASN1_TIME *time)
{
	struct tm parts = { 0 };

	return ASN1_TIME_to_tm(time, &parts) == 1 ? (int64_t)timegm(&parts) : -1;
}

void sgpu_chain_clear(struct sgpu_chain *chain)
{
	for (int i = 0; i < chain->count; i++) {
		X509_free(chain->list[i]);
	}
	memset(chain, 0, sizeof(*chain));
}

/* Adds a PEM block; refuses all but certificates, so that no private key goes unseen. */
static int add_block(const char *type, const uint8_t *data, size_t size, const char *name,
		     struct sgpu_chain *chain, struct sgpu_error *error)
{
	if (strcmp(type, PEM_STRING_X509)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' holds a '%s', where only certificates belong", name, type);
	}
	if (chain->count == SGPU_CHAIN_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' holds more than %d certificates", name,
				 SGPU_CHAIN_MAX);
	}
	X509 *certificate = sgpu_certificate_parse(data, size);
	if (!certificate) {
		return sgpu_fail(error, SGPU_EINVALID, "certificate %d of '%s' is malformed",
				 chain->count + 1, name);
	}
	chain->list[chain->count++] = certificate;
	return 0;
}

int sgpu_chain_parse(const char *pem, size_t size, const char *name, struct sgpu_chain *chain,
		     struct sgpu_error *error)
{
	BIO *bio = size <= PEM_MAX ? BIO_new_mem_buf(pem, (int)size) : NULL;
	char *type = NULL, *header = NULL;
	unsigned char *data = NULL;
	long length = 0;
	int rc = 0;

	memset(chain, 0, sizeof(*chain));
	if (!bio) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is longer than %d bytes", name,
				 PEM_MAX);
	}
	while (!rc && PEM_read_bio(bio, &type, &header, &data, &length) == 1) {
		rc = add_block(type, data, (size_t)length, name, chain, error);
		OPENSSL_free(type);
		OPENSSL_free(header);
		OPENSSL_clear_free(data, (size_t)length);
	}
	/* OpenSSL reports the end of the text as an error: no more blocks start. */
	if (!rc && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is malformed PEM after certificate %d",
			       name, chain->count);
	}
	if (!rc && !chain->count) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' holds no certificate in PEM", name);
	}
	ERR_clear_error();
	BIO_free(bio);
	if (rc) {
		sgpu_chain_clear(chain);
	}
	return rc;
}

int sgpu_chain_load(const char *path, struct sgpu_chain *chain, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;

	memset(chain, 0, sizeof(*chain));
	int rc = sgpu_read_file(path, NULL, PEM_MAX, &text, &size, error);
	rc = rc ? rc : sgpu_chain_parse(text, size, path, chain, error);
	free(text);
	return rc;
}

/* ---- verification ---- */
/* A stack that borrows its certificates; NULL: no memory. */
static STACK_OF(X509) * stack_of(const struct sgpu_chain *chain, bool only_authorities)
{
	STACK_OF(X509) *stack = sk_X509_new_null();

	for (int i = 0; stack && i < chain->count; i++) {
		if ((!only_authorities || X509_check_ca(chain->list[i])) &&
		    sk_X509_push(stack, chain->list[i]) <= 0) {
			sk_X509_free(stack);
			stack = NULL;
		}
	}
	return stack;
}

static int fail_chain(const X509_STORE_CTX *context, const char *owner, struct sgpu_error *error)
{
	int reason = X509_STORE_CTX_get_error(context),
	    depth = X509_STORE_CTX_get_error_depth(context);
	bool expired =
		reason == X509_V_ERR_CERT_HAS_EXPIRED || reason == X509_V_ERR_CERT_NOT_YET_VALID;
	bool stranger = reason == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
			reason == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY;

	return sgpu_fail(error, expired ? SGPU_EEXPIRED : SGPU_ECHAIN,
			 "certificate %d of the %s%schain: %s", depth + 1, owner,
			 *owner ? "'s " : "",
			 stranger ? "it leads to none of the roots given"
				  : X509_verify_cert_error_string(reason));
}

/* Checks that the leaf may sign evidence. Returns the fault, or NULL. */
static const char *find_leaf_fault(X509 *leaf)
{
	EVP_PKEY *key = X509_get0_pubkey(leaf);
	uint32_t flags = X509_get_extension_flags(leaf), usage = X509_get_key_usage(leaf);

	ERR_clear_error();
	if (!sgpu_is_p384(key)) {
		return "has no key on the curve P-384";
	}
	if (flags & (EXFLAG_CA | EXFLAG_INVALID) || !(flags & EXFLAG_KUSAGE) ||
	    !(usage & KU_DIGITAL_SIGNATURE) || usage & KU_KEY_CERT_SIGN) {
		return "is not one for signatures";
	}
	/* An authority may also certify servers and people, which may not sign evidence. */
	if (flags & EXFLAG_XKUSAGE && !(X509_get_extended_key_usage(leaf) & XKU_ANYEKU)) {
		return "is for certain purposes, and evidence is none of them";
	}
	return NULL;
}

/* The same for what the leaf owes to the certificate that signed it. */
static const char *find_issuer_fault(const X509 *leaf, X509 *ek)
{
	if (!sgpu_is_ek_certificate(ek)) {
		return "is not signed by an endorsement key, which an authority certified with a "
		       "path length of 0";
	}
	const int64_t begin = sgpu_certificate_time(X509_get0_notBefore(leaf)),
		      end = sgpu_certificate_time(X509_get0_notAfter(leaf));
	if (end > sgpu_certificate_time(X509_get0_notAfter(ek))) {
		return "outlives that of its endorsement key";
	}
	if (end - begin > (int64_t)SGPU_AK_DAYS * 86400 + CLOCKS) {
		return "is valid for more than 30 days";
	}
	return NULL;
}

/* Checks of the built chain that X509_verify_cert leaves to its caller. */
static int check_evidence(const STACK_OF(X509) * chain, uint8_t machine[SGPU_SHA256_SIZE],
			  struct sgpu_error *error)
{
	X509 *leaf = sk_X509_value(chain, 0), *ek = sk_X509_value(chain, 1);
	const char *fault = find_leaf_fault(leaf);

	fault = fault ? fault : find_issuer_fault(leaf, ek);
	return fault ? sgpu_fail(error, SGPU_ECHAIN, "certificate 1 of the chain %s", fault)
		     : sgpu_key_fingerprint(X509_get0_pubkey(ek), machine, error);
}

int sgpu_chain_verify(X509 *leaf, const struct sgpu_chain *chain, const struct sgpu_chain *roots,
		      int64_t now, uint8_t *machine, const char *owner, struct sgpu_error *error)
{
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	STACK_OF(X509) *untrusted = stack_of(chain, false);
	/* Other certificates in the roots' file vouch for nothing, not even themselves. */
	STACK_OF(X509) *trusted = stack_of(roots, true);
	int rc = 0;

	if (!roots->count) {
		rc = sgpu_fail(error, SGPU_ECHAIN, "there is no trusted root");
	} else if (!context || !untrusted || !trusted) {
		rc = sgpu_fail_nomem(error);
	}
	if (!rc && X509_STORE_CTX_init(context, NULL, leaf, untrusted) != 1) {
		rc = sgpu_crypto_fail(error, "preparing the verification of certificates");
	}
	if (!rc) {
		X509_VERIFY_PARAM *parameters = X509_STORE_CTX_get0_param(context);

		/* the system's roots are not asked */
		X509_STORE_CTX_set0_trusted_stack(context, trusted);
		X509_VERIFY_PARAM_set_time(parameters, (time_t)now);
		X509_VERIFY_PARAM_set_flags(parameters,
					    X509_V_FLAG_CHECK_SS_SIGNATURE |
						    (machine ? X509_V_FLAG_X509_STRICT : 0));
		X509_VERIFY_PARAM_set_auth_level(parameters, AUTH_LEVEL);
		X509_VERIFY_PARAM_set_depth(parameters, machine ? SGPU_CHAIN_MAX : LOOSE_DEPTH);
		if (X509_verify_cert(context) != 1) {
			rc = fail_chain(context, owner, error);
		} else if (machine) {
			rc = check_evidence(X509_STORE_CTX_get0_chain(context), machine, error);
		}
	}
	ERR_clear_error();
	X509_STORE_CTX_free(context);
	sk_X509_free(untrusted);
	sk_X509_free(trusted);
	return rc;
}
