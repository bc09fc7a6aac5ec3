/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal inspect of a key file: kinds and ids of its keys, and nothing else that is in it.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/base.h>

#include "inspecting.h"

enum { KEY_FILE_MAX = 16 << 10 }; /* longer ones are refused by the parser, too */

static const char *kind_of(const struct sgpu_key *key)
{
	return key->kind == SGPU_KEY_OCT ? "oct" : "X25519";
}

static void print_line(const char *kind, const char *use, bool secret, const char *kid)
{
	printf("%-10s  %s, %s\nkid         %s\n", use, kind, secret ? "secret" : "public", kid);
}

static json_t *key_json(const char *kind, const char *use, bool secret, const char *kid)
{
	return json_pack("{s:s, s:s, s:b, s:s}", "kind", kind, "use", use, "secret", secret, "kid", kid);
}

static int print_keys(const struct sgpu_key_set *set, struct sgpu_error *error)
{
	const bool secret = set->has_key && set->key.kind != SGPU_KEY_X25519_PUBLIC;
	const bool signs = set->signing.kind != SGPU_SIGNING_NONE;
	const char *signing = sgpu_signing_name(set->signing.kind);

	if (!cli_json) {
		puts("key");
		if (set->has_key) {
			print_line(kind_of(&set->key), "encryption", secret, set->key.kid);
		}
		if (signs) {
			print_line(signing, "signature", set->signing.secret_known, set->signing.kid);
		}
		return 0;
	}
	json_t *list = json_array(), *json = json_pack("{s:s, s:o}", "kind", "key", "keys", list);
	if (json && set->has_key) {
		json_array_append_new(list, key_json(kind_of(&set->key), "enc", secret, set->key.kid));
	}
	if (json && signs) {
		json_array_append_new(list, key_json(signing, "sig", set->signing.secret_known, set->signing.kid));
	}
	if (!json) {
		return sgpu_fail_nomem(error);
	}
	json_dumpf(json, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(json);
	return 0;
}

int inspect_key(int in, const char *name, const uint8_t *first, size_t first_size, struct sgpu_error *error)
{
	char text[KEY_FILE_MAX + 1];
	struct sgpu_key_set set;
	size_t got = 0;

	memcpy(text, first, first_size);
	int code = sgpu_read(in, name, text + first_size, sizeof(text) - first_size, &got, error);
	if (!code) {
		code = sgpu_key_set_parse(text, first_size + got, name, &set, error);
	}
	if (!code) {
		code = print_keys(&set, error);
		sgpu_key_set_clear(&set);
	}
	sgpu_wipe(text, sizeof(text));
	return code;
}
