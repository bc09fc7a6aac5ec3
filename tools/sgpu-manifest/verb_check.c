/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest check, canon and hash: print the diagnostics of manifests; their canonical form
 * (RFC 8785); and its SHA-256, by which a batch names its manifest.
 */
#include <unistd.h>

#include <sgpu/base.h>

#include "manifest_tool.h"

const struct cli_option check_options[] = { CLI_COMMON, OPTION_OUTSIDE, CLI_END };

/* The last document is not freed: the exit of the process takes a tenth of the time that freeing a
 * large manifest piece by piece takes. */
static struct document document;

static int check_one(const char *path, unsigned options)
{
	int status;

	document_free(&document);
	status = document_load(path, options, &document);
	if (!status) {
		cli_detail("%s: no diagnostics: %d segments, %d operations", document.name,
			   document.manifest->segment_count, document.manifest->operation_count);
	}
	return status;
}

int verb_check(int argc, char **argv)
{
	return document_each(argc, argv, SGPU_MANIFEST_UNHASHED | DOCUMENT_RECORDS_ARE_RESULT,
			     check_one);
}

/* ---- canon ---- */
const struct cli_option canon_options[] = { CLI_COMMON, OPTION_OUTPUT, OPTION_OUTSIDE, CLI_END };

int verb_canon(int argc, char **argv)
{
	struct request request = { 0 };
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	status = status ? status : cli_output_prepare(request.output, 0666, false);
	if (status) {
		return status;
	}
	status = document_load(paths[0], request.outside ? 0 : SGPU_MANIFEST_INSIDE, &document);
	if (!status) {
		status = text_write(request.output, document.manifest->canonical,
				    document.manifest->canonical_size);
	}
	/* The canonical form ends without a newline, but a prompt should start on its own line. */
	if (!status && !request.output && isatty(STDOUT_FILENO)) {
		putchar('\n');
	}
	return status;
}

/* ---- hash ---- */
const struct cli_option hash_options[] = { CLI_COMMON, OPTION_OUTSIDE, CLI_END };

static int hash_one(const char *path, unsigned options)
{
	char hex[2 * sizeof(document.manifest->sha256) + 1];
	int status;

	document_free(&document);
	status = document_load(path, options, &document);
	if (!status) {
		sgpu_hex_encode(document.manifest->sha256, sizeof(document.manifest->sha256), hex);
		if (cli_json) {
			status = cli_print_json(json_pack("{s:s, s:o, s:s}", "sha256", hex, "file",
							  cli_json_text(document.path),
							  "manifest_id", document.manifest->id),
						stdout, JSON_COMPACT);
		} else {
			printf("%s  %s\n", hex, document.path);
		}
	}
	return status;
}

int verb_hash(int argc, char **argv)
{
	return document_each(argc, argv, 0, hash_one);
}
