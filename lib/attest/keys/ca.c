/* SPDX-License-Identifier: Apache-2.0
 *
 * X.509 in three levels, as openssl(1) makes it, too: an authority certifies machines' endorsement
 * keys (EKs), an EK attestation keys (AKs).
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <sgpu/base.h>

#include "attest/internal.h"
#include "crypto/internal.h"

enum {
	SECONDS_A_DAY = 86400,
	NAME_MAX_LENGTH = 64, /* of a common name: X.520 */
	REQUEST_MAX = 32768,
};

/* A level's certificates: their common name, and the extensions that limit their use. */
static const struct profile {
	const char *name, *constraints, *usage;
} authority = { NULL, "critical,CA:TRUE,pathlen:1", "critical,keyCertSign,cRLSign" },
  endorsement = { "sgpu endorsement key", "critical,CA:TRUE,pathlen:0",
		  "critical,keyCertSign,cRLSign" },
  attestation = { "sgpu attestation key", "critical,CA:FALSE", "critical,digitalSignature" };

static bool add_extension(X509 *certificate, X509V3_CTX *context, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, context, nid, value);
	bool done = extension && X509_add_ext(certificate, extension, -1) == 1;

	X509_EXTENSION_free(extension);
	return done;
}

static bool add_name(X509 *certificate, int nid, int type, const char *text)
{
	return X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), nid, type,
					  (const unsigned char *)text, -1, -1, 0) == 1;
}

int sgpu_certificate_pem(X509 *certificate, const struct sgpu_chain *more, char **pem, size_t *size,
			 struct sgpu_error *error)
{
	BIO *bio = BIO_new(BIO_s_mem());
	int done = bio && PEM_write_bio_X509(bio, certificate) == 1;

	for (int i = 0; more && done && i < more->count; i++) {
		done = PEM_write_bio_X509(bio, more->list[i]) == 1;
	}
	int rc = done ? sgpu_bio_text(bio, pem, size, error)
		      : sgpu_crypto_fail(error, "writing a certificate");
	BIO_free(bio);
	return rc;
}

/* Makes a certificate for `key` that the issuer's key signs; issuer NULL: self-signed. The serial
 * number, 127 random bits, cannot be predicted; the subject has the key's fingerprint, unless
 * self-signed. The caller always frees the certificate. */
static int issue(const struct sgpu_signer *signer, X509 *issuer, EVP_PKEY *key,
		 const struct profile *profile, const char *name, int64_t now, int64_t end,
		 X509 **certificate, struct sgpu_error *error)
{
	X509 *made = *certificate = X509_new(), *above = issuer ? issuer : made;
	uint8_t fingerprint[SGPU_SHA256_SIZE] = { 0 };
	char serial[2 * SGPU_SHA256_SIZE + 1];
	BIGNUM *number = BN_new();
	X509V3_CTX context;
	int rc = sgpu_key_fingerprint(key, fingerprint, error);

	sgpu_hex_encode(fingerprint, sizeof(fingerprint), serial);
	X509V3_set_ctx(&context, above, made, NULL, NULL, 0);
	bool done = made && number && X509_set_version(made, X509_VERSION_3) == 1 &&
		    BN_rand(number, 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
		    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(made)) &&
		    X509_set_pubkey(made, key) == 1 &&
		    add_name(made, NID_commonName, MBSTRING_UTF8, name) &&
		    (!issuer || add_name(made, NID_serialNumber, MBSTRING_ASC, serial)) &&
		    X509_set_issuer_name(made, X509_get_subject_name(above)) == 1 &&
		    ASN1_TIME_set(X509_getm_notBefore(made), (time_t)now) &&
		    ASN1_TIME_set(X509_getm_notAfter(made), (time_t)end) &&
		    add_extension(made, &context, NID_basic_constraints, profile->constraints) &&
		    add_extension(made, &context, NID_key_usage, profile->usage) &&
		    add_extension(made, &context, NID_subject_key_identifier, "hash") &&
		    add_extension(made, &context, NID_authority_key_identifier, "keyid:always");
	BN_free(number);
	if (!rc && !done) {
		rc = sgpu_crypto_fail(error, "making a certificate");
	}
	EVP_MD_CTX *signing = rc ? NULL : sgpu_signer_context(signer);
	if (!rc && (!signing || X509_sign_ctx(made, signing) <= 0)) {
		rc = sgpu_crypto_fail(error, "signing a certificate");
	}
	EVP_MD_CTX_free(signing);
	return rc;
}

int sgpu_ca_create(const struct sgpu_signer *ca, const char *name, int64_t now, unsigned days,
		   char **pem, size_t *size, struct sgpu_error *error)
{
	X509 *certificate = NULL;

	*pem = NULL;
	if (!*name || strlen(name) > NAME_MAX_LENGTH) {
		return sgpu_fail(error, SGPU_EUSAGE, "an authority's name has 1 to %d characters",
				 NAME_MAX_LENGTH);
	}
	int rc = issue(ca, NULL, ca->key, &authority, name, now,
		       now + (int64_t)days * SECONDS_A_DAY, &certificate, error);
	rc = rc ? rc : sgpu_certificate_pem(certificate, NULL, pem, size, error);
	X509_free(certificate);
	return rc;
}

int sgpu_request_create(const struct sgpu_signer *signer, char **pem, size_t *size,
			struct sgpu_error *error)
{
	X509_REQ *request = X509_REQ_new();
	EVP_MD_CTX *context = sgpu_signer_context(signer);
	BIO *bio = BIO_new(BIO_s_mem());

	*pem = NULL;
	*size = 0;
	int done = request && context && bio &&
		   X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 &&
		   X509_REQ_set_pubkey(request, signer->key) == 1 &&
		   X509_REQ_sign_ctx(request, context) > 0 &&
		   PEM_write_bio_X509_REQ(bio, request) == 1;
	int rc = done ? sgpu_bio_text(bio, pem, size, error)
		      : sgpu_crypto_fail(error, "making a certificate request");
	EVP_MD_CTX_free(context);
	X509_REQ_free(request);
	BIO_free(bio);
	return rc;
}

static int check_issuer(const struct sgpu_signer *signer, const struct sgpu_chain *chain,
			int64_t now, struct sgpu_error *error)
{
	X509 *made = chain->list[0];
	int rc = 0;

	if (!chain->count) {
		rc = sgpu_fail(error, SGPU_EINVALID, "the issuer has no certificate");
	} else if (chain->count >= SGPU_CHAIN_MAX) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "the issuer's chain has %d certificates, and one more is too many",
			       chain->count);
	} else if (!X509_get0_pubkey(made) ||
		   EVP_PKEY_eq(X509_get0_pubkey(made), signer->key) != 1) {
		rc = sgpu_fail(error, SGPU_EKEY, "the issuer's certificate is not that of its key");
	} else if (X509_check_ca(made) != 1) {
		rc = sgpu_fail(error, SGPU_EINVALID, "the issuer's certificate may sign no other");
	} else if (X509_get_pathlen(made) == 0 && !sgpu_is_ek_certificate(made)) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "the issuer is an authority that may certify no endorsement keys: "
			       "its path length is 0");
	} else if (now < sgpu_certificate_time(X509_get0_notBefore(made)) ||
		   now >= sgpu_certificate_time(X509_get0_notAfter(made))) {
		rc = sgpu_fail(error, SGPU_EEXPIRED,
			       "the issuer's certificate is not valid at this time");
	}
	ERR_clear_error();
	return rc;
}

/* Reads the public key of a request, which it must have signed. The caller always frees the key. */
static int open_request(const char *text, size_t size, const struct sgpu_signer *issuer,
			EVP_PKEY **key, struct sgpu_error *error)
{
	BIO *bio = size <= REQUEST_MAX ? BIO_new_mem_buf(text, (int)size) : NULL;
	X509_REQ *request = NULL;
	char *type = NULL, *header = NULL;
	uint8_t *data = NULL;
	bool only = true;
	long length = 0;
	int rc = 0;

	/* PEM_read_bio_X509_REQ would ask for an encrypted one's password. */
	while (bio && only && PEM_read_bio(bio, &type, &header, &data, &length) == 1) {
		const uint8_t *next = data;
		only = !request && !*header && !strcmp(type, PEM_STRING_X509_REQ) &&
		       (request = d2i_X509_REQ(NULL, &next, length));
		OPENSSL_free(type);
		OPENSSL_free(header);
		OPENSSL_clear_free(data, (size_t)length);
	}
	EVP_PKEY *made = request ? X509_REQ_get_pubkey(request) : NULL;
	if (!request || !only) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "request: this is no certificate request in PEM, or more");
	} else if (!sgpu_is_p384(made)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "request: the key is not on the curve P-384");
	} else if (X509_REQ_verify(request, made) != 1) {
		rc = sgpu_fail(error, SGPU_ESIGNATURE,
			       "request: its signature is not by the key in it");
	} else if (EVP_PKEY_eq(made, issuer->key) == 1) {
		rc = sgpu_fail(error, SGPU_EINVALID, "request: the key is that of the issuer");
	}
	ERR_clear_error();
	X509_REQ_free(request);
	BIO_free(bio);
	*key = made;
	return rc;
}

/* Chooses when a certificate ends: never after its issuer's. The issuer's days left are rounded up,
 * so that an authority made for N days can still sign for N days. */
static int choose_end(X509 *issuer, bool attests, int64_t now, unsigned days, int64_t *end,
		      struct sgpu_error *error)
{
	const int64_t last = sgpu_certificate_time(X509_get0_notAfter(issuer)),
		      left = (last - now + SECONDS_A_DAY - 1) / SECONDS_A_DAY;

	if (days > left) {
		return sgpu_fail(
			error, SGPU_EUSAGE,
			"the issuer's certificate ends in %lld days, and none that it signs may "
			"last longer",
			(long long)left);
	}
	if (attests && days > SGPU_AK_DAYS) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "the certificate of an attestation key is valid for at most %d "
				 "days",
				 SGPU_AK_DAYS);
	}
	*end = now + (int64_t)(days ? days : SGPU_AK_DAYS) * SECONDS_A_DAY;
	*end = *end < last ? *end : last;
	return SGPU_OK;
}

int sgpu_ca_certify(const struct sgpu_signer *ca, const struct sgpu_chain *ca_chain,
		    const char *request, size_t request_size, int64_t now, unsigned days,
		    char **pem, size_t *size, struct sgpu_error *error)
{
	X509 *issuer = ca_chain->list[0], *certificate = NULL;
	EVP_PKEY *key = NULL;
	int64_t end = 0;

	*pem = NULL;
	*size = 0;
	int rc = check_issuer(ca, ca_chain, now, error);
	const struct profile *profile =
		!rc && sgpu_is_ek_certificate(issuer) ? &attestation : &endorsement;

	rc = rc ? rc : open_request(request, request_size, ca, &key, error);
	rc = rc ? rc : choose_end(issuer, profile == &attestation, now, days, &end, error);
	rc = rc ? rc
		: issue(ca, issuer, key, profile, profile->name, now, end, &certificate, error);
	rc = rc ? rc : sgpu_certificate_pem(certificate, ca_chain, pem, size, error);
	EVP_PKEY_free(key);
	X509_free(certificate);
	return rc;
}
