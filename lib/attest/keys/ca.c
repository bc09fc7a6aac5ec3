/* SPDX-License-Identifier: Apache-2.0
 *
 * A small CA: its own certificate, and certificates for attestation keys. Their content is decided
 * here; of a request, only the key is used.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <sgpu/base.h>

#include "attest/keys/ca.h"
#include "crypto/internal.h"

enum {
	SERIAL_SIZE = 16,
	SECONDS_A_DAY = 86400,
	DAYS_MAX = 36500,
	NAME_MAX_LENGTH = 64, /* of a common name: X.520 */
};

/* 127 random bits, so that nobody can tell the bytes of a certificate before it is made. */
static int set_serial(X509 *certificate, struct sgpu_error *error)
{
	uint8_t bytes[SERIAL_SIZE] = { 0 };
	int code = sgpu_random(bytes, sizeof(bytes), error);

	if (code) {
		return code;
	}
	bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40);
	BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
	int done = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
	BN_free(number);
	return done ? 0 : sgpu_crypto_fail(error, "setting a serial number");
}

static bool add_extension(X509 *certificate, X509V3_CTX *context, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, context, nid, value);
	bool done = extension && X509_add_ext(certificate, extension, -1) == 1;

	X509_EXTENSION_free(extension);
	return done;
}

static int set_extensions(X509 *certificate, X509 *issuer, struct sgpu_error *error)
{
	bool is_ca = certificate == issuer;
	X509V3_CTX context;

	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	bool done =
		add_extension(certificate, &context, NID_basic_constraints,
			      is_ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
		add_extension(certificate, &context, NID_key_usage,
			      is_ca ? "critical,keyCertSign,cRLSign"
				    : "critical,digitalSignature") &&
		add_extension(certificate, &context, NID_subject_key_identifier, "hash") &&
		add_extension(certificate, &context, NID_authority_key_identifier, "keyid:always");
	return done ? 0 : sgpu_crypto_fail(error, "adding the extensions of a certificate");
}

static int set_times(X509 *certificate, int64_t now, int64_t end, struct sgpu_error *error)
{
	int done = ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)now) &&
		   ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)end);

	return done ? 0 : sgpu_crypto_fail(error, "setting the times of a certificate");
}

static int set_name(X509_NAME *name, const char *common_name, const char *serial,
		    struct sgpu_error *error)
{
	int done = X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
					      (const unsigned char *)common_name, -1, -1, 0) == 1 &&
		   (!serial ||
		    X509_NAME_add_entry_by_NID(name, NID_serialNumber, MBSTRING_ASC,
					       (const unsigned char *)serial, -1, -1, 0) == 1);

	return done ? 0 : sgpu_crypto_fail(error, "setting the name in a certificate");
}

static int to_pem(X509 *certificate, const struct sgpu_chain *more, char **pem, size_t *size,
		  struct sgpu_error *error)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *data = NULL;
	int done = bio && PEM_write_bio_X509(bio, certificate) == 1;

	for (int i = 0; more && done && i < more->count; i++) {
		done = PEM_write_bio(bio, PEM_STRING_X509, "", more->der[i], (long)more->size[i]) >
		       0;
	}
	long length = done ? BIO_get_mem_data(bio, &data) : 0;
	*pem = length > 0 ? strndup(data, (size_t)length) : NULL;
	*size = *pem ? (size_t)length : 0;
	BIO_free(bio);
	return *pem ? 0 : sgpu_crypto_fail(error, "writing a certificate");
}

static int check_days(unsigned days, struct sgpu_error *error)
{
	return days >= 1 && days <= DAYS_MAX
		       ? 0
		       : sgpu_fail(error, SGPU_EUSAGE,
				   "a certificate is valid for 1 to %d days, not %u", DAYS_MAX,
				   days);
}

/* A certificate for `key` from `issuer` (NULL: from itself), signed by the CA's key. */
static int issue(const struct sgpu_signer *ca, X509 *issuer, EVP_PKEY *key, const char *common_name,
		 const char *serial, int64_t now, int64_t end, X509 **certificate,
		 struct sgpu_error *error)
{
	X509 *made = X509_new();
	int code = 0;

	if (!made || X509_set_version(made, X509_VERSION_3) != 1 ||
	    X509_set_pubkey(made, key) != 1) {
		code = sgpu_crypto_fail(error, "making a certificate");
	}
	if (!code) {
		code = set_serial(made, error);
	}
	if (!code) {
		code = set_name(X509_get_subject_name(made), common_name, serial, error);
	}
	if (!code &&
	    X509_set_issuer_name(made, X509_get_subject_name(issuer ? issuer : made)) != 1) {
		code = sgpu_crypto_fail(error, "setting the issuer of a certificate");
	}
	if (!code) {
		code = set_times(made, now, end, error);
	}
	if (!code) {
		code = set_extensions(made, issuer ? issuer : made, error);
	}
	EVP_MD_CTX *context = code ? NULL : sgpu_signer_context(ca);
	if (!code && (!context || X509_sign_ctx(made, context) <= 0)) {
		code = sgpu_crypto_fail(error, "signing a certificate");
	}
	EVP_MD_CTX_free(context);
	if (code) {
		X509_free(made);
		return code;
	}
	*certificate = made;
	return 0;
}

int sgpu_ca_create(const struct sgpu_signer *ca, const char *name, int64_t now, unsigned days,
		   char **pem, size_t *size, struct sgpu_error *error)
{
	X509 *certificate = NULL;

	*pem = NULL;
	*size = 0;
	if (!*name || strlen(name) > NAME_MAX_LENGTH) {
		return sgpu_fail(error, SGPU_EUSAGE, "a CA's name has 1 to %d characters",
				 NAME_MAX_LENGTH);
	}
	int code = check_days(days, error);
	if (!code) {
		code = issue(ca, NULL, ca->key, name, NULL, now,
			     now + (int64_t)days * SECONDS_A_DAY, &certificate, error);
	}
	if (!code) {
		code = to_pem(certificate, NULL, pem, size, error);
	}
	X509_free(certificate);
	return code;
}

int64_t sgpu_certificate_time(const ASN1_TIME *time)
{
	struct tm parts = { 0 };

	return ASN1_TIME_to_tm(time, &parts) == 1 ? (int64_t)timegm(&parts) : -1;
}

/* The CA's certificate, if it is the key's and still valid. */
static int own_certificate(const struct sgpu_signer *ca, const struct sgpu_chain *chain,
			   int64_t now, X509 **issuer, struct sgpu_error *error)
{
	X509 *made = chain->count ? sgpu_certificate_parse(chain->der[0], chain->size[0]) : NULL;
	int code = 0;

	if (!made) {
		code = sgpu_fail(error, SGPU_EINVALID, "the CA's certificate is malformed");
	} else if (!X509_get0_pubkey(made) || EVP_PKEY_eq(X509_get0_pubkey(made), ca->key) != 1) {
		code = sgpu_fail(error, SGPU_EKEY, "the CA's certificate is not that of its key");
	} else if (X509_check_ca(made) != 1) {
		code = sgpu_fail(error, SGPU_EINVALID, "the certificate is not one of a CA");
	} else if (now < sgpu_certificate_time(X509_get0_notBefore(made)) ||
		   now >= sgpu_certificate_time(X509_get0_notAfter(made))) {
		code = sgpu_fail(error, SGPU_EEXPIRED,
				 "the CA's certificate is not valid at this time");
	}
	ERR_clear_error();
	if (code) {
		X509_free(made);
		return code;
	}
	*issuer = made;
	return 0;
}

int sgpu_ca_certify(const struct sgpu_signer *ca, const struct sgpu_chain *ca_chain,
		    const char *known_eks, const char *request, size_t request_size, int64_t now,
		    unsigned days, unsigned max_age, char **pem, size_t *size,
		    struct sgpu_error *error)
{
	uint8_t fingerprint[SGPU_SHA256_SIZE] = { 0 };
	char serial[2 * SGPU_SHA256_SIZE + 1];
	X509 *issuer = NULL, *certificate = NULL;
	EVP_PKEY *key = NULL;

	*pem = NULL;
	*size = 0;
	int code = check_days(days, error);
	if (!code && ca_chain->count >= SGPU_CHAIN_MAX) {
		code = sgpu_fail(error, SGPU_EINVALID,
				 "the CA's chain has %d certificates, and one more is too many",
				 ca_chain->count);
	}
	if (!code) {
		code = own_certificate(ca, ca_chain, now, &issuer, error);
	}
	if (!code) {
		code = sgpu_enroll_verify(known_eks, request, request_size, now, max_age, &key,
					  fingerprint, error);
	}
	/* Not longer than its issuer's: a chain is as old as its oldest part. Both are counted in
	 * days, of which the last one may have begun: a CA made for N days signs for N days. */
	const int64_t last = code ? 0 : sgpu_certificate_time(X509_get0_notAfter(issuer));
	const int64_t end = now + (int64_t)days * SECONDS_A_DAY,
		      left = (last - now + SECONDS_A_DAY - 1) / SECONDS_A_DAY;
	if (!code && days > left) {
		code = sgpu_fail(
			error, SGPU_EUSAGE,
			"the CA's certificate ends in %lld days, and none that it signs may last "
			"longer",
			(long long)left);
	}
	if (!code) {
		sgpu_hex_encode(fingerprint, sizeof(fingerprint), serial);
		code = issue(ca, issuer, key, "sgpu attestation key", serial, now,
			     end < last ? end : last, &certificate, error);
	}
	if (!code) {
		code = to_pem(certificate, ca_chain, pem, size, error);
	}
	EVP_PKEY_free(key);
	X509_free(certificate);
	X509_free(issuer);
	return code;
}
