/* SPDX-License-Identifier: Apache-2.0
 *
 * Detached JSON Web Signatures (RFC 7515, appendix F), compact. The header is what an attacker
 * writes: it names the key that the token is by, and nothing that is believed.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/json.h>

#include "crypto/internal.h"
#include "crypto/key.h"

enum { HEADER_MAX = 600, DIGITS = SGPU_BASE64URL_MAX(SGPU_SIGNATURE_SIZE) };

static const char *algorithm(const struct sgpu_signing_key *key)
{
	return key->kind == SGPU_SIGNING_P256 ? "ES256" : "EdDSA";
}

/* One header for each key and type, so that reading one means writing it again and comparing. */
static int header_text(const struct sgpu_signing_key *key, const char *typ, char **text,
		       size_t *size, struct sgpu_error *error)
{
	const bool ec = key->kind == SGPU_SIGNING_P256;
	json_t *jwk = json_pack("{s:s, s:s, s:o}", "crv", sgpu_signing_name(key->kind), "kty",
				ec ? "EC" : "OKP", "x", sgpu_json_from_bytes(key->public_half, 32));
	int code =
		jwk && (!ec || !json_object_set_new(
				       jwk, "y", sgpu_json_from_bytes(key->public_half + 32, 32)))
			? 0
			: sgpu_fail_nomem(error);
	json_t *header = code ? NULL
			      : json_pack("{s:s, s:O, s:s, s:s}", "alg", algorithm(key), "jwk", jwk,
					  "kid", key->kid, "typ", typ);

	if (!code) {
		code = header ? sgpu_json_canonical(header, text, size, error)
			      : sgpu_fail_nomem(error);
	}
	json_decref(header);
	json_decref(jwk);
	return code;
}

/* The signed text: HEADER "." PAYLOAD. */
static int signed_text(const char *header, size_t header_size, const void *payload, size_t size,
		       char **text, struct sgpu_error *error)
{
	*text = malloc(SGPU_BASE64URL_MAX(header_size) + SGPU_BASE64URL_MAX(size) + 1);
	if (!*text) {
		return sgpu_fail_nomem(error);
	}
	sgpu_base64url_encode(header, header_size, *text);
	strcat(*text, ".");
	sgpu_base64url_encode(payload, size, *text + strlen(*text));
	return 0;
}

int sgpu_detached_sign(const struct sgpu_signing_key *key, const char *typ, const void *payload,
		       size_t size, char **token, struct sgpu_error *error)
{
	uint8_t signature[SGPU_SIGNATURE_SIZE];
	char *header = NULL, *text = NULL, *made = NULL;
	size_t header_size = 0;
	int code = header_text(key, typ, &header, &header_size, error);

	*token = NULL;
	if (!code) {
		code = signed_text(header, header_size, payload, size, &text, error);
	}
	if (!code) {
		code = sgpu_signing_sign(key, text, strlen(text), signature, error);
	}
	if (!code) {
		made = malloc(SGPU_BASE64URL_MAX(header_size) + DIGITS + 2);
		code = made ? 0 : sgpu_fail_nomem(error);
	}
	if (!code) {
		sgpu_base64url_encode(header, header_size, made);
		strcat(made, "..");
		sgpu_base64url_encode(signature, sizeof(signature), made + strlen(made));
		*token = made;
	}
	free(header);
	free(text);
	return code;
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
	int code = sgpu_json_bytes(jwk, where, "x", key->public_half, 32, error);
	if (!code && ec) {
		code = sgpu_json_bytes(jwk, where, "y", key->public_half + 32, 32, error);
	}
	if (!code) {
		code = sgpu_signing_check(key, error)
			       ? malformed("its key is not a point of its curve", error)
			       : 0;
	}
	return code ? code : sgpu_signing_thumbprint(key, error);
}

/* The header's text, and its key. Any other member, and any other form, is refused. */
static int read_header(const char *text, size_t size, const char *typ, struct sgpu_signing_key *key,
		       struct sgpu_error *error)
{
	json_t *header = NULL;
	char *again = NULL;
	size_t again_size = 0;

	if (sgpu_json_parse(text, size, &header, NULL, NULL, NULL) || !json_is_object(header)) {
		json_decref(header);
		return malformed("its header is not JSON", error);
	}
	int code = key_of(header, key, error);
	if (!code) {
		code = header_text(key, typ, &again, &again_size, error);
	}
	if (!code && (again_size != size || memcmp(again, text, size))) {
		code = malformed("its header has other members, values or another form than 'alg', "
				 "'jwk', 'kid' and 'typ' "
				 "of such a signature",
				 error);
	}
	free(again);
	json_decref(header);
	return code;
}

static int parse(const char *token, const char *typ, struct sgpu_signing_key *key,
		 char header[HEADER_MAX], size_t *header_size,
		 uint8_t signature[SGPU_SIGNATURE_SIZE], struct sgpu_error *error)
{
	const size_t length = strnlen(token, SGPU_DETACHED_MAX + 1), digits = strcspn(token, ".");
	const size_t size = digits / 4 * 3 + (digits % 4 ? digits % 4 - 1 : 0);
	char encoded[SGPU_DETACHED_MAX + 1];

	memset(key, 0, sizeof(*key));
	if (length > SGPU_DETACHED_MAX || strncmp(token + digits, "..", 2)) {
		return malformed("not a detached JWS, HEADER..SIGNATURE", error);
	}
	memcpy(encoded, token, digits);
	encoded[digits] = '\0';
	if (!size || digits % 4 == 1 || size > HEADER_MAX ||
	    sgpu_base64url_decode(encoded, header, size, NULL)) {
		return malformed("its header is not base64url, or too long", error);
	}
	if (sgpu_base64url_decode(token + digits + 2, signature, SGPU_SIGNATURE_SIZE, NULL)) {
		return malformed("it has not the 64 bytes of a signature in base64url", error);
	}
	*header_size = size;
	int code = read_header(header, size, typ, key, error);
	if (code) {
		memset(key, 0, sizeof(*key));
	}
	return code;
}

int sgpu_detached_parse(const char *token, const char *typ, struct sgpu_signing_key *key,
			uint8_t signature[SGPU_SIGNATURE_SIZE], struct sgpu_error *error)
{
	char header[HEADER_MAX];
	size_t header_size;

	return parse(token, typ, key, header, &header_size, signature, error);
}

int sgpu_detached_verify(const char *token, const char *typ, const void *payload, size_t size,
			 struct sgpu_signing_key *key, struct sgpu_error *error)
{
	uint8_t signature[SGPU_SIGNATURE_SIZE];
	char header[HEADER_MAX], *text = NULL;
	size_t header_size = 0;
	int code = parse(token, typ, key, header, &header_size, signature, error);

	if (!code) {
		code = signed_text(header, header_size, payload, size, &text, error);
	}
	if (!code) {
		code = sgpu_signing_verify(key, text, strlen(text), signature, error);
	}
	free(text);
	return code;
}
