/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest check: every fault of each manifest.
 */
#include "document.h"
#include "verbs.h"

const struct cli_option check_options[] = { CLI_COMMON, OPTION_OUTSIDE, { NULL, 0, NULL, NULL } };

/* The last one is left to the end of the process: to free a large manifest piece by piece takes a tenth of the time. */
static struct document document;

static int check_one(const char *path, unsigned options)
{
	int status;

	document_free(&document);
	status = document_load(path, options, &document);

	if (!status) {
		cli_detail("%s: no faults: %d segments, %d operations", document.name,
			   document.manifest->segment_count, document.manifest->operation_count);
	}
	return status;
}

int verb_check(int argc, char **argv)
{
	return document_each(argc, argv, SGPU_MANIFEST_INSIDE | SGPU_MANIFEST_UNHASHED | DOCUMENT_FAULTS_ARE_RESULT, check_one);
}
