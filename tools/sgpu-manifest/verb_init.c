/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest init: a manifest for one operation and its files, to be edited from there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "document.h"
#include "draft.h"
#include "payload.h"
#include "manifest_tool.h"

/* A number, true, false, or else a string. */
static json_t *param_value(const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

	if (value && (json_is_number(value) || json_is_boolean(value))) {
		return value;
	}
	json_decref(value);
	return json_string(text);
}

static int take_op(void *values, const char *name)
{
	struct draft *draft = values;

	draft->op = cli_find_op(name);
	return draft->op ? 0 : 2;
}

static int take_low(void *values, const char *name)
{
	return json_array_append_new(((struct draft *)values)->low, json_string(name))
		       ? cli_usage("--low: '%s' is not UTF-8", name)
		       : 0;
}

static int take_param(void *values, const char *text)
{
	struct draft *draft = values;
	const char *equals = strchr(text, '=');
	char *name;
	int failed;

	if (!equals || equals == text) {
		return cli_usage("'%s' is not NAME=VALUE", SGPU_EXCERPT(text));
	}
	name = strndup(text, (size_t)(equals - text));
	failed = name ? json_object_set_new(draft->params, name, param_value(equals + 1)) : -1;
	free(name);
	return failed ? cli_usage("'%s' is not NAME=VALUE in UTF-8", SGPU_EXCERPT(text)) : 0;
}

const struct cli_option init_options[] = {
	CLI_COMMON,
	{ "op", 0, "OPERATION", "the operation", CLI_TAKE(take_op) },
	{ "low", 0, "NAME", "this argument is LOW, not HIGH; may be repeated", CLI_TAKE(take_low) },
	{ "id", 0, "ID", "the manifest_id (default: the operation's name)",
	  CLI_TEXT(struct draft, id) },
	{ "param", 0, "NAME=VALUE", "a parameter of the operation; may be repeated",
	  CLI_TAKE(take_param) },
	{ "output", 'o', "FILE", "write to this new file, not to standard output",
	  CLI_TEXT(struct draft, output) },
	CLI_END
};

/* A pipe or the like takes what comes. */
static bool is_special(const char *path)
{
	struct stat status;

	return !path || strcmp(path, "-") == 0 ||
	       (stat(path, &status) == 0 && !S_ISREG(status.st_mode));
}

/* A manifest that stands there may have been edited: it is never replaced. */
static bool is_new(const char *path)
{
	struct sgpu_error error = { 0 };
	struct stat status;

	if (is_special(path) || lstat(path, &status)) {
		return true;
	}
	sgpu_fail(&error, SGPU_ESYSTEM, "'%s' exists, and 'init' replaces nothing", path);
	sgpu_hint(&error, "choose another name, or remove the file first");
	cli_error(&error);
	return false;
}

static int make_manifest(struct draft *draft, char **files)
{
	const char *output = draft->output;
	struct payload_folder folder = { .spool = -1 };
	struct sgpu_error error = { 0 };
	json_t *manifest = NULL;
	int status = 0;

	if (!is_new(output)) {
		return 3;
	}
	status = cli_output_prepare(output, 0666, true);
	if (status) {
		return status;
	}
	if (payload_folder_open(output ? output : "-", &folder, &error)) {
		return cli_error(&error);
	}
	draft->folder = folder.path;
	for (; *files && !status; files++) {
		status = draft_add_file(draft, *files);
	}
	status = status ? status : draft_build(draft);
	status = status ? status : draft_finish(draft, &manifest);
	status = status ? status : json_write(output, NULL, json_incref(manifest), 2);
	if (!status && draft->outside) {
		cli_warning(
			"a file is outside the manifest's directory: pack it with --allow-outside");
	}
	json_decref(manifest);
	payload_folder_close(&folder);
	return status;
}

int verb_init(int argc, char **argv)
{
	struct draft draft = { .params = json_object(),
			       .low = json_array(),
			       .segments = json_array(),
			       .arguments = json_object(),
			       .operations = json_array() };
	char **files;
	int status = cli_read(argc, argv, &draft, &files);

	if (!status && !draft.op) {
		status = cli_usage("--op is missing; 'sgpu-manifest ops' lists the operations");
	}
	status = status ? status : make_manifest(&draft, files);
	draft_clear(&draft);
	return status;
}
