/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens that attestation keys sign with ES384. The header, which an attacker may have written, may
 * choose only the certificates (x5c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include <sgpu/base.h>

#include "attest/quote.h"
#include "crypto/internal.h"

enum { TEXT_MAX = 256 };

json_t *sgpu_base64_json(const void *data, size_t size)
{
	char *text = size <= SGPU_QUOTE_MAX ? malloc((size + 2) / 3 * 4 + 1) : NULL;
	json_t *value = NULL;

	if (text) {
		EVP_EncodeBlock((unsigned char *)text, data, (int)size);
		value = json_string(text);
	}
	free(text);
	return value;
}

static int decode_base64(const char *text, size_t length, uint8_t **data, size_t *size,
			 struct sgpu_error *error)
{
	const size_t padding = strcspn(text, "=") < length ? length - strcspn(text, "=") : 0;
	uint8_t *made = malloc(length / 4 * 3 + 1);
	int got = made && length && length % 4 == 0 && padding <= 2
			  ? EVP_DecodeBlock(made, (const unsigned char *)text, (int)length)
			  : -1;

	ERR_clear_error();
	if (got < 0) {
		free(made);
		return sgpu_fail(error, SGPU_EINVALID,
				 "token: 'x5c': %zu characters are no base64 with its padding",
				 length);
	}
	*data = made;
	*size = (size_t)got - padding;
	return 0;
}

static int read_x5c(const json_t *x5c, struct sgpu_chain *chain, struct sgpu_error *error)
{
	const json_t *text;
	size_t i, size = 0;
	uint8_t *der = NULL;

	json_array_foreach ((json_t *)x5c, i, text) {
		int rc = decode_base64(json_string_value(text), json_string_length(text), &der,
				       &size, error);
		if (rc) {
			return rc;
		}
		chain->list[i] = sgpu_certificate_parse(der, size);
		free(der);
		if (!chain->list[i]) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "token: certificate %zu of 'x5c' is malformed", i + 1);
		}
		chain->count = (int)i + 1;
	}
	return 0;
}

/* All that a header may have. */
static const struct sgpu_member header[] = {
	NEEDED("alg", TEXT, .words = "ES384"),
	OPTIONAL("typ", TEXT, .max = TEXT_MAX),
	OPTIONAL("kid", TEXT, .max = TEXT_MAX),
	OPTIONAL("x5c", ARRAY, .min = 1, .max = SGPU_CHAIN_MAX),
	NEEDED("x5c/*", TEXT, .max = 2 * SGPU_CERTIFICATE_MAX),
	{ .path = NULL },
};

void sgpu_jws_clear(struct sgpu_jws *jws)
{
	json_decref(jws->header);
	free(jws->payload);
	memset(jws, 0, sizeof(*jws));
}

static int take_apart(const char *token, size_t size, struct sgpu_jws *jws,
		      struct sgpu_error *error)
{
	const char *first = size <= SGPU_QUOTE_MAX ? memchr(token, '.', size) : NULL;
	const char *second =
		first ? memchr(first + 1, '.', size - (size_t)(first + 1 - token)) : NULL;
	uint8_t *signature = NULL;
	size_t length = 0;

	if (!second) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "token: not three parts with dots between them, or too long");
	}
	jws->signed_text = token;
	jws->signed_size = (size_t)(second - token);
	int rc = sgpu_json_decode(token, (size_t)(first - token), "token: header", &jws->header,
				  error);
	rc = rc ? rc
		: sgpu_base64url_read(first + 1, (size_t)(second - first - 1), "token: payload",
				      (uint8_t **)&jws->payload, &jws->payload_size, error);
	rc = rc ? rc
		: sgpu_base64url_read(second + 1, size - jws->signed_size - 1, "token: signature",
				      &signature, &length, error);
	if (!rc && length != SGPU_ES384_SIZE) {
		rc = sgpu_fail(error, SGPU_EINVALID, "token: the signature has %zu bytes, not %d",
			       length, SGPU_ES384_SIZE);
	}
	if (!rc) {
		memcpy(jws->signature, signature, length);
	}
	free(signature);
	return rc;
}

int sgpu_jws_open(const char *token, size_t size, struct sgpu_jws *jws, struct sgpu_chain *chain,
		  struct sgpu_error *error)
{
	memset(jws, 0, sizeof(*jws));
	memset(chain, 0, sizeof(*chain));
	int rc = take_apart(token, size, jws, error);
	rc = rc ? rc : sgpu_members_check(jws->header, "token: header", header, error);
	rc = rc ? rc : read_x5c(json_object_get(jws->header, "x5c"), chain, error);
	if (rc) {
		sgpu_jws_clear(jws);
		sgpu_chain_clear(chain);
	}
	return rc;
}

int sgpu_jws_check(const struct sgpu_jws *jws, EVP_PKEY *key, struct sgpu_error *error)
{
	bool verified = sgpu_ecdsa_verifies(key, "SHA384", jws->signed_text, jws->signed_size,
					    jws->signature, SGPU_ES384_SIZE / 2);

	return verified ? 0
			: sgpu_fail(error, SGPU_ESIGNATURE, "token: the signature does not verify");
}

static json_t *certificate_json(const X509 *certificate)
{
	unsigned char *der = NULL;
	const int size = i2d_X509(certificate, &der);
	json_t *value = size > 0 ? sgpu_base64_json(der, (size_t)size) : NULL;

	OPENSSL_free(der);
	return value;
}

int sgpu_jws_sign(const struct sgpu_signer *signer, const struct sgpu_chain *chain, const char *typ,
		  const void *payload, size_t size, char **token, struct sgpu_error *error)
{
	json_t *x5c = chain && chain->count ? json_array() : NULL;
	uint8_t signature[SGPU_ES384_SIZE] = { 0 };
	char *text = NULL, last[SGPU_BASE64URL_MAX(SGPU_ES384_SIZE)];
	EVP_MD_CTX *context = sgpu_signer_context(signer);
	int bad = 0;

	for (int i = 0; chain && i < chain->count; i++) {
		bad |= json_array_append_new(x5c, certificate_json(chain->list[i]));
	}
	json_t *made = json_pack("{s:s, s:s*, s:o*}", "alg", "ES384", "typ", typ, "x5c", x5c);
	json_t *encoded = sgpu_json_from_bytes(payload, size);
	int rc = bad || !encoded ? sgpu_fail_nomem(error)
				 : sgpu_jws_text(json_incref(made), json_string_value(encoded),
						 &text, error);

	*token = NULL;
	json_decref(encoded);
	json_decref(made);
	if (!rc && !(context && sgpu_ecdsa_sign(context, text, strlen(text), signature,
						SGPU_ES384_SIZE / 2))) {
		rc = sgpu_crypto_fail(error, "ECDSA");
	}
	sgpu_base64url_encode(signature, sizeof(signature), last);
	if (!rc && asprintf(token, "%s.%s", text, last) < 0) {
		*token = NULL;
		rc = sgpu_fail_nomem(error);
	}
	EVP_MD_CTX_free(context);
	free(text);
	return rc;
}
