/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of claims that were checked.
 */
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"

const json_t *sgpu_claims_own(const json_t *object)
{
	return json_object_get(object, SGPU_OWN);
}

const json_t *sgpu_claims_submod(const json_t *claims, const char *name)
{
	return json_object_get(json_object_get(claims, "submods"), name);
}

const json_t *sgpu_claims_device_of(const json_t *claims, const char **name)
{
	static const char *const names[] = { "gpu-0", "cpu" };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(names); i++) {
		const json_t *device = sgpu_claims_submod(claims, names[i]);
		if (device) {
			if (name) {
				*name = names[i];
			}
			return device;
		}
	}
	return NULL;
}

int sgpu_quote_recipient(const json_t *claims, struct sgpu_key *key, struct sgpu_error *error)
{
	static const char *const members[] = { "jwk", NULL };
	const json_t *confirmation = json_object_get(claims, "cnf");

	memset(key, 0, sizeof(*key));
	if (!confirmation) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the quote names no key that batches can be sealed to");
	}
	int code = sgpu_json_only(confirmation, "claims: 'cnf'", members, error);
	if (code) {
		return code;
	}
	char *text =
		json_dumps(json_object_get(confirmation, "jwk"), JSON_COMPACT | JSON_ENCODE_ANY);
	if (!text) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: 'cnf' has no 'jwk'");
	}
	code = sgpu_key_parse(text, strlen(text), "claims: 'cnf'", key, error);
	sgpu_free_wiped(&text, strlen(text));
	if (!code && key->kind != SGPU_KEY_X25519_PUBLIC) {
		code = sgpu_fail(error, SGPU_EINVALID, "claims: 'cnf' is no public X25519 key");
	}
	if (code) {
		sgpu_key_clear(key);
	}
	return code;
}
