/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest check and canon: print the diagnostics of manifests, and their canonical form (RFC
 * 8785), by whose SHA-256 a batch names its manifest.
 */
#include <unistd.h>

#include <sgpu/base.h>

#include "manifest_tool.h"

const struct cli_option check_options[] = {
	{ "allow-outside", 0, NULL, "let inputs lie outside the manifest's directory",
	  CLI_FLAG(struct request, outside) },
	CLI_END,
};

int verb_check(int argc, char **argv)
{
	/* The last one is not freed: to free a large manifest piece by piece takes ten times as
	 * long as the exit of the process. */
	static struct document document;
	struct request request = { 0 };
	char **paths;
	int worst = cli_read(argc, argv, &request, &paths);

	if (worst) {
		return worst;
	}
	do {
		document_free(&document);
		const int status = document_load(
			*paths,
			DOCUMENT_RECORDS_ARE_RESULT | (request.outside ? 0 : SGPU_MANIFEST_INSIDE),
			&document);
		if (!status) {
			cli_detail("%s: no diagnostics: %d segments, %d operations", document.name,
				   document.manifest->segment_count,
				   document.manifest->operation_count);
		}
		worst = status > worst ? status : worst;
	} while (*paths && *++paths);
	return worst;
}

const struct cli_option canon_options[] = {
	{ CLI_ROWS(schema_options) },
	{ CLI_ROWS(check_options) },
	CLI_END,
};

int verb_canon(int argc, char **argv)
{
	static struct document document; /* not freed, as in verb_check */
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
	/* The canonical form ends without a newline, but a prompt should begin a line. */
	if (!status && !request.output && isatty(STDOUT_FILENO)) {
		putchar('\n');
	}
	return status;
}
