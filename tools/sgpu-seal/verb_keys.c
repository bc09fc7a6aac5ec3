/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal keygen, pubkey and keyinfo: make a secret key; write the public halves of a key file;
 * say which keys a file holds, but nothing secret.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>

#include "parts.h"

struct request {
	bool x25519, sign, no_sign, passphrase, owner;
	const char *path; /* of -o */
};

const struct cli_option keygen_options[] = {
	{ "x25519", 0, NULL, "a key pair for recipients, not a symmetric key; alone, unless --sign",
	  CLI_FLAG(struct request, x25519) },
	{ "sign", 0, NULL, "also an Ed25519 key to sign batches (default without --x25519)",
	  CLI_FLAG(struct request, sign) },
	{ "no-sign", 0, NULL, "no signing key: for a key that is shared",
	  CLI_FLAG(struct request, no_sign) },
	{ "passphrase", 0, NULL, "encrypt the file, by a passphrase that is asked for twice",
	  CLI_FLAG(struct request, passphrase) },
	{ CLI_ROWS(passphrase_rows) },
	{ "output", 'o', "FILE", "new file for the key (default: standard output)",
	  CLI_TEXT(struct request, path) },
	CLI_END,
};

static int report(const struct sgpu_key_set *keys, const char *path)
{
	const char *kind = sgpu_key_name(keys->key.kind);
	const bool signs = keys->signing.kind != SGPU_KEY_NONE;

	if (!cli_json) {
		cli_note("%s key %s", kind, keys->key.kid);
		if (signs) {
			cli_note("%s key %s, which signs", sgpu_key_name(keys->signing.kind),
				 keys->signing.kid);
		}
		return 0;
	}
	json_t *record = json_pack("{s:s, s:s, s:s*, s:o*}", "kid", keys->key.kid, "kind", kind,
				   "signing_kid", signs ? keys->signing.kid : NULL, "file",
				   cli_json_text(path));
	return cli_print_json(record, path ? stdout : stderr, JSON_COMPACT);
}

int verb_keygen(int argc, char **argv)
{
	struct request request = { 0 };
	struct sgpu_error error = { 0 };
	struct sgpu_key_set keys = { .key.kind = SGPU_KEY_NONE };
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
	if (!path && isatty(STDOUT_FILENO)) {
		return cli_usage("refusing to show a secret key on a terminal; use -o FILE");
	}
	int rc = sgpu_key_generate(request.x25519 ? SGPU_KEY_X25519 : SGPU_KEY_OCT, &keys.key,
				   &error);
	if (!rc && (request.sign || (!request.x25519 && !request.no_sign))) {
		rc = sgpu_key_generate(SGPU_KEY_ED25519, &keys.signing, &error);
	}
	rc = rc ? rc : sgpu_key_set_text(&keys, &text, &size, &error);
	if (!rc && (request.passphrase || passphrase_fd >= 0)) {
		rc = passphrase_protect(path ? path : "the new key", &text, &size, &error);
	}
	rc = rc ? rc : cli_write_secret(path, text, size, &error);
	status = rc ? cli_error(&error) : report(&keys, path);
	sgpu_free_wiped(&text, size);
	sgpu_key_set_clear(&keys);
	return status;
}

/* Reads the keys at a path, which the output may not replace. Returns an exit status. */
static int read_keys(const char *path, const char *output, struct sgpu_key_set *keys)
{
	struct sgpu_error error = { 0 };

	if (!strcmp(path, "-") && isatty(STDIN_FILENO)) {
		return cli_usage("no key given");
	}
	cli_remember_input(path);
	const int status = cli_output_prepare(output, 0644, false);
	return status ? status : sgpu_key_set_load(path, keys, &error) ? cli_error(&error) : 0;
}

const struct cli_option pubkey_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "output", 'o', "FILE", "where the public key goes (default: standard output)",
	  CLI_TEXT(struct request, path) },
	CLI_END,
};

int verb_pubkey(int argc, char **argv)
{
	struct request request = { 0 };
	struct sgpu_error error = { 0 };
	struct sgpu_key_set keys = { 0 }, public_keys;
	char **paths, *text = NULL;
	size_t size = 0;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	status = read_keys(*paths ? *paths : "-", request.path, &keys);
	if (status) {
		return status;
	}
	int rc = sgpu_key_set_public(&keys, &public_keys, &error);
	rc = rc ? rc : sgpu_key_set_text(&public_keys, &text, &size, &error);
	rc = rc ? rc : cli_write_text(request.path, 0644, text, size, &error);
	sgpu_free_wiped(&text, size);
	sgpu_key_set_clear(&keys);
	return rc ? cli_error(&error) : 0;
}

const struct cli_option keyinfo_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "owner", 0, NULL, "only the id of the signing key: a line for sgpu-run --owners",
	  CLI_FLAG(struct request, owner) },
	{ "output", 'o', "FILE", "write there, not to standard output",
	  CLI_TEXT(struct request, path) },
	CLI_END,
};

/* Describes a file's keys, at most one that encrypts and one that signs, in a new array. */
static json_t *describe(const struct sgpu_key_set *set)
{
	const struct sgpu_key *const keys[] = { &set->key, &set->signing };
	json_t *list = json_array();

	for (int i = 0; i < 2; i++) {
		if (keys[i]->kind != SGPU_KEY_NONE) {
			json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s}", "kind",
							      sgpu_key_name(keys[i]->kind), "use",
							      i ? "sig" : "enc", "secret",
							      keys[i]->secret_known, "kid",
							      keys[i]->kid));
		}
	}
	return list;
}

/* A file for --owners decides whose batches are accepted, so only the user may write it, whatever
 * the umask. */
static int write_info(const struct sgpu_key_set *keys, const char *path,
		      const struct request *request)
{
	static const char *const lists[][2] = { { "keys", "kind use secret kid" }, { NULL, NULL } };
	struct sgpu_error error = { 0 };
	json_t *record =
		json_pack("{s:o, s:b}", "keys", describe(keys), "passphrase", keys->locked);
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int status = out ? 0 : cli_fail_nomem();

	if (!status && request->owner && keys->signing.kind == SGPU_KEY_NONE) {
		status = cli_fail(SGPU_EINVALID, "'%s' has no key that signs", path);
	} else if (!status && request->owner) {
		fprintf(out, "%s\n", keys->signing.kid);
	} else if (!status && cli_json) {
		status = cli_print_json(json_incref(record), out, JSON_COMPACT);
	} else if (!status) {
		cli_lists(out, record, lists);
	}
	json_decref(record);
	if (out && fclose(out) != 0 && !status) {
		status = cli_fail_nomem();
	}
	if (!status && cli_write_text(request->path, 0644, text, size, &error)) {
		status = cli_error(&error);
	}
	free(text);
	return status;
}

int verb_keyinfo(int argc, char **argv)
{
	struct sgpu_key_set keys = { 0 };
	struct request request = { 0 };
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	const char *path = *paths ? *paths : "-";
	status = read_keys(path, request.path, &keys);
	status = status ? status : write_info(&keys, path, &request);
	sgpu_key_set_clear(&keys);
	return status;
}
