/* SPDX-License-Identifier: Apache-2.0
 *
 * Detached JSON Web Signatures (RFC 7515, appendix F), compact. An attacker may have written the
 * header: it names the key that the signature is checked with, and nothing in it is believed.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "crypto/internal.h"
#include "crypto/key.h"

/* Makes the header. A key and a type have only one header, so a reader makes it again and
 * compares. */
static json_t *header_of(const struct sgpu_signing_key *key, const char *typ)
{
	return json_pack("{s:s, s:o, s:s, s:s}", "alg", sgpu_signing_algorithm(key), "jwk",
			 sgpu_signing_public_json(key), "kid", key->kid, "typ", typ);
}

int sgpu_detached_sign(const struct sgpu_signing_key *key, const char *typ, const void *payload,
		       size_t size, char **token, struct sgpu_error *error)
{
	uint8_t signature[SGPU_SIGNATURE_SIZE];
	char *text = NULL;
	int rc = sgpu_jws_text(header_of(key, typ), payload, size, &text, error);

	*token = NULL;
	rc = rc ? rc : sgpu_signing_sign(key, text, strlen(text), signature, error);
	rc = rc ? rc : sgpu_jws_token(text, true, signature, sizeof(signature), token, error);
	free(text);
	return rc;
}

static int malformed(const char *why, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EINVALID, "signature: %s", why);
}

static int key_of(const json_t *header, struct sgpu_signing_key *key, struct sgpu_error *error)
{
	static const char where[] = "signature: header: jwk";
	const json_t *jwk = json_object_get(header, "jwk");
	const char *alg = json_string_value(json_object_get(header, "alg"));
	const bool ec = alg && !strcmp(alg, "ES256");

	if (!ec && (!alg || strcmp(alg, "EdDSA"))) {
		return malformed("'alg' is neither EdDSA nor ES256", error);
	}
	key->kind = ec ? SGPU_SIGNING_P256 : SGPU_SIGNING_ED25519;
	int rc = sgpu_json_bytes(jwk, where, "x", key->public_half, 32, error);
	if (!rc && ec) {
		rc = sgpu_json_bytes(jwk, where, "y", key->public_half + 32, 32, error);
	}
	rc = rc ? rc
	     : sgpu_signing_check(key, error)
		     ? malformed("its key is not a point of its curve", error)
		     : 0;
	return rc ? rc : sgpu_signing_thumbprint(key, error);
}

/* Reads the key in the header, and makes the text that it signed. A header with other members or in
 * another form is refused. */
static int parse(const char *token, const char *typ, const void *payload, size_t size,
		 struct sgpu_signing_key *key, char **text, uint8_t signature[SGPU_SIGNATURE_SIZE],
		 struct sgpu_error *error)
{
	const size_t length = strnlen(token, SGPU_DETACHED_MAX + 1), digits = strcspn(token, ".");
	struct sgpu_jws jws = { 0 };

	*text = NULL;
	memset(key, 0, sizeof(*key));
	if (length > SGPU_DETACHED_MAX || strncmp(token + digits, "..", 2)) {
		return malformed("not a detached JWS, HEADER..SIGNATURE", error);
	}
	int rc = sgpu_jws_parse(token, length, SGPU_SIGNATURE_SIZE, "signature", &jws, error);
	rc = rc ? rc : key_of(jws.header, key, error);
	rc = rc ? rc : sgpu_jws_text(header_of(key, typ), payload, size, text, error);
	if (!rc && strncmp(*text, token, digits + 1)) {
		rc = malformed("its header has other members, values or another form than 'alg', "
			       "'jwk', 'kid' and 'typ' "
			       "of such a signature",
			       error);
	}
	memcpy(signature, jws.signature, SGPU_SIGNATURE_SIZE);
	sgpu_jws_clear(&jws);
	if (rc) {
		memset(key, 0, sizeof(*key));
		free(*text);
		*text = NULL;
	}
	return rc;
}

int sgpu_detached_parse(const char *token, const char *typ, struct sgpu_signing_key *key,
			uint8_t signature[SGPU_SIGNATURE_SIZE], struct sgpu_error *error)
{
	char *text = NULL;
	int rc = parse(token, typ, "", 0, key, &text, signature, error);

	free(text);
	return rc;
}

int sgpu_detached_verify(const char *token, const char *typ, const void *payload, size_t size,
			 struct sgpu_signing_key *key, struct sgpu_error *error)
{
	uint8_t signature[SGPU_SIGNATURE_SIZE];
	char *text = NULL;
	int rc = parse(token, typ, payload, size, key, &text, signature, error);

	rc = rc ? rc : sgpu_signing_verify(key, text, strlen(text), signature, error);
	free(text);
	return rc;
}
