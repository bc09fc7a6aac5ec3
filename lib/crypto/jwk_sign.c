/* SPDX-License-Identifier: Apache-2.0
 *
 * Signing keys as JWK (RFC 7517, RFC 7518, RFC 8037): text, thumbprint, parser, and a new one.
 */
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "crypto/internal.h"
#include "crypto/key.h"

static void public_members(const struct sgpu_signing_key *key, char text[SGPU_KEY_LINE_MAX / 2])
{
	const bool ec = key->kind == SGPU_SIGNING_P256;

	sgpu_key_public_text(sgpu_signing_name(key->kind), key->public_half,
			     ec ? key->public_half + 32 : NULL, text);
}

int sgpu_signing_thumbprint(struct sgpu_signing_key *key, struct sgpu_error *error)
{
	char members[SGPU_KEY_LINE_MAX / 2];

	public_members(key, members);
	return sgpu_key_thumbprint_of(members, key->kid, error);
}

int sgpu_signing_generate(struct sgpu_signing_key *key, struct sgpu_error *error)
{
	EVP_PKEY *made = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	size_t secret_size = 32, public_size = 32;

	memset(key, 0, sizeof(*key));
	key->kind = SGPU_SIGNING_ED25519;
	key->secret_known = true;
	int rc = made && EVP_PKEY_get_raw_private_key(made, key->secret, &secret_size) == 1 &&
				 EVP_PKEY_get_raw_public_key(made, key->public_half,
							     &public_size) == 1
			 ? sgpu_signing_thumbprint(key, error)
			 : sgpu_crypto_fail(error, "making an Ed25519 key");
	EVP_PKEY_free(made);
	if (rc) {
		sgpu_wipe(key, sizeof(*key));
	}
	return rc;
}

size_t sgpu_signing_line(const struct sgpu_signing_key *key, char line[SGPU_KEY_LINE_MAX])
{
	char members[SGPU_KEY_LINE_MAX / 2], secret[SGPU_KEY_DIGITS] = "";

	public_members(key, members);
	if (key->secret_known) {
		sgpu_base64url_encode(key->secret, sizeof(key->secret), secret);
	}
	int length = snprintf(line, SGPU_KEY_LINE_MAX,
			      "{%s%s%s%s,\"use\":\"sig\",\"alg\":\"%s\",\"kid\":\"%s\"}", members,
			      key->secret_known ? ",\"d\":\"" : "", secret,
			      key->secret_known ? "\"" : "",
			      key->kind == SGPU_SIGNING_P256 ? "ES256" : "EdDSA", key->kid);
	sgpu_wipe(secret, sizeof(secret));
	return (size_t)length;
}

static bool is(const json_t *object, const char *member, const char *value)
{
	const char *text = json_string_value(json_object_get(object, member));

	return text && !strcmp(text, value);
}

bool sgpu_signing_is(const json_t *object)
{
	return is(object, "kty", "EC") ||
	       (is(object, "kty", "OKP") && is(object, "crv", "Ed25519"));
}

int sgpu_signing_from_object(const char *name, const json_t *object, struct sgpu_signing_key *key,
			     struct sgpu_error *error)
{
	static const char *const ed25519[] = { "crv", "x", "d", NULL }, *const eddsa[] = { "EdDSA",
											   NULL };
	static const char *const p256[] = { "crv", "x", "y", "d", NULL }, *const es256[] = {
		"ES256", NULL
	};
	const bool ec = is(object, "kty", "EC");
	struct sgpu_error inner = { 0 };

	memset(key, 0, sizeof(*key));
	if (ec && !is(object, "crv", "P-256")) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'crv' of an EC key is not 'P-256'",
				 name);
	}
	key->kind = ec ? SGPU_SIGNING_P256 : SGPU_SIGNING_ED25519;
	int rc = sgpu_key_members(object, name, ec ? p256 : ed25519, "sig", ec ? es256 : eddsa,
				  error);
	rc = rc ? rc : sgpu_json_bytes(object, name, "x", key->public_half, 32, error);
	if (!rc && ec) {
		rc = sgpu_json_bytes(object, name, "y", key->public_half + 32, 32, error);
	}
	if (!rc && json_object_get(object, "d")) {
		key->secret_known = true;
		rc = sgpu_json_bytes(object, name, "d", key->secret, 32, error);
	}
	if (!rc && sgpu_signing_check(key, &inner)) {
		rc = sgpu_fail(error, inner.code, "%s: the %s key: %s", name,
			       sgpu_signing_name(key->kind), inner.text);
	}
	rc = rc ? rc : sgpu_signing_thumbprint(key, error);
	if (rc) {
		sgpu_wipe(key, sizeof(*key));
	}
	return rc;
}
