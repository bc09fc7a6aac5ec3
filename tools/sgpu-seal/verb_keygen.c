/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal keygen: a new secret key, for its owner's eyes only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>

#include "verbs.h"

struct request {
	bool x25519, sign, no_sign;
	const char *path;
};

const struct cli_option keygen_options[] = {
	CLI_COMMON,
	{ "x25519", 0, NULL, "a key pair for recipients, not a symmetric key; alone, unless --sign",
	  CLI_FLAG(struct request, x25519) },
	{ "sign", 0, NULL, "also an Ed25519 key to sign batches (default without --x25519)",
	  CLI_FLAG(struct request, sign) },
	{ "no-sign", 0, NULL, "no signing key: for a key that is shared",
	  CLI_FLAG(struct request, no_sign) },
	{ "output", 'o', "FILE", "new file for the key (default: standard output)",
	  CLI_TEXT(struct request, path) },
	CLI_END,
};

/* What may be said about the keys: their ids, on standard error. */
static int report(const struct sgpu_key_set *keys, const char *path)
{
	const char *kind = keys->key.kind == SGPU_KEY_OCT ? "oct" : "X25519";
	const bool signs = keys->signing.kind != SGPU_SIGNING_NONE;

	if (!cli_json) {
		cli_note("%s key %s", kind, keys->key.kid);
		if (signs) {
			cli_note("%s key %s, which signs", sgpu_signing_name(keys->signing.kind),
				 keys->signing.kid);
		}
		return 0;
	}
	json_t *record = json_pack("{s:s, s:s, s:s*, s:s*}", "kid", keys->key.kid, "kind", kind,
				   "signing_kid", signs ? keys->signing.kid : NULL, "file", path);
	return cli_print_json(record, path ? stdout : stderr, JSON_COMPACT);
}

int verb_keygen(int argc, char **argv)
{
	struct request request = { 0 };
	struct sgpu_error error = { 0 };
	struct sgpu_key_set keys = { .has_key = true };
	char **arguments, *text = NULL;
	size_t size = 0;
	int status = cli_read(argc, argv, &request, &arguments);

	if (status) {
		return status;
	}
	if (request.sign && request.no_sign) {
		return cli_usage("--sign and --no-sign exclude each other");
	}
	const char *path = cli_is_standard(request.path) ? NULL : request.path;
	if (!cli_secret_output(path)) {
		return 2;
	}
	int code = sgpu_key_generate(request.x25519 ? SGPU_KEY_X25519 : SGPU_KEY_OCT, &keys.key,
				     &error);
	if (!code && (request.sign || (!request.x25519 && !request.no_sign))) {
		code = sgpu_signing_generate(&keys.signing, &error);
	}
	code = code ? code : sgpu_key_set_text(&keys, &text, &size, &error);
	code = code ? code : cli_write_secret(path, text, size, &error);
	status = code ? cli_error(&error) : report(&keys, path);
	sgpu_free_wiped(&text, size);
	sgpu_key_set_clear(&keys);
	return status;
}
