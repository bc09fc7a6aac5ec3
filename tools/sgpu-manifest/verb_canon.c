/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest canon: the canonical form (RFC 8785), byte for byte what is hashed.
 */
#include <stdio.h>
#include <unistd.h>

#include "document.h"
#include "manifest_tool.h"

struct request {
	const char *output;
	bool outside;
};

const struct cli_option canon_options[] = { CLI_COMMON, OPTION_OUTPUT(struct request),
					    OPTION_OUTSIDE(struct request), CLI_END };

int verb_canon(int argc, char **argv)
{
	struct request request = { 0 };
	struct document document = { 0 };
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	status = status ? status : cli_output_prepare(request.output, 0666, false);
	if (status) {
		return status;
	}
	status = document_load(paths[0], request.outside ? 0 : SGPU_MANIFEST_INSIDE, &document);
	if (!status) {
		status = text_write(request.output, document.path, document.manifest->canonical,
				    document.manifest->canonical_size);
	}
	/* The form has no newline; a prompt should still start on its own line. */
	if (!status && !request.output && isatty(STDOUT_FILENO)) {
		putchar('\n');
	}
	document_free(&document);
	return status;
}
