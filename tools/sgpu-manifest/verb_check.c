/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest check: every diagnostic of each manifest.
 */
#include "cli.h"
#include "document.h"
#include "manifest_tool.h"

const struct cli_option check_options[] = { CLI_COMMON, OPTION_OUTSIDE(struct document_request),
					    CLI_END };

/* The last one is left to the end of the process: to free a large manifest piece by piece takes a
 * tenth of the time. */
static struct document document;

/* What the manifest says of files that it is not alone with. */
static int compare_modules(unsigned options)
{
	struct payload_folder folder = { .allow_outside = !(options & SGPU_MANIFEST_INSIDE),
					 .spool = -1 };
	struct sgpu_error error = { 0 };
	int status = 0;

	if (!payload_folder_open(document.path, &folder, &error)) {
		status = module_digests_compare(&document, &folder);
	}
	payload_folder_close(&folder);
	return status;
}

static int check_one(const char *path, unsigned options)
{
	int status;

	document_free(&document);
	status = document_load(path, options, &document);
	status = status ? status : compare_modules(options);
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
