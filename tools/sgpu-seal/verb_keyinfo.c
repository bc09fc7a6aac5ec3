/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal keyinfo: which keys a file holds, by their ids. Nothing secret is in the answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <sgpu/keys.h>

#include "parts.h"
#include "verbs.h"

struct request {
	bool owner;
	const char *output;
};

const struct cli_option keyinfo_options[] = {
	CLI_COMMON,
	{ "owner", 0, NULL, "only the id of the signing key: a line for sgpu-run --owners",
	  CLI_FLAG(struct request, owner) },
	{ "output", 'o', "FILE", "write there, not to standard output",
	  CLI_TEXT(struct request, output) },
	CLI_END,
};

static int print(const struct sgpu_key_set *keys, bool owner, FILE *to)
{
	struct seal_key_line lines[SEAL_KEY_LINES];
	const int count = seal_key_lines(keys, lines);

	if (!owner && cli_json) {
		return cli_print_json(json_pack("{s:o}", "keys", seal_keys_json(keys)), to,
				      JSON_COMPACT);
	}
	if (owner) {
		fprintf(to, "%s\n", keys->signing.kid);
	}
	for (int i = 0; i < count && !owner; i++) {
		fprintf(to, "%-7s  %-10s  %-6s  %s\n", lines[i].kind,
			lines[i].signs ? "signature" : "encryption",
			lines[i].secret ? "secret" : "public", lines[i].kid);
	}
	return 0;
}

/* A file of owners decides whose work is taken: whatever the umask, nobody else may write to it. */
static int write_info(const struct sgpu_key_set *keys, const char *path,
		      const struct request *request)
{
	struct sgpu_error error = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *to;
	int status;

	if (request->owner && keys->signing.kind == SGPU_SIGNING_NONE) {
		return cli_fail(SGPU_EINVALID, "'%s' has no key that signs", path);
	}
	to = open_memstream(&text, &size);
	if (!to) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	status = print(keys, request->owner, to);
	if (fclose(to) != 0) {
		status = cli_fail(SGPU_ENOMEM, "out of memory");
	}
	if (status == 0 &&
	    cli_write_text(request->output ? request->output : "-", 0644, text, size, &error)) {
		status = cli_error(&error);
	}
	free(text);
	return status;
}

int verb_keyinfo(int argc, char **argv)
{
	struct sgpu_error error = { 0 };
	struct sgpu_key_set keys;
	struct request request = { 0 };
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	const char *path = *paths ? *paths : "-";
	if (!strcmp(path, "-") && isatty(STDIN_FILENO)) {
		return cli_usage("no key given");
	}
	cli_remember_input(path);
	if (!cli_is_standard(request.output) && !cli_output_apart(request.output)) {
		return 2;
	}
	status = sgpu_key_set_load(path, &keys, &error) ? cli_error(&error)
							: write_info(&keys, path, &request);
	sgpu_key_set_clear(&keys);
	return status;
}
