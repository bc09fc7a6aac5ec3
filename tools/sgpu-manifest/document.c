/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading, checking and reporting, which all verbs share.
 */
#include "base/io.h"
#include "ops/ops.h"
#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "manifest_tool.h"

static int check(struct document *document, unsigned options)
{
	struct sgpu_error error = { 0 };
	int code = sgpu_manifest_parse_options(document->text, document->size,
					       (options & ~(unsigned)DOCUMENT_RECORDS_ARE_RESULT) |
						       SGPU_MANIFEST_WHOLE,
					       &document->manifest, &document->diagnostics, &error);

	code = code ? code : sgpu_ops_check(document->manifest, &document->diagnostics, &error);
	/* Text that is no JSON comes back as a diagnostic with its place. */
	if (code && !(code == SGPU_EINVALID && document->diagnostics.count)) {
		return cli_error(&error);
	}
	code = sgpu_diagnostics_locate(&document->diagnostics, document->text, document->size,
				       &error);
	if (!code && document->diagnostics.out_of_memory) {
		code = sgpu_fail_nomem(&error);
	}
	if (code) {
		return cli_error(&error);
	}
	if (!document->diagnostics.count) {
		return 0;
	}
	sgpu_manifest_free(&document->manifest);
	report_diagnostics(document, options & DOCUMENT_RECORDS_ARE_RESULT ? stdout : stderr);
	return 1;
}

int document_load(const char *path, unsigned options, struct document *document)
{
	struct sgpu_error error = { 0 };
	int code;

	memset(document, 0, sizeof(*document));
	document->path = path ? path : "-";
	document->name = cli_is_standard(path) ? "standard input" : path;
	if (cli_is_standard(path) && isatty(STDIN_FILENO)) {
		return cli_usage(
			"refusing to read a manifest from a terminal; name a file or redirect");
	}
	code = sgpu_read_file(document->path, SGPU_MANIFEST_SIZE_MAX, &document->text,
			      &document->size, &error);
	if (!code && !document->size) {
		code = sgpu_fail_sniffed(&error, STDIN_FILENO, document->name, "", 0, "a manifest");
	}
	return code ? cli_error(&error) : check(document, options);
}

int document_check(const char *text, size_t size, const char *name, unsigned options,
		   struct document *document)
{
	struct sgpu_error error = { 0 };

	memset(document, 0, sizeof(*document));
	document->path = document->name = name;
	document->text = malloc(size + 1);
	if (!document->text) {
		sgpu_fail_nomem(&error);
		return cli_error(&error);
	}
	memcpy(document->text, text, size);
	document->text[size] = '\0';
	document->size = size;
	return check(document, options);
}

void document_free(struct document *document)
{
	sgpu_manifest_free(&document->manifest);
	sgpu_diagnostics_clear(&document->diagnostics);
	free(document->text);
	document->text = NULL;
}

int document_each(int argc, char **argv, unsigned options,
		  int (*one)(const char *path, unsigned options))
{
	struct document_request request = { 0 };
	char **paths;
	int worst = cli_read(argc, argv, &request, &paths);

	if (worst) {
		return worst;
	}
	options |= request.outside ? 0 : SGPU_MANIFEST_INSIDE;
	if (!*paths) {
		return one(NULL, options);
	}
	for (; *paths; paths++) {
		int status = one(*paths, options);

		worst = status > worst ? status : worst;
	}
	return worst;
}

bool output_differs(const char *output, const char *input)
{
	struct stat a, b;

	if (!output || !input || strcmp(output, "-") == 0) {
		return true;
	}
	if (stat(output, &a) == 0 && S_ISREG(a.st_mode) &&
	    (strcmp(input, "-") == 0 ? fstat(STDIN_FILENO, &b) : stat(input, &b)) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
		cli_usage("the output '%s' is an input, too", output);
		return false;
	}
	return true;
}

int text_write(const char *path, const char *input, const char *text, size_t size)
{
	struct sgpu_error error = { 0 };

	if (!output_differs(path, input)) {
		return 2;
	}
	return cli_write_text(path, 0666, text, size, &error) ? cli_error(&error) : 0;
}

int json_write(const char *path, const char *input, json_t *value, size_t indent)
{
	char *text = value ? pretty_json(value, indent, !path) : NULL;
	size_t size = text ? strlen(text) : 0;
	int status;

	if (text) {
		text[size] = '\n'; /* in place of the NUL, which text_write does not need */
		status = text_write(path, input, text, size + 1);
	} else {
		status = cli_fail(SGPU_ENOMEM, "out of memory");
	}
	free(text);
	json_decref(value);
	return status;
}
