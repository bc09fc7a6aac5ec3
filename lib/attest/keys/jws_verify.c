/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON Web Signatures (RFC 7515), compact, ES384: taking them apart and verifying them. The header
 * is what an attacker writes: it may say that the algorithm is ES384 and what certificates there
 * are, and nothing else.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/internal.h"
#include "crypto/internal.h"

/* How a text from outside is quoted in a message. */
enum { QUOTED = 40 };

void sgpu_jws_clear(struct sgpu_jws *jws)
{
	json_decref(jws->header);
	sgpu_chain_clear(&jws->chain);
	free(jws->payload);
	memset(jws, 0, sizeof(*jws));
}

static int read_x5c(const json_t *x5c, struct sgpu_chain *chain, struct sgpu_error *error)
{
	size_t count = json_array_size(x5c);

	if (!json_is_array(x5c) || !count || count > SGPU_CHAIN_MAX) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "token: 'x5c' is not an array of 1 to %d certificates",
				 SGPU_CHAIN_MAX);
	}
	for (size_t i = 0; i < count; i++) {
		const json_t *text = json_array_get(x5c, i);
		if (!json_is_string(text) || json_string_length(text) > 2 * SGPU_CERTIFICATE_MAX) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "token: 'x5c' has something that is no certificate");
		}
		int code =
			sgpu_decode_base64(json_string_value(text), json_string_length(text),
					   "token: 'x5c'", &chain->der[i], &chain->size[i], error);
		if (code) {
			return code;
		}
		chain->count = (int)i + 1;
		X509 *certificate = sgpu_certificate_parse(chain->der[i], chain->size[i]);
		if (!certificate) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "token: certificate %zu of 'x5c' is malformed", i + 1);
		}
		X509_free(certificate);
	}
	return 0;
}

static int check_header(struct sgpu_jws *jws, struct sgpu_error *error)
{
	static const char *const known[] = { "alg", "typ", "kid", "x5c", NULL };
	const json_t *typ = json_object_get(jws->header, "typ"),
		     *kid = json_object_get(jws->header, "kid");
	const json_t *x5c = json_object_get(jws->header, "x5c");
	const char *alg = NULL;
	int code = sgpu_json_only(jws->header, "token: header", known, error);

	if (!code) {
		code = sgpu_json_string(jws->header, "token: header", "alg", &alg, error);
	}
	if (!code && strcmp(alg, "ES384")) {
		code = sgpu_fail(error, SGPU_EINVALID, "token: 'alg' is '%.*s', not 'ES384'",
				 QUOTED, alg);
	}
	if (!code && ((typ && !json_is_string(typ)) || (kid && !json_is_string(kid)))) {
		code = sgpu_fail(error, SGPU_EINVALID, "token: 'typ' or 'kid' is not a string");
	}
	jws->typ = json_string_value(typ);
	jws->kid = json_string_value(kid);
	return code || !x5c ? code : read_x5c(x5c, &jws->chain, error);
}

static int read_header(struct sgpu_jws *jws, const char *text, size_t length,
		       struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	uint8_t *data = NULL;
	size_t size = 0;
	int code = sgpu_decode_base64url(text, length, "token: header", &data, &size, error);

	if (!code && sgpu_json_parse((char *)data, size, &jws->header, NULL, NULL, &inner)) {
		jws->header = NULL;
		code = sgpu_fail(error, SGPU_EINVALID, "token: header: %s", inner.text);
	}
	free(data);
	return code ? code : check_header(jws, error);
}

static int read_signature(struct sgpu_jws *jws, const char *text, size_t length,
			  struct sgpu_error *error)
{
	uint8_t *data = NULL;
	size_t size = 0;
	int code = sgpu_decode_base64url(text, length, "token: signature", &data, &size, error);

	if (!code && size != sizeof(jws->signature)) {
		code = sgpu_fail(error, SGPU_EINVALID, "token: the signature has %zu bytes, not %d",
				 size, SGPU_ES384_SIZE);
	}
	if (!code) {
		memcpy(jws->signature, data, size);
	}
	free(data);
	return code;
}

int sgpu_jws_parse(const char *token, size_t size, struct sgpu_jws *jws, struct sgpu_error *error)
{
	memset(jws, 0, sizeof(*jws));
	if (size > SGPU_QUOTE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "token: longer than %d bytes",
				 SGPU_QUOTE_MAX);
	}
	const char *first = memchr(token, '.', size);
	const char *second =
		first ? memchr(first + 1, '.', size - (size_t)(first + 1 - token)) : NULL;
	if (!second) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "token: not three parts with dots between them");
	}
	jws->signed_text = token;
	jws->signed_size = (size_t)(second - token);
	int code = read_header(jws, token, (size_t)(first - token), error);
	if (!code) {
		code = sgpu_decode_base64url(first + 1, (size_t)(second - first - 1),
					     "token: payload", (uint8_t **)&jws->payload,
					     &jws->payload_size, error);
	}
	if (!code) {
		code = read_signature(jws, second + 1, size - jws->signed_size - 1, error);
	}
	if (code) {
		sgpu_jws_clear(jws);
	}
	return code;
}

int sgpu_jws_check(const struct sgpu_jws *jws, EVP_PKEY *key, struct sgpu_error *error)
{
	bool verified = sgpu_ecdsa_verifies(key, "SHA384", jws->signed_text, jws->signed_size,
					    jws->signature, SGPU_ES384_SIZE / 2);

	return verified ? 0
			: sgpu_fail(error, SGPU_ESIGNATURE, "token: the signature does not verify");
}
