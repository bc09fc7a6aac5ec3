/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal pubkey: the halves of a key file that may be given away.
 */
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>

#include "base/io.h"
#include "verbs.h"

struct request {
	const char *key_path, *path;
};

static int take_key(void *values, const char *path)
{
	struct request *request = values;

	if (request->key_path) {
		return cli_usage("more than one key");
	}
	request->key_path = path;
	return 0;
}

const struct cli_option pubkey_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "the key file (- standard input, fd:N a descriptor)",
	  CLI_TAKE(take_key) },
	{ "output", 'o', "FILE", "where the public key goes (default: standard output)",
	  CLI_TEXT(struct request, path) },
	CLI_END,
};

int verb_pubkey(int argc, char **argv)
{
	struct request request = { 0 };
	struct sgpu_error error = { 0 };
	struct sgpu_key_set keys, public_keys;
	char **paths, *text = NULL;
	size_t size = 0;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	if (*paths && request.key_path) {
		return cli_usage("the key is given twice, as '%s' and with -k", *paths);
	}
	const char *key_path = *paths ? *paths : request.key_path ? request.key_path : "-";
	if (!strcmp(key_path, "-") && isatty(STDIN_FILENO)) {
		return cli_usage("no key given");
	}
	cli_remember_input(key_path);
	if (!cli_output_apart(request.path)) {
		return 2;
	}
	status = cli_output_prepare(request.path, 0644, false);
	if (status) {
		return status;
	}
	int code = sgpu_key_set_load(key_path, &keys, &error);
	code = code ? code : sgpu_key_set_public(&keys, &public_keys, &error);
	code = code ? code : sgpu_key_set_text(&public_keys, &text, &size, &error);
	code = code ? code : cli_write_text(request.path, 0644, text, size, &error);
	sgpu_free_wiped(&text, size);
	sgpu_key_set_clear(&keys);
	return code ? cli_error(&error) : 0;
}
