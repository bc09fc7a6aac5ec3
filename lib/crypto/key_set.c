/* SPDX-License-Identifier: Apache-2.0
 *
 * The content of a key file: one JSON Web Key or a set (RFC 7517, section 5), with at most one key
 * for each use.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "crypto/internal.h"
#include "crypto/key.h"

enum { KEYS_MAX = 2 };

void sgpu_key_set_clear(struct sgpu_key_set *set)
{
	if (set) {
		sgpu_wipe(set, sizeof(*set));
	}
}

static int add_key(const char *name, const json_t *object, struct sgpu_key_set *set,
		   struct sgpu_error *error)
{
	if (sgpu_signing_is(object)) {
		return set->signing.kind != SGPU_SIGNING_NONE
			       ? sgpu_fail(error, SGPU_EINVALID, "%s: two keys to sign with", name)
			       : sgpu_signing_from_object(name, object, &set->signing, error);
	}
	if (set->has_key) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: two keys to encrypt with", name);
	}
	set->has_key = true;
	return sgpu_key_from_object(name, object, &set->key, error);
}

static int add_keys(const char *name, const json_t *object, struct sgpu_key_set *set,
		    struct sgpu_error *error)
{
	static const char *const members[] = { "keys", NULL };
	const json_t *keys = json_object_get(object, "keys");
	size_t count = json_array_size(keys);
	int rc = 0;

	if (!keys) {
		return add_key(name, object, set, error);
	}
	if (!json_is_array(keys) || !count || count > KEYS_MAX || json_object_size(object) != 1) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: not a JSON Web Key Set of '%s' alone, an array of 1 to %d",
				 name, members[0], KEYS_MAX);
	}
	for (size_t i = 0; !rc && i < count; i++) {
		rc = add_key(name, json_array_get(keys, i), set, error);
	}
	return rc;
}

int sgpu_key_set_parse(const char *text, size_t size, const char *name, struct sgpu_key_set *set,
		       struct sgpu_error *error)
{
	json_t *object = NULL;

	memset(set, 0, sizeof(*set));
	int rc = sgpu_key_object(text, size, name, &object, error);
	rc = rc ? rc : add_keys(name, object, set, error);
	json_decref(object);
	if (rc) {
		sgpu_key_set_clear(set);
	}
	return rc;
}

bool sgpu_key_set_secret(const struct sgpu_key_set *set)
{
	return (set->has_key && set->key.kind != SGPU_KEY_X25519_PUBLIC) ||
	       set->signing.secret_known;
}

static bool put(json_t *json, const char *member, json_t *value)
{
	return json_object_set_new(json, member, value) == 0;
}

static bool put_key(json_t *json, const struct sgpu_key *key)
{
	const bool oct = key->kind == SGPU_KEY_OCT;

	return put(json, "kty", json_string(oct ? "oct" : "OKP")) &&
	       (oct || (put(json, "crv", json_string("X25519")) &&
			put(json, "x", sgpu_json_from_bytes(key->public_half, 32)))) &&
	       (key->kind == SGPU_KEY_X25519_PUBLIC ||
		put(json, oct ? "k" : "d", sgpu_json_from_bytes(key->secret, 32))) &&
	       put(json, "kid", json_string(key->kid));
}

static bool put_signing(json_t *json, const struct sgpu_signing_key *key)
{
	json_t *members = sgpu_signing_public_json(key);
	const bool done = members && json_object_update(json, members) == 0;

	json_decref(members);
	return done &&
	       (!key->secret_known || put(json, "d", sgpu_json_from_bytes(key->secret, 32))) &&
	       put(json, "use", json_string("sig")) &&
	       put(json, "alg", json_string(sgpu_signing_algorithm(key))) &&
	       put(json, "kid", json_string(key->kid));
}

int sgpu_key_set_text(const struct sgpu_key_set *set, char **text, size_t *size,
		      struct sgpu_error *error)
{
	const bool signs = set->signing.kind != SGPU_SIGNING_NONE;
	json_t *key = json_object(), *signing = json_object();
	json_t *both = json_pack("{s:[O, O]}", "keys", key, signing);
	const json_t *json = !signs ? key : set->has_key ? both : signing;
	int rc = SGPU_OK;

	*size = 0;
	*text = malloc(SGPU_KEY_TEXT_MAX);
	if (!set->has_key && !signs) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "there is no key to be written");
	} else if (!*text || !both || (set->has_key && !put_key(key, &set->key)) ||
		   (signs && !put_signing(signing, &set->signing))) {
		rc = sgpu_fail_nomem(error);
	} else {
		*size = json_dumpb(json, *text, SGPU_KEY_TEXT_MAX, JSON_COMPACT);
		rc = *size > 0 ? SGPU_OK : sgpu_fail_nomem(error);
		memcpy(*text + *size, "\n", 2);
		++*size;
	}
	if (rc) {
		*size = 0;
		free(*text);
		*text = NULL;
	}
	json_decref(both);
	json_decref(signing);
	json_decref(key);
	return rc;
}

int sgpu_key_set_public(const struct sgpu_key_set *set, struct sgpu_key_set *public_set,
			struct sgpu_error *error)
{
	struct sgpu_key_set made = { .has_key = set->has_key && set->key.kind != SGPU_KEY_OCT };

	if (!made.has_key && set->signing.kind == SGPU_SIGNING_NONE) {
		return sgpu_fail(error, SGPU_EINVALID, "a symmetric (oct) key has no public half");
	}
	int rc = made.has_key ? sgpu_key_public(&set->key, &made.key, error) : 0;
	if (!rc) {
		sgpu_signing_public(&set->signing, &made.signing);
		*public_set = made;
	}
	return rc;
}
