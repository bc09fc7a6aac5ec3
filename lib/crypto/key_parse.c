/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys to encrypt with, from JWK text (RFC 7517, RFC 8037), strictly.
 */
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "crypto/internal.h"
#include "crypto/key.h"

int sgpu_key_object(const char *text, size_t size, const char *name, json_t **object,
		    struct sgpu_error *error)
{
	size_t position = 0;
	int line, column;

	*object = NULL;
	if (size > SGPU_KEY_TEXT_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: longer than %d bytes, so not a key",
				 name, SGPU_KEY_TEXT_MAX);
	}
	if (sgpu_json_parse_at(text, size, false, SGPU_JSON_VALUES_MAX, object, &position, NULL)) {
		sgpu_json_place(text, position, &line, &column);
		return sgpu_fail(error, SGPU_EINVALID, "%s:%d:%d: not a JSON Web Key", name, line,
				 column);
	}
	if (!json_is_object(*object)) {
		json_decref(*object);
		*object = NULL;
		return sgpu_fail(error, SGPU_EINVALID, "%s: not a JSON Web Key: not an object",
				 name);
	}
	return 0;
}

const char *sgpu_key_shown(const char *value)
{
	enum { SHOWN_MAX = 23 };

	return strlen(value) <= SHOWN_MAX ? value : "...";
}

static bool one_of(const char *text, const char *const *list)
{
	for (; *list; list++) {
		if (!strcmp(text, *list)) {
			return true;
		}
	}
	return false;
}

static bool valid_operations(const json_t *value)
{
	size_t count = json_array_size(value);

	if (!json_is_array(value)) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		if (!json_is_string(json_array_get(value, i))) {
			return false;
		}
		for (size_t j = 0; j < i; j++) {
			if (json_equal(json_array_get(value, i), json_array_get(value, j))) {
				return false;
			}
		}
	}
	return true;
}

/* Checks the registered optional members, which must not restrict the key to another use. */
static int check_optional(const json_t *object, const char *name, const char *wanted,
			  const char *const *algorithms, struct sgpu_error *error)
{
	const json_t *use = json_object_get(object, "use"), *alg = json_object_get(object, "alg");
	const json_t *kid = json_object_get(object, "kid"),
		     *ops = json_object_get(object, "key_ops");
	const json_t *ext = json_object_get(object, "ext");
	const char *fault = kid && !json_is_string(kid)	  ? "'kid' is not a string"
			    : alg && !json_is_string(alg) ? "'alg' is not a string"
			    : ops && !valid_operations(ops)
				    ? "'key_ops' is not an array of different strings"
			    : ext && !json_is_boolean(ext) ? "'ext' is not true or false"
							   : NULL;

	if (fault) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: %s", name, fault);
	}
	if (use && (!json_is_string(use) || strcmp(json_string_value(use), wanted))) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: 'use' is not '%s': the key is meant for something else", name,
				 wanted);
	}
	if (alg && !one_of(json_string_value(alg), algorithms)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: 'alg' is '%s': the key is meant for something else", name,
				 sgpu_key_shown(json_string_value(alg)));
	}
	return 0;
}

/* RFC 7517 allows a reader to ignore unknown members. They are refused here, since such a member
 * may restrict the key. */
int sgpu_key_members(const json_t *object, const char *name, const char *const *known,
		     const char *use, const char *const *algorithms, struct sgpu_error *error)
{
	static const char *const optional[] = {
		"kty", "kid", "use", "alg", "key_ops", "ext", NULL
	};
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
		if (!one_of(key, known) && !one_of(key, optional)) {
			return sgpu_fail(error, SGPU_EINVALID, "%s: unknown member '%s'", name,
					 sgpu_key_shown(key));
		}
	}
	return check_optional(object, name, use, algorithms, error);
}

static int parse_x25519(const char *name, const json_t *object, struct sgpu_key *key,
			struct sgpu_error *error)
{
	const json_t *curve = json_object_get(object, "crv");
	uint8_t derived[32] = { 0 };

	if (!json_is_string(curve) || strcmp(json_string_value(curve), "X25519")) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'crv' is %s%s%s, not 'X25519'", name,
				 json_is_string(curve) ? "'" : "",
				 json_is_string(curve) ? sgpu_key_shown(json_string_value(curve))
				 : curve	       ? "not a string"
						       : "missing",
				 json_is_string(curve) ? "'" : "");
	}
	int rc = sgpu_json_bytes(object, name, "x", key->public_half, 32, error);
	key->kind = SGPU_KEY_X25519_PUBLIC;
	rc = rc ? rc : sgpu_x25519_check(key->public_half, error);
	if (rc == SGPU_EAUTH) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: 'x' is a point of low order: anybody can open what is "
				 "sealed to it",
				 name);
	}
	if (rc || !json_object_get(object, "d")) {
		return rc;
	}
	key->kind = SGPU_KEY_X25519;
	rc = sgpu_json_bytes(object, name, "d", key->secret, 32, error);
	rc = rc ? rc : sgpu_x25519_public(key->secret, derived, error);
	if (!rc && !sgpu_equal(derived, key->public_half, sizeof(derived))) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: 'x' is not the public key of 'd'", name);
	}
	return rc;
}

int sgpu_key_from_object(const char *name, const json_t *object, struct sgpu_key *key,
			 struct sgpu_error *error)
{
	static const char *const algorithms[] = { "A256GCM", "A256KW",	       "A256GCMKW", "dir",
						  "ECDH-ES", "ECDH-ES+A256KW", NULL };
	static const char *const oct_members[] = { "k", NULL };
	static const char *const okp_members[] = { "crv", "x", "d", NULL };
	const json_t *type = json_object_get(object, "kty");

	if (!json_is_object(object)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: not a JSON Web Key: not an object",
				 name);
	}
	if (json_object_get(object, "keys")) {
		sgpu_fail(error, SGPU_EINVALID, "%s: a set of keys, not a key", name);
		return sgpu_hint(error, "put the one that you mean into a file of its own");
	}
	if (!json_is_string(type)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: not a JSON Web Key: 'kty' is %s", name,
				 type ? "not a string" : "missing");
	}
	const bool oct = !strcmp(json_string_value(type), "oct");
	if (!oct && strcmp(json_string_value(type), "OKP")) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'kty' is '%s', not 'oct' or 'OKP'",
				 name, sgpu_key_shown(json_string_value(type)));
	}
	int rc = sgpu_key_members(object, name, oct ? oct_members : okp_members, "enc", algorithms,
				  error);
	key->kind = SGPU_KEY_OCT;
	rc = rc	   ? rc
	     : oct ? sgpu_json_bytes(object, name, "k", key->secret, 32, error)
		   : parse_x25519(name, object, key, error);
	return rc ? rc : sgpu_key_thumbprint(key, error);
}

int sgpu_key_parse(const char *text, size_t size, const char *name, struct sgpu_key *key,
		   struct sgpu_error *error)
{
	json_t *object = NULL;

	memset(key, 0, sizeof(*key));
	int rc = sgpu_key_object(text, size, name, &object, error);
	rc = rc ? rc : sgpu_key_from_object(name, object, key, error);
	json_decref(object);
	if (rc) {
		sgpu_key_clear(key);
	}
	return rc;
}
