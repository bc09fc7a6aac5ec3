/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal pubkey: the halves of a key file that may be given away.
 */
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/crypto.h>
#include <sgpu/io.h>

#include "verbs.h"

const struct cli_option pubkey_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "the key file (- standard input, fd:N a descriptor)" },
	{ "output", 'o', "FILE", "where the public key goes (default: standard output)" },
	{ NULL, 0, NULL, NULL },
};

static int write_public(const struct sgpu_key_set *keys, const char *path, struct sgpu_error *error)
{
	struct sgpu_output output = SGPU_OUTPUT_INIT;
	struct sgpu_key_set public_keys;
	char *text = NULL;
	size_t size = 0;
	int code = sgpu_key_set_public(keys, &public_keys, error);

	if (!code) {
		code = sgpu_key_set_text(&public_keys, &text, &size, error);
	}
	if (!code) {
		code = cli_output_take(&output, path, 0644, error);
	}
	if (!code) {
		code = sgpu_write(output.fd, output.path, text, size, error);
	}
	if (!code) {
		code = sgpu_output_commit(&output, error);
	}
	sgpu_output_close(&output);
	sgpu_free_wiped(&text, size);
	return code;
}

int verb_pubkey(int argc, char **argv)
{
	const char *key_path = NULL, *path = NULL, *value;
	struct sgpu_error error = { 0 };
	struct sgpu_key_set keys;
	int first, option;

	while ((option = cli_next(argc, argv, &value, &first))) {
		if (option < 0) {
			return 2;
		}
		if (option == 'k') {
			if (key_path) {
				return cli_usage("more than one key");
			}
			key_path = value;
		} else if (option == 'o') {
			path = strcmp(value, "-") ? value : NULL;
		}
	}
	if (!cli_positionals(argc, first, 0, 1)) {
		return 2;
	}
	if (first < argc && key_path) {
		return cli_usage("the key is given twice, as '%s' and with -k", argv[first]);
	}
	key_path = first < argc ? argv[first] : key_path ? key_path : "-";
	if (!strcmp(key_path, "-") && isatty(STDIN_FILENO)) {
		return cli_usage("no key given");
	}
	cli_remember_input(key_path);
	if (!cli_output_apart(path)) {
		return 2;
	}
	const int status = cli_output_prepare(path, 0644, false);
	if (status) {
		return status;
	}
	int code = sgpu_key_set_load(key_path, &keys, &error);
	if (!code) {
		code = write_public(&keys, path, &error);
	}
	sgpu_key_set_clear(&keys);
	return code ? cli_error(&error) : 0;
}
