/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of a JWS. An attacker may have written the header: it names the key that the signature
 * is checked with, and nothing in it is believed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "crypto/internal.h"
#include "crypto/key.h"

int sgpu_jws_text(json_t *header, const char *payload, char **text, struct sgpu_error *error)
{
	char *canonical = NULL;
	size_t length = 0;
	int rc = header ? sgpu_json_canonical(header, &canonical, &length, error)
			: sgpu_fail_nomem(error);

	json_decref(header);
	*text = rc ? NULL : malloc(SGPU_BASE64URL_MAX(length) + 1 + strlen(payload) + 1);
	if (*text) {
		sgpu_base64url_encode(canonical, length, *text);
		strcat(*text, ".");
		strcat(*text, payload);
	}
	free(canonical);
	return rc || *text ? rc : sgpu_fail_nomem(error);
}

/* Makes the text to sign. A key and a type have only one header, so a reader makes it again and
 * compares. */
static int text_of(const struct sgpu_key *key, const char *typ, const char *payload, char **text,
		   struct sgpu_error *error)
{
	json_t *header = json_pack("{s:s, s:o, s:s, s:s}", "alg", sgpu_key_algorithm(key), "jwk",
				   sgpu_key_public_json(key), "kid", key->kid, "typ", typ);

	return sgpu_jws_text(header, payload, text, error);
}

int sgpu_signature_make(const struct sgpu_key *key, const char *typ, const char *payload,
			json_t **entry, struct sgpu_error *error)
{
	uint8_t signature[SGPU_SIGNATURE_SIZE];
	char *text = NULL;
	int rc = key->secret_known && (key->kind == SGPU_KEY_ED25519 || key->kind == SGPU_KEY_P256)
			 ? text_of(key, typ, payload, &text, error)
			 : sgpu_fail(error, SGPU_EKEY, "the key '%s' cannot sign", key->kid);

	*entry = NULL;
	rc = rc ? rc : sgpu_signing_sign(key, text, strlen(text), signature, error);
	if (!rc) {
		*entry = json_pack("{s:s%, s:o}", "protected", text, strcspn(text, "."),
				   "signature", sgpu_json_from_bytes(signature, sizeof(signature)));
		rc = *entry ? 0 : sgpu_fail_nomem(error);
	}
	free(text);
	return rc;
}

static int malformed(const char *why, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EINVALID, "signature: %s", why);
}

static int key_of(const json_t *header, struct sgpu_key *key, struct sgpu_error *error)
{
	static const char where[] = "signature: header: jwk";
	const json_t *jwk = json_object_get(header, "jwk");
	const char *alg = json_string_value(json_object_get(header, "alg"));
	const bool ec = alg && !strcmp(alg, "ES256");

	if (!ec && (!alg || strcmp(alg, "EdDSA"))) {
		return malformed("'alg' is neither EdDSA nor ES256", error);
	}
	key->kind = ec ? SGPU_KEY_P256 : SGPU_KEY_ED25519;
	int rc = sgpu_json_bytes(jwk, where, "x", key->public_half, 32, error);
	if (!rc && ec) {
		rc = sgpu_json_bytes(jwk, where, "y", key->public_half + 32, 32, error);
	}
	rc = rc				  ? rc
	     : sgpu_key_check(key, error) ? malformed("its key is not a point of its curve", error)
					  : 0;
	return rc ? rc : sgpu_key_thumbprint(key, error);
}

int sgpu_signature_key(const json_t *entry, const char *typ, struct sgpu_key *key,
		       struct sgpu_error *error)
{
	uint8_t signature[SGPU_SIGNATURE_SIZE];
	const char *protected = NULL;
	char *text = NULL;
	json_t *header = NULL;
	const struct sgpu_field fields[] = {
		{ "protected", SGPU_FIELD_TEXT, .to = &protected },
		SGPU_BYTES("signature", signature),
	};
	int rc = sgpu_fields_read(entry, "signature", fields, SGPU_ARRAY_LENGTH(fields), error);

	memset(key, 0, sizeof(*key));
	if (!rc && strlen(protected) > SGPU_PROTECTED_MAX) {
		rc = malformed("its header is too long", error);
	}
	rc = rc ? rc
		: sgpu_json_decode(protected, strlen(protected), "signature: header", &header,
				   error);
	rc = rc ? rc : key_of(header, key, error);
	json_decref(header);
	rc = rc ? rc : text_of(key, typ, "", &text, error);
	if (!rc && (strcspn(text, ".") != strlen(protected) ||
		    strncmp(text, protected, strlen(protected)) != 0)) {
		rc = malformed("its header has other members, values or another form than 'alg', "
			       "'jwk', 'kid' and 'typ' of such a signature",
			       error);
	}
	if (rc) {
		memset(key, 0, sizeof(*key));
	}
	free(text);
	return rc;
}

int sgpu_signature_verify(const json_t *entry, const char *payload, const struct sgpu_key *key,
			  struct sgpu_error *error)
{
	const char *protected = json_string_value(json_object_get(entry, "protected"));
	uint8_t signature[SGPU_SIGNATURE_SIZE];
	char *text = NULL;
	int rc = sgpu_json_bytes(entry, "signature", "signature", signature, sizeof(signature),
				 error);

	if (!rc && asprintf(&text, "%s.%s", protected, payload) < 0) {
		text = NULL;
		rc = sgpu_fail_nomem(error);
	}
	rc = rc ? rc : sgpu_signing_verify(key, text, strlen(text), signature, error);
	free(text);
	return rc;
}
