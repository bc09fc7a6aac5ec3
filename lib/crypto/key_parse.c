/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys from JWK text (RFC 7517, RFC 8037), strictly.
 *
 * The JSON parser keeps copies of what it reads and quotes it in messages, so it never gets to see a secret: every
 * long string is replaced by a mark of the same length first, and looked up again where its bytes are needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/json.h>

#include "crypto/internal.h"
#include "crypto/key.h"

enum { MASK_FROM = 24, DIGITS = 43 };

/* A text with its long strings masked. */
struct masked {
	const char *text; /* the original */
	size_t size;
	char *copy;
};

/* A long string of plain characters becomes '#', the offset of its first byte, and more '#'. */
static void mask_string(struct masked *masked, size_t begin, size_t end)
{
	char mark[MASK_FROM];

	for (size_t i = begin; i < end; i++) {
		unsigned char c = (unsigned char)masked->text[i];
		if (c < 0x20 || c > 0x7e || c == '\\') {
			return; /* left to the parser, which may refuse it */
		}
	}
	memset(masked->copy + begin, '#', end - begin);
	int length = snprintf(mark, sizeof(mark), "%zu", begin);
	memcpy(masked->copy + begin + 1, mark, (size_t)length);
}

static int mask(struct masked *masked, struct sgpu_error *error)
{
	size_t begin = 0;
	bool inside = false;

	masked->copy = malloc(masked->size + 1);
	if (!masked->copy) {
		return sgpu_fail_nomem(error);
	}
	memcpy(masked->copy, masked->text, masked->size);
	masked->copy[masked->size] = '\0';
	for (size_t i = 0; i < masked->size; i++) {
		char c = masked->text[i];
		if (inside && c == '\\') {
			i++;
		} else if (c == '"') {
			if (inside && i - begin >= MASK_FROM) {
				mask_string(masked, begin, i);
			}
			inside = !inside;
			begin = i + 1;
		}
	}
	return 0;
}

/* The bytes that a string of the masked text stands for, not terminated. */
static const char *unmask(const struct masked *masked, const char *value, size_t *length)
{
	*length = strlen(value);
	if (*length < MASK_FROM || value[0] != '#') {
		return value;
	}
	size_t begin = strtoul(value + 1, NULL, 10);
	/* Cannot fail for a mark of ours; a string that only looks like one was masked itself. */
	if (begin > masked->size || *length > masked->size - begin) {
		return value;
	}
	return masked->text + begin;
}

/* A member of 32 bytes. */
static int get_bytes(const struct masked *masked, const json_t *object, const char *name, const char *member,
		     uint8_t bytes[32], struct sgpu_error *error)
{
	const json_t *value = json_object_get(object, member);
	struct sgpu_error inner = { 0 };
	char digits[DIGITS + 1] = "";
	size_t length;

	if (!json_is_string(value)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is %s", name, member,
				 value ? "not a string" : "missing");
	}
	const char *text = unmask(masked, json_string_value(value), &length);
	if (length != DIGITS) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' has %zu characters, not the %d of 32 bytes in base64url",
				 name, member, length, DIGITS);
	}
	memcpy(digits, text, DIGITS);
	int code = sgpu_base64url_decode(digits, bytes, 32, &inner);
	sgpu_wipe(digits, sizeof(digits));
	return code ? sgpu_fail(error, code, "%s: '%s' %s", name, member, inner.text) : 0;
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

/* "key_ops": different strings. */
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

/* The registered optional members: they may be there, and must not say that the key is for something else. */
static int check_optional(const json_t *object, const char *name, struct sgpu_error *error)
{
	static const char *const algorithms[] = {
		"A256GCM", "A256KW", "A256GCMKW", "dir", "ECDH-ES", "ECDH-ES+A256KW", NULL
	};
	const json_t *use = json_object_get(object, "use"), *alg = json_object_get(object, "alg");
	const json_t *kid = json_object_get(object, "kid"), *ops = json_object_get(object, "key_ops");
	const json_t *ext = json_object_get(object, "ext");

	if (kid && !json_is_string(kid)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'kid' is not a string", name);
	}
	if (use && (!json_is_string(use) || strcmp(json_string_value(use), "enc"))) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'use' is not 'enc': the key is meant for something else",
				 name);
	}
	if (alg && !json_is_string(alg)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'alg' is not a string", name);
	}
	if (alg && !one_of(json_string_value(alg), algorithms)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'alg' is '%s': the key is meant for something else", name,
				 json_string_value(alg));
	}
	if (ops && !valid_operations(ops)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'key_ops' is not an array of different strings", name);
	}
	if (ext && !json_is_boolean(ext)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'ext' is not true or false", name);
	}
	return 0;
}

/* RFC 7517 lets a reader ignore what it does not know; here a member that is ignored may be one that mattered. */
static int check_members(json_t *object, const char *name, const char *const *known, struct sgpu_error *error)
{
	static const char *const optional[] = { "kty", "kid", "use", "alg", "key_ops", "ext", NULL };
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value) {
		if (!one_of(key, known) && !one_of(key, optional)) {
			return strlen(key) < MASK_FROM
				       ? sgpu_fail(error, SGPU_EINVALID, "%s: unknown member '%s'", name, key)
				       : sgpu_fail(error, SGPU_EINVALID, "%s: unknown member", name);
		}
	}
	return check_optional(object, name, error);
}

static int parse_oct(const struct masked *masked, json_t *object, const char *name, struct sgpu_key *key,
		     struct sgpu_error *error)
{
	static const char *const members[] = { "k", NULL };
	int code = check_members(object, name, members, error);

	key->kind = SGPU_KEY_OCT;
	return code ? code : get_bytes(masked, object, name, "k", key->secret, error);
}

static int parse_x25519(const struct masked *masked, json_t *object, const char *name, struct sgpu_key *key,
			struct sgpu_error *error)
{
	static const char *const members[] = { "crv", "x", "d", NULL };
	const json_t *curve = json_object_get(object, "crv");
	uint8_t derived[32] = { 0 };

	if (!json_is_string(curve) || strcmp(json_string_value(curve), "X25519")) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'crv' is %s%s%s, not 'X25519'", name,
				 json_is_string(curve) ? "'" : "", json_is_string(curve) ? json_string_value(curve) :
				 curve ? "not a string" : "missing", json_is_string(curve) ? "'" : "");
	}
	int code = check_members(object, name, members, error);
	if (!code) {
		code = get_bytes(masked, object, name, "x", key->public_half, error);
	}
	key->kind = SGPU_KEY_X25519_PUBLIC;
	if (code || !json_object_get(object, "d")) {
		return code;
	}
	key->kind = SGPU_KEY_X25519;
	code = get_bytes(masked, object, name, "d", key->secret, error);
	if (!code) {
		code = sgpu_x25519_public(key->secret, derived, error);
	}
	if (!code && !sgpu_equal(derived, key->public_half, sizeof(derived))) {
		code = sgpu_fail(error, SGPU_EINVALID, "%s: 'x' is not the public key of 'd'", name);
	}
	return code;
}

static int parse_object(const struct masked *masked, json_t *object, const char *name, struct sgpu_key *key,
			struct sgpu_error *error)
{
	if (!json_is_object(object)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: not a JSON Web Key: not an object", name);
	}
	if (json_object_get(object, "keys")) {
		(void)sgpu_fail(error, SGPU_EINVALID, "%s: a set of keys, not a key", name);
		(void)sgpu_hint(error, "put the one that you mean into a file of its own");
		return SGPU_EINVALID;
	}
	const json_t *type = json_object_get(object, "kty");
	if (!json_is_string(type)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: not a JSON Web Key: 'kty' is %s", name,
				 type ? "not a string" : "missing");
	}
	int code;
	if (!strcmp(json_string_value(type), "oct")) {
		code = parse_oct(masked, object, name, key, error);
	} else if (!strcmp(json_string_value(type), "OKP")) {
		code = parse_x25519(masked, object, name, key, error);
	} else {
		code = sgpu_fail(error, SGPU_EINVALID, "%s: 'kty' is '%s', not 'oct' or 'OKP'", name,
				 json_string_value(type));
	}
	return code ? code : sgpu_key_thumbprint(key, error);
}

int sgpu_key_parse(const char *text, size_t size, const char *name, struct sgpu_key *key, struct sgpu_error *error)
{
	struct masked masked = { .text = text, .size = size };
	struct sgpu_error inner = { 0 };
	json_t *object = NULL;
	int line = 0, column = 0;

	memset(key, 0, sizeof(*key));
	if (size > SGPU_KEY_TEXT_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: longer than %d bytes, so not a key", name,
				 SGPU_KEY_TEXT_MAX);
	}
	int code = mask(&masked, error);
	if (code) {
		return code;
	}
	code = sgpu_json_parse(masked.copy, size, &object, &line, &column, &inner);
	if (code) {
		/* Not the parser's own words: on a broken text they may quote what was not masked. */
		code = sgpu_fail(error, code, "%s:%d:%d: not a JSON Web Key", name, line, column);
	} else {
		code = parse_object(&masked, object, name, key, error);
	}
	sgpu_wipe(&inner, sizeof(inner));
	json_decref(object);
	sgpu_free_wiped(&masked.copy, size);
	if (code) {
		sgpu_key_clear(key);
	}
	return code;
}
