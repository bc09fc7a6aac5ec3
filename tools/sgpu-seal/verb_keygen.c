/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal keygen: a new secret key, for its owner's eyes only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/crypto.h>

#include "verbs.h"

enum { OPTION_X25519 = CLI_LONG };

const struct cli_option keygen_options[] = {
	CLI_COMMON,
	{ "x25519", OPTION_X25519, NULL, "a key pair for recipients, not a symmetric key" },
	{ "output", 'o', "FILE", "new file for the key (default: standard output)" },
	{ NULL, 0, NULL, NULL },
};

static int write_key(const struct sgpu_key *key, const char *path, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int code = sgpu_key_text(key, &text, &size, error);

	if (!code) {
		code = cli_write_secret(path, text, size, error);
	}
	sgpu_free_wiped(&text, size);
	return code;
}

/* What may be said about a key. */
static int report(const struct sgpu_key *key, const char *path)
{
	const char *kind = key->kind == SGPU_KEY_OCT ? "oct" : "X25519";

	if (!cli_json) {
		cli_detail("%s key %s", kind, key->kid);
		return 0;
	}
	json_t *record = json_pack("{s:s, s:s, s:s*}", "kid", key->kid, "kind", kind, "file", path);
	FILE *to = path ? stdout : stderr;
	bool written = record && json_dumpf(record, to, JSON_COMPACT | JSON_ENSURE_ASCII) == 0 && fputc('\n', to) != EOF &&
		       fflush(to) == 0;
	json_decref(record);
	return written ? 0 : cli_fail(SGPU_ESYSTEM, "cannot write the record");
}

int verb_keygen(int argc, char **argv)
{
	enum sgpu_key_kind kind = SGPU_KEY_OCT;
	struct sgpu_error error = { 0 };
	struct sgpu_key key;
	const char *path = NULL, *value;
	int first, option;

	while ((option = cli_next(argc, argv, &value, &first))) {
		if (option < 0) {
			return 2;
		}
		if (option == OPTION_X25519) {
			kind = SGPU_KEY_X25519;
		} else if (option == 'o') {
			path = strcmp(value, "-") ? value : NULL;
		}
	}
	if (!cli_positionals(argc, first, 0, 0)) {
		return 2;
	}
	if (!cli_secret_output(path)) {
		return 2;
	}
	int code = sgpu_key_generate(kind, &key, &error);
	if (!code) {
		code = write_key(&key, path, &error);
	}
	int status = code ? cli_error(&error) : report(&key, path);
	sgpu_key_clear(&key);
	return status;
}
