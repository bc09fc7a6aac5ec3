/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal inspect of a key file: kinds and ids of its keys, and nothing else that is in it.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/base.h>

#include "cli.h"
#include "parts.h"

enum { KEY_FILE_MAX = 16 << 10 }; /* longer ones are refused by the parser, too */

static int print_keys(const struct sgpu_key_set *set, struct sgpu_error *error)
{
	struct seal_key_line lines[SEAL_KEY_LINES];
	const int count = seal_key_lines(set, lines);

	if (cli_json) {
		json_t *json = json_pack("{s:s, s:o}", "kind", "key", "keys", seal_keys_json(set));
		const int code = json ? 0 : sgpu_fail_nomem(error);

		json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		putchar('\n');
		json_decref(json);
		return code;
	}
	puts("key");
	for (int i = 0; i < count; i++) {
		printf("%-10s  %s, %s\nkid         %s\n",
		       lines[i].signs ? "signature" : "encryption", lines[i].kind,
		       lines[i].secret ? "secret" : "public", lines[i].kid);
	}
	return 0;
}

int inspect_key(int in, const char *name, const uint8_t *first, size_t first_size,
		struct sgpu_error *error)
{
	char text[KEY_FILE_MAX + 1];
	struct sgpu_key_set set;
	size_t got = 0;

	memcpy(text, first, first_size);
	int code = sgpu_read(in, name, text + first_size, sizeof(text) - first_size, &got, error);
	code = code ? code : sgpu_key_set_parse(text, first_size + got, name, &set, error);
	if (!code) {
		code = print_keys(&set, error);
		sgpu_key_set_clear(&set);
	}
	sgpu_wipe(text, sizeof(text));
	return code;
}
