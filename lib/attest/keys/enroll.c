/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for an attestation key: two signatures, so that the CA certifies a key only for a
 * machine whose EK it knows, and only for a holder of the key. Inside is a PKCS#10 request that the
 * AK signed, around it a token that the EK signed.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include <sgpu/base.h>

#include "attest/keys/ca.h"
#include "crypto/internal.h"

#define REQUEST_TYPE "sgpu-enrolment+jwt"
#define REQUEST_NAME "sgpu enrolment v1"
enum { REQUEST_MAX = 32768, SKEW = 60 /* seconds that a clock may be ahead */ };

static int make_pkcs10(const struct sgpu_signer *ak, unsigned char **der, int *size,
		       struct sgpu_error *error)
{
	X509_REQ *request = X509_REQ_new();
	X509_NAME *name = request ? X509_REQ_get_subject_name(request) : NULL;
	EVP_MD_CTX *context = sgpu_signer_context(ak);

	*der = NULL;
	int done = name && context && X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 &&
		   X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC,
					      (const unsigned char *)"sgpu attestation key", -1, -1,
					      0) == 1 &&
		   X509_REQ_set_pubkey(request, ak->key) == 1 &&
		   X509_REQ_sign_ctx(request, context) > 0 &&
		   (*size = i2d_X509_REQ(request, der)) > 0;
	EVP_MD_CTX_free(context);
	X509_REQ_free(request);
	return done ? 0 : sgpu_crypto_fail(error, "making a certificate request");
}

int sgpu_enroll_request(const struct sgpu_signer *ek, const struct sgpu_signer *ak, int64_t now,
			char **text, size_t *size, struct sgpu_error *error)
{
	char kid[SGPU_BASE64URL_MAX(SGPU_SHA256_SIZE)];
	uint8_t fingerprint[SGPU_SHA256_SIZE] = { 0 };
	unsigned char *der = NULL;
	char *payload = NULL, *token = NULL;
	size_t payload_size = 0;
	json_t *claims = NULL;
	int der_size = 0;

	*text = NULL;
	*size = 0;
	int code = sgpu_signer_fingerprint(ek, fingerprint, error);
	if (!code) {
		code = make_pkcs10(ak, &der, &der_size, error);
	}
	if (!code) {
		claims = json_pack("{s:s, s:I, s:o}", "type", REQUEST_NAME, "iat", (json_int_t)now,
				   "pkcs10", sgpu_json_from_bytes(der, (size_t)der_size));
		code = claims ? sgpu_json_canonical(claims, &payload, &payload_size, error)
			      : sgpu_fail_nomem(error);
	}
	if (!code) {
		sgpu_base64url_encode(fingerprint, sizeof(fingerprint), kid);
		code = sgpu_jws_make(ek, NULL, REQUEST_TYPE, kid, payload, payload_size, &token,
				     error);
	}
	if (!code) {
		int length = asprintf(text, "%s\n", token);
		*text = length < 0 ? NULL : *text;
		*size = *text ? (size_t)length : 0;
		code = *text ? 0 : sgpu_fail_nomem(error);
	}
	OPENSSL_free(der);
	json_decref(claims);
	free(payload);
	free(token);
	return code;
}

/* The next public key of a PEM text: *key NULL at its end. */
static int next_key(BIO *bio, EVP_PKEY **key, struct sgpu_error *error)
{
	char *type = NULL, *header = NULL;
	unsigned char *data = NULL;
	long length = 0;

	*key = NULL;
	if (PEM_read_bio(bio, &type, &header, &data, &length) != 1) {
		bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
		ERR_clear_error();
		return ended ? 0
			     : sgpu_fail(error, SGPU_EINVALID,
					 "the endorsement keys are malformed PEM");
	}
	const unsigned char *next = data;
	if (!strcmp(type, PEM_STRING_PUBLIC)) {
		*key = d2i_PUBKEY(NULL, &next, length);
	}
	ERR_clear_error();
	OPENSSL_free(type);
	OPENSSL_free(header);
	OPENSSL_clear_free(data, (size_t)length);
	if (!*key || !sgpu_is_p384(*key)) {
		EVP_PKEY_free(*key);
		*key = NULL;
		return sgpu_fail(error, SGPU_EINVALID,
				 "an endorsement key is no public key on the curve P-384");
	}
	return 0;
}

/* The EK that the request names among those that are known. */
static int find_ek(const char *known, const char *kid, EVP_PKEY **ek,
		   uint8_t fingerprint[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	uint8_t wanted[SGPU_SHA256_SIZE];
	EVP_PKEY *key = NULL;
	int count = 0;

	*ek = NULL;
	if (!kid || sgpu_base64url_decode(kid, wanted, sizeof(wanted), NULL)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "request: 'kid' is no fingerprint of an endorsement key");
	}
	BIO *bio = BIO_new_mem_buf(known, -1);
	int code = bio ? next_key(bio, &key, error) : sgpu_fail_nomem(error);
	while (!code && key && !*ek) {
		count++;
		code = sgpu_key_fingerprint(key, fingerprint, error);
		if (!code && sgpu_equal(fingerprint, wanted, sizeof(wanted))) {
			*ek = key;
			break;
		}
		EVP_PKEY_free(key);
		key = NULL;
		code = code ? code : next_key(bio, &key, error);
	}
	BIO_free(bio);
	if (!code && !count) {
		code = sgpu_fail(error, SGPU_EINVALID,
				 "there is no endorsement key in PEM among those that are known");
	} else if (!code && !*ek) {
		code = sgpu_fail(error, SGPU_EPOLICY,
				 "request: the endorsement key '%s' is not a known one", kid);
	}
	return code;
}

/* The public key of a PKCS#10 request that it signed itself. */
static int open_pkcs10(const uint8_t *der, size_t size, EVP_PKEY **key, struct sgpu_error *error)
{
	const unsigned char *next = der;
	X509_REQ *request = d2i_X509_REQ(NULL, &next, (long)size);
	EVP_PKEY *made = request ? X509_REQ_get_pubkey(request) : NULL;
	int code = 0;

	ERR_clear_error();
	if (!request || next != der + size) {
		code = sgpu_fail(error, SGPU_EINVALID,
				 "request: 'pkcs10' is no certificate request");
	} else if (!made || !sgpu_is_p384(made)) {
		code = sgpu_fail(error, SGPU_EINVALID,
				 "request: the attestation key is not on the curve P-384");
	} else if (X509_REQ_get_signature_nid(request) != NID_ecdsa_with_SHA384) {
		code = sgpu_fail(error, SGPU_EINVALID,
				 "request: 'pkcs10' is not signed with ECDSA and SHA-384");
	} else if (X509_REQ_verify(request, made) != 1) {
		code = sgpu_fail(error, SGPU_ESIGNATURE,
				 "request: the attestation key's signature does not verify");
	}
	ERR_clear_error();
	X509_REQ_free(request);
	if (code) {
		EVP_PKEY_free(made);
		return code;
	}
	*key = made;
	return 0;
}

static int check_time(const json_t *claims, int64_t now, unsigned max_age, struct sgpu_error *error)
{
	uint64_t made = 0;
	int code = sgpu_json_u64(claims, "request", "iat", &made, error);

	if (!code && (int64_t)made > now + SKEW) {
		code = sgpu_fail(error, SGPU_EEXPIRED,
				 "request: made %lld s in the future: is a clock wrong?",
				 (long long)((int64_t)made - now));
	} else if (!code && now - (int64_t)made > (int64_t)max_age) {
		code = sgpu_fail(error, SGPU_EEXPIRED, "request: %lld s old, and %u are allowed",
				 (long long)(now - (int64_t)made), max_age);
	}
	return code;
}

/* The payload once its signature has verified. */
static int open_claims(const struct sgpu_jws *jws, int64_t now, unsigned max_age, EVP_PKEY **key,
		       struct sgpu_error *error)
{
	static const char *const members[] = { "type", "iat", "pkcs10", NULL };
	struct sgpu_error inner = { 0 };
	const char *type = NULL, *pkcs10 = NULL;
	json_t *claims = NULL;
	uint8_t *der = NULL;
	size_t size = 0;
	int code = 0;

	if (sgpu_json_parse(jws->payload, jws->payload_size, &claims, NULL, NULL, &inner)) {
		return sgpu_fail(error, SGPU_EINVALID, "request: %s", inner.text);
	}
	code = sgpu_json_only(claims, "request", members, error);
	if (!code) {
		code = sgpu_json_string(claims, "request", "type", &type, error);
	}
	if (!code && strcmp(type, REQUEST_NAME)) {
		code = sgpu_fail(error, SGPU_EINVALID, "request: 'type' is not '%s'", REQUEST_NAME);
	}
	if (!code) {
		code = check_time(claims, now, max_age, error);
	}
	if (!code) {
		code = sgpu_json_string(claims, "request", "pkcs10", &pkcs10, error);
	}
	if (!code) {
		code = sgpu_decode_base64url(pkcs10, strlen(pkcs10), "request: 'pkcs10'", &der,
					     &size, error);
	}
	if (!code) {
		code = open_pkcs10(der, size, key, error);
	}
	free(der);
	json_decref(claims);
	return code;
}

int sgpu_enroll_verify(const char *known_eks, const char *request, size_t size, int64_t now,
		       unsigned max_age, EVP_PKEY **key, uint8_t fingerprint[SGPU_SHA256_SIZE],
		       struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	struct sgpu_jws jws;
	EVP_PKEY *ek = NULL;

	*key = NULL;
	while (size && (request[size - 1] == '\n' || request[size - 1] == '\r')) {
		size--;
	}
	if (size > REQUEST_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "request: longer than %d bytes",
				 REQUEST_MAX);
	}
	int code = sgpu_jws_parse(request, size, &jws, &inner);
	if (code) {
		return sgpu_fail(error, code, "request: %s", inner.text);
	}
	if (!jws.typ || strcmp(jws.typ, REQUEST_TYPE) || jws.chain.count) {
		code = sgpu_fail(error, SGPU_EINVALID, "this is no request for an attestation key");
	}
	if (!code) {
		code = find_ek(known_eks, jws.kid, &ek, fingerprint, error);
	}
	if (!code) {
		code = sgpu_jws_check(&jws, ek, error);
	}
	if (!code) {
		code = open_claims(&jws, now, max_age, key, error);
	}
	if (!code && EVP_PKEY_eq(*key, ek) == 1) {
		EVP_PKEY_free(*key);
		*key = NULL;
		code = sgpu_fail(error, SGPU_EINVALID,
				 "request: the attestation key is the endorsement key");
	}
	EVP_PKEY_free(ek);
	sgpu_jws_clear(&jws);
	return code;
}
