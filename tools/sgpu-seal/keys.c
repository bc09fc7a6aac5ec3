/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and options that several verbs take.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "cli.h"
#include "parts.h"

/* Once: growing would leave copies of secrets behind. */
static int make_lists(struct seal_keys *keys, struct sgpu_error *error)
{
	if (!keys->list) {
		keys->list = calloc(SGPU_RECIPIENTS_MAX, sizeof(*keys->list));
	}
	if (!keys->signers) {
		keys->signers = calloc(SGPU_SIGNATURES_MAX, sizeof(*keys->signers));
	}
	return keys->list && keys->signers ? 0 : sgpu_fail_nomem(error);
}

static int add(struct seal_keys *keys, const char *path, enum seal_use use,
	       const struct sgpu_key_set *set, struct sgpu_error *error)
{
	const bool verifies = use == SEAL_OPENER && set->signing.kind != SGPU_SIGNING_NONE;
	const bool signs = verifies || ((use == SEAL_OWNER || use == SEAL_CHANGER) &&
					set->signing.secret_known);
	const bool opens = use == SEAL_READER || use == SEAL_OPENER || use == SEAL_CHANGER;

	/* Public halves that decide who reads the data, or whose batch is believed. */
	if (set->others_write && (use == SEAL_RECIPIENT || verifies)) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "others can write to key '%s', which says who is trusted", path);
		return sgpu_hint(error, "it has to be a file of your own, or of root, to which "
					"nobody else can write: "
					"chmod go-w");
	}
	if (signs && keys->signer_count >= SGPU_SIGNATURES_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d keys that sign",
				 SGPU_SIGNATURES_MAX);
	}
	if (signs) {
		keys->signers[keys->signer_count++] = set->signing;
	}
	if (!set->has_key && !signs) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "key '%s' has %s key to sign with, and none to encrypt with", path,
				 set->signing.secret_known ? "a" : "a public");
	}
	if (verifies && set->has_key && set->key.kind == SGPU_KEY_X25519_PUBLIC) {
		return 0; /* the public halves of another owner */
	}
	if (opens && set->has_key && set->key.kind == SGPU_KEY_X25519_PUBLIC) {
		sgpu_fail(error, SGPU_EKEY,
			  "key '%s' is the public half of '%s', which opens nothing", path,
			  set->key.kid);
		return sgpu_hint(error,
				 "give the file with both halves, which 'sgpu-seal keygen' wrote");
	}
	if (set->has_key) {
		keys->list[keys->count++] = set->key;
	}
	return 0;
}

static int load_keys(struct seal_keys *keys, const char *path, enum seal_use use,
		     struct sgpu_error *error)
{
	struct sgpu_key_set set;

	if (keys->count >= SGPU_RECIPIENTS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d keys", SGPU_RECIPIENTS_MAX);
	}
	int code = make_lists(keys, error);
	if (code) {
		return code;
	}
	keys->standard_input = keys->standard_input || !strcmp(path, "-");
	cli_remember_input(path);
	code = sgpu_key_set_load(path, &set, error);
	code = code ? code : add(keys, path, use, &set, error);
	sgpu_key_set_clear(&set);
	return code;
}

int seal_keys_take(struct seal_keys *keys, const char *path, enum seal_use use)
{
	struct sgpu_error error = { 0 };

	return load_keys(keys, path, use, &error) ? cli_error(&error) : 0;
}

void seal_keys_clear(struct seal_keys *keys)
{
	sgpu_free_wiped(&keys->list, SGPU_RECIPIENTS_MAX * sizeof(*keys->list));
	sgpu_free_wiped(&keys->signers, SGPU_SIGNATURES_MAX * sizeof(*keys->signers));
	keys->count = keys->signer_count = 0;
}

int seal_input(const struct seal_keys *keys, const char *path, const char **name, int *in)
{
	return cli_is_standard(path) && keys->standard_input
		       ? cli_usage("a key and the data cannot both come from standard input")
		       : cli_input(path, name, in);
}

int seal_key_lines(const struct sgpu_key_set *set, struct seal_key_line lines[SEAL_KEY_LINES])
{
	int count = 0;

	if (set->has_key) {
		lines[count++] =
			(struct seal_key_line){ set->key.kind == SGPU_KEY_OCT ? "oct" : "X25519",
						false, set->key.kind != SGPU_KEY_X25519_PUBLIC,
						set->key.kid };
	}
	if (set->signing.kind != SGPU_SIGNING_NONE) {
		lines[count++] =
			(struct seal_key_line){ sgpu_signing_name(set->signing.kind), true,
						set->signing.secret_known, set->signing.kid };
	}
	return count;
}

json_t *seal_keys_json(const struct sgpu_key_set *set)
{
	struct seal_key_line lines[SEAL_KEY_LINES];
	const int count = seal_key_lines(set, lines);
	json_t *list = json_array();

	for (int i = 0; i < count; i++) {
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:b, s:s}", "kind", lines[i].kind,
						"use", lines[i].signs ? "sig" : "enc", "secret",
						lines[i].secret, "kid", lines[i].kid));
	}
	return list;
}
