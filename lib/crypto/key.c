/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON Web Keys (RFC 7517, RFC 7518, RFC 8037): making them, their public half, their thumbprint
 * (RFC 7638), their strict parser; and the content of a key file: a key, or a set of at most one
 * for each use.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "crypto/internal.h"
#include "crypto/key.h"

/* The first algorithm of a key that signs is that of its JWS. */
static const char *const encrypting[] = { "A256GCM", "A256KW",	       "A256GCMKW", "dir",
					  "ECDH-ES", "ECDH-ES+A256KW", NULL };
static const char *const eddsa[] = { "EdDSA", NULL }, *const es256[] = { "ES256", NULL };
static const char *const oct_members[] = { "k", NULL },
			 *const okp_members[] = { "crv", "x", "d", NULL },
			 *const ec_members[] = { "crv", "x", "y", "d", NULL };
static const struct form {
	const char *kty, *crv, *use;
	const char *const *members, *const *algorithms;
} forms[] = {
	[SGPU_KEY_OCT] = { "oct", "oct", "enc", oct_members, encrypting },
	[SGPU_KEY_X25519] = { "OKP", "X25519", "enc", okp_members, encrypting },
	[SGPU_KEY_ED25519] = { "OKP", "Ed25519", "sig", okp_members, eddsa },
	[SGPU_KEY_P256] = { "EC", "P-256", "sig", ec_members, es256 },
};

const char *sgpu_key_name(enum sgpu_key_kind kind)
{
	return kind == SGPU_KEY_NONE ? "none" : forms[kind].crv;
}

const char *sgpu_key_algorithm(const struct sgpu_key *key)
{
	return forms[key->kind].algorithms[0];
}

static bool signs(enum sgpu_key_kind kind)
{
	return kind == SGPU_KEY_ED25519 || kind == SGPU_KEY_P256;
}

json_t *sgpu_key_public_json(const struct sgpu_key *key)
{
	const struct form *form = &forms[key->kind];
	json_t *json = json_pack("{s:s, s:s, s:o}", "kty", form->kty, "crv", form->crv, "x",
				 sgpu_json_from_bytes(key->public_half, 32));

	if (key->kind == SGPU_KEY_P256 &&
	    json_object_set_new(json, "y", sgpu_json_from_bytes(key->public_half + 32, 32))) {
		json_decref(json);
		return NULL;
	}
	return json;
}

int sgpu_key_thumbprint(struct sgpu_key *key, struct sgpu_error *error)
{
	json_t *members = key->kind == SGPU_KEY_OCT
				  ? json_pack("{s:s, s:o}", "kty", "oct", "k",
					      sgpu_json_from_bytes(key->secret, 32))
				  : sgpu_key_public_json(key);
	uint8_t digest[SGPU_SHA256_SIZE];
	char *text = NULL;
	size_t size = 0;
	int rc = members ? sgpu_json_canonical(members, &text, &size, error)
			 : sgpu_fail_nomem(error);

	rc = rc ? rc : sgpu_sha256(text, size, digest, error);
	if (!rc) {
		sgpu_base64url_encode(digest, sizeof(digest), key->kid);
	}
	sgpu_free_wiped(&text, size);
	json_decref(members);
	return rc;
}

int sgpu_key_generate(enum sgpu_key_kind kind, struct sgpu_key *key, struct sgpu_error *error)
{
	int rc;

	*key = (struct sgpu_key){ .kind = kind, .secret_known = true };
	if (kind == SGPU_KEY_OCT) {
		rc = sgpu_random(key->secret, sizeof(key->secret), error);
	} else if (kind == SGPU_KEY_X25519 || kind == SGPU_KEY_ED25519) {
		rc = sgpu_raw_generate(forms[kind].crv, key->secret, key->public_half, error);
	} else {
		rc = sgpu_fail(error, SGPU_EUSAGE, "keys of this kind are not made here");
	}
	rc = rc ? rc : sgpu_key_thumbprint(key, error);
	if (rc) {
		sgpu_key_clear(key);
	}
	return rc;
}

int sgpu_key_public(const struct sgpu_key *key, struct sgpu_key *public_key,
		    struct sgpu_error *error)
{
	if (key->kind == SGPU_KEY_OCT) {
		return sgpu_fail(error, SGPU_EINVALID, "a symmetric (oct) key has no public half");
	}
	*public_key = *key;
	public_key->secret_known = false;
	sgpu_wipe(public_key->secret, sizeof(public_key->secret));
	return 0;
}

void sgpu_key_clear(struct sgpu_key *key)
{
	if (key) {
		sgpu_wipe(key, sizeof(*key));
	}
}

/* ---- parsing ---- */
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

/* Returns a member's text for a message, or "..." if it is long enough to be a key. */
static const char *shown(const char *value)
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

/* Registered optional members must not restrict the key to another use. */
static int check_optional(const json_t *object, const char *name, const struct form *form,
			  struct sgpu_error *error)
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
	if (use && (!json_is_string(use) || strcmp(json_string_value(use), form->use))) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: 'use' is not '%s': the key is meant for something else", name,
				 form->use);
	}
	if (alg && !one_of(json_string_value(alg), form->algorithms)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: 'alg' is '%s': the key is meant for something else", name,
				 shown(json_string_value(alg)));
	}
	return 0;
}

/* RFC 7517 allows a reader to ignore unknown members. We refuse them, since one may restrict the
 * key. */
static int check_members(const json_t *object, const char *name, const struct form *form,
			 struct sgpu_error *error)
{
	static const char *const optional[] = {
		"kty", "kid", "use", "alg", "key_ops", "ext", NULL
	};
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
		if (!one_of(key, form->members) && !one_of(key, optional)) {
			return sgpu_fail(error, SGPU_EINVALID, "%s: unknown member '%s'", name,
					 shown(key));
		}
	}
	return check_optional(object, name, form, error);
}

static int find_kind(const char *name, const json_t *object, enum sgpu_key_kind *kind,
		     struct sgpu_error *error)
{
	const json_t *type = json_object_get(object, "kty"),
		     *curve = json_object_get(object, "crv");
	const char *kty = json_string_value(type), *crv = json_string_value(curve);
	bool known = false;

	if (!json_is_object(object)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: not a JSON Web Key: not an object",
				 name);
	}
	if (json_object_get(object, "keys")) {
		sgpu_fail(error, SGPU_EINVALID, "%s: a set of keys, not a key", name);
		return sgpu_hint(error, "put the one that you mean into a file of its own");
	}
	if (!kty) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: not a JSON Web Key: 'kty' is %s", name,
				 type ? "not a string" : "missing");
	}
	for (*kind = SGPU_KEY_OCT; *kind <= SGPU_KEY_P256; ++*kind) {
		const struct form *form = &forms[*kind];

		known = known || strcmp(kty, form->kty) == 0;
		if (!strcmp(kty, form->kty) &&
		    (*kind == SGPU_KEY_OCT || (crv && strcmp(crv, form->crv) == 0))) {
			return SGPU_OK;
		}
	}
	if (!known) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "%s: 'kty' is '%s', not 'oct', 'OKP' or 'EC'", name, shown(kty));
	}
	return sgpu_fail(error, SGPU_EINVALID,
			 "%s: 'crv' is %s%s%s, not 'X25519', 'Ed25519' or, of type EC, 'P-256'",
			 name, crv ? "'" : "",
			 crv	 ? shown(crv)
			 : curve ? "not a string"
				 : "missing",
			 crv ? "'" : "");
}

static int parse_key(const char *name, const json_t *object, struct sgpu_key *key,
		     struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	enum sgpu_key_kind kind;
	int rc = find_kind(name, object, &kind, error);

	memset(key, 0, sizeof(*key));
	rc = rc ? rc : check_members(object, name, &forms[kind], error);
	if (rc) {
		return rc;
	}
	key->kind = kind;
	key->secret_known = json_object_get(object, kind == SGPU_KEY_OCT ? "k" : "d") != NULL;
	if (kind != SGPU_KEY_OCT) {
		rc = sgpu_json_bytes(object, name, "x", key->public_half, 32, error);
	}
	if (!rc && kind == SGPU_KEY_P256) {
		rc = sgpu_json_bytes(object, name, "y", key->public_half + 32, 32, error);
	}
	if (!rc && (key->secret_known || kind == SGPU_KEY_OCT)) {
		rc = sgpu_json_bytes(object, name, kind == SGPU_KEY_OCT ? "k" : "d", key->secret,
				     32, error);
	}
	if (!rc && sgpu_key_check(key, &inner)) {
		rc = sgpu_fail(error, inner.code, "%s: the %s key: %s", name, sgpu_key_name(kind),
			       inner.text);
	}
	rc = rc ? rc : sgpu_key_thumbprint(key, error);
	if (rc) {
		sgpu_key_clear(key);
	}
	return rc;
}

int sgpu_key_parse(const char *text, size_t size, const char *name, struct sgpu_key *key,
		   struct sgpu_error *error)
{
	json_t *object = NULL;

	memset(key, 0, sizeof(*key));
	int rc = sgpu_key_object(text, size, name, &object, error);
	rc = rc ? rc : parse_key(name, object, key, error);
	json_decref(object);
	if (!rc && signs(key->kind)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is for a key that signs", name,
			       sgpu_key_name(key->kind));
		sgpu_key_clear(key);
	}
	return rc;
}

/* ---- the content of a key file ---- */
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
	struct sgpu_key key;
	int rc = parse_key(name, object, &key, error);
	struct sgpu_key *place = signs(key.kind) ? &set->signing : &set->key;

	if (!rc && place->kind != SGPU_KEY_NONE) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: two keys to %s with", name,
			       signs(key.kind) ? "sign" : "encrypt");
	}
	if (!rc) {
		*place = key;
	}
	sgpu_key_clear(&key);
	return rc;
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
	return set->key.secret_known || set->signing.secret_known;
}

static bool put(json_t *json, const char *member, json_t *value)
{
	return json_object_set_new(json, member, value) == 0;
}

/* Adds the key to the array, unless there is none. */
static bool put_key(json_t *keys, const struct sgpu_key *key)
{
	const bool oct = key->kind == SGPU_KEY_OCT;
	json_t *json;

	if (key->kind == SGPU_KEY_NONE) {
		return true;
	}
	json = oct ? json_pack("{s:s}", "kty", "oct") : sgpu_key_public_json(key);
	return json_array_append_new(keys, json) == 0 &&
	       (!key->secret_known ||
		put(json, oct ? "k" : "d", sgpu_json_from_bytes(key->secret, 32))) &&
	       (!signs(key->kind) || (put(json, "use", json_string("sig")) &&
				      put(json, "alg", json_string(sgpu_key_algorithm(key))))) &&
	       put(json, "kid", json_string(key->kid));
}

int sgpu_key_set_text(const struct sgpu_key_set *set, char **text, size_t *size,
		      struct sgpu_error *error)
{
	json_t *keys = json_array(), *both = json_pack("{s:o}", "keys", keys);
	const bool made = both && put_key(keys, &set->key) && put_key(keys, &set->signing);
	const size_t count = json_array_size(keys);
	int rc = SGPU_OK;

	*size = 0;
	*text = malloc(SGPU_KEY_TEXT_MAX);
	if (*text && made && count == 0) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "there is no key to be written");
	} else if (*text && made) {
		*size = json_dumpb(count == 1 ? json_array_get(keys, 0) : both, *text,
				   SGPU_KEY_TEXT_MAX, JSON_COMPACT);
	}
	json_decref(both);
	if (*size == 0) {
		free(*text);
		*text = NULL;
		return rc ? rc : sgpu_fail_nomem(error);
	}
	memcpy(*text + *size, "\n", 2);
	++*size;
	return SGPU_OK;
}

int sgpu_key_set_public(const struct sgpu_key_set *set, struct sgpu_key_set *public_set,
			struct sgpu_error *error)
{
	struct sgpu_key_set made = { .key.kind = SGPU_KEY_NONE };
	int rc = sgpu_key_public(&set->signing, &made.signing, error);

	if (!rc && (set->key.kind != SGPU_KEY_OCT || set->signing.kind == SGPU_KEY_NONE)) {
		rc = sgpu_key_public(&set->key, &made.key, error);
	}
	if (!rc) {
		*public_set = made;
	}
	return rc;
}
