/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest canon: the canonical form (RFC 8785), byte for byte what is hashed.
 */
#include <stdio.h>
#include <unistd.h>

#include "document.h"
#include "verbs.h"

const struct cli_option canon_options[] = {
	CLI_COMMON, { "output", 'o', "FILE", "write there, not to standard output" }, OPTION_OUTSIDE,
	{ NULL, 0, NULL, NULL }
};

int verb_canon(int argc, char **argv)
{
	const char *value, *output = NULL;
	struct document document;
	unsigned options = SGPU_MANIFEST_INSIDE;
	int first, key, status;

	while ((key = cli_next(argc, argv, &value, &first))) {
		if (key < 0) {
			return 2;
		}
		options &= key == OPTION_ALLOW_OUTSIDE ? ~(unsigned)SGPU_MANIFEST_INSIDE : ~0u;
		output = key == 'o' ? value : output;
	}
	if (!cli_positionals(argc, first, 0, 1)) {
		return 2;
	}
	status = cli_output_prepare(output, 0666, false);
	if (status) {
		return status;
	}
	status = document_load(argv[first], options, &document);
	if (!status) {
		status = text_write(output, document.path, document.manifest->canonical,
				    document.manifest->canonical_size);
	}
	/* The form has no newline; a prompt should still start on its own line. */
	if (!status && !output && isatty(STDOUT_FILENO)) {
		putchar('\n');
	}
	document_free(&document);
	return status;
}
