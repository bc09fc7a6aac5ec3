/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal inspect of a key file: its kind and its id, and nothing else that is in it.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/base.h>

#include "inspecting.h"

enum { KEY_FILE_MAX = 16 << 10 }; /* longer ones are refused by the parser, too */

static int print_key(const struct sgpu_key *key, struct sgpu_error *error)
{
	const char *kind = key->kind == SGPU_KEY_OCT ? "oct" : "X25519";
	const bool secret = key->kind != SGPU_KEY_X25519_PUBLIC;

	if (!cli_json) {
		printf("key\nkind        %s, %s\nkid         %s\n", kind, secret ? "secret" : "public", key->kid);
		return 0;
	}
	json_t *json = json_pack("{s:s, s:[{s:s, s:s, s:b, s:s}]}", "kind", "key", "keys", "kind", kind, "use", "enc",
				 "secret", secret, "kid", key->kid);
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
	struct sgpu_key key;
	size_t got = 0;

	memcpy(text, first, first_size);
	int code = sgpu_read(in, name, text + first_size, sizeof(text) - first_size, &got, error);
	if (!code) {
		code = sgpu_key_parse(text, first_size + got, name, &key, error);
	}
	if (!code) {
		code = print_key(&key, error);
		sgpu_key_clear(&key);
	}
	sgpu_wipe(text, sizeof(text));
	return code;
}
