/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest check, canon and hash: print the diagnostics of manifests; their canonical form
 * (RFC 8785); and its SHA-256, by which a batch names its manifest.
 */
#include <unistd.h>

#include <sgpu/base.h>

#include "manifest_tool.h"

const struct cli_option check_options[] = { CLI_COMMON, OPTION_OUTSIDE, CLI_END };

static int check_one(const struct document *document)
{
	cli_detail("%s: no diagnostics: %d segments, %d operations", document->name,
		   document->manifest->segment_count, document->manifest->operation_count);
	return 0;
}

int verb_check(int argc, char **argv)
{
	return document_each(argc, argv, DOCUMENT_RECORDS_ARE_RESULT, check_one);
}

/* ---- canon ---- */
const struct cli_option canon_options[] = { CLI_COMMON, OPTION_OUTPUT, OPTION_OUTSIDE, CLI_END };

int verb_canon(int argc, char **argv)
{
	static struct document document; /* not freed, as in document_each */
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

static int hash_one(const struct document *document)
{
	char hex[2 * sizeof(document->manifest->sha256) + 1];

	sgpu_hex_encode(document->manifest->sha256, sizeof(document->manifest->sha256), hex);
	if (cli_json) {
		return cli_print_json(json_pack("{s:s, s:o, s:s}", "sha256", hex, "file",
						cli_json_text(document->path), "manifest_id",
						document->manifest->id),
				      stdout, JSON_COMPACT);
	}
	printf("%s  %s\n", hex, document->path);
	return 0;
}

int verb_hash(int argc, char **argv)
{
	return document_each(argc, argv, 0, hash_one);
}
