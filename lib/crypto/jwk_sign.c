/* SPDX-License-Identifier: Apache-2.0
 *
 * Signing keys as JWK (RFC 7517, RFC 7518, RFC 8037): text, thumbprint, parser, generation.
 */
#include <string.h>

#include <sgpu/base.h>

#include "crypto/internal.h"
#include "crypto/key.h"

const char *sgpu_signing_algorithm(const struct sgpu_signing_key *key)
{
	return key->kind == SGPU_SIGNING_P256 ? "ES256" : "EdDSA";
}

json_t *sgpu_signing_public_json(const struct sgpu_signing_key *key)
{
	return sgpu_key_public_json(sgpu_signing_name(key->kind), key->public_half,
				    key->kind == SGPU_SIGNING_P256 ? key->public_half + 32 : NULL);
}

int sgpu_signing_thumbprint(struct sgpu_signing_key *key, struct sgpu_error *error)
{
	return sgpu_key_thumbprint_of(sgpu_signing_public_json(key), key->kid, error);
}

int sgpu_signing_generate(struct sgpu_signing_key *key, struct sgpu_error *error)
{
	memset(key, 0, sizeof(*key));
	key->kind = SGPU_SIGNING_ED25519;
	key->secret_known = true;
	int rc = sgpu_raw_generate("ED25519", key->secret, key->public_half, error);
	rc = rc ? rc : sgpu_signing_thumbprint(key, error);
	if (rc) {
		sgpu_wipe(key, sizeof(*key));
	}
	return rc;
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
