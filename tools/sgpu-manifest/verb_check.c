/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest check: every fault of each manifest.
 */
#include "document.h"
#include "verbs.h"

const struct cli_option check_options[] = { CLI_COMMON, OPTION_OUTSIDE, { NULL, 0, NULL, NULL } };

static int check_one(const char *path, bool allow_outside)
{
	struct document document;
	int status = document_load(path, allow_outside, &document);

	if (!status) {
		cli_detail("%s: no faults: %d segments, %d operations", document.name,
			   document.manifest->segment_count, document.manifest->operation_count);
	}
	document_free(&document);
	return status;
}

int verb_check(int argc, char **argv)
{
	bool allow_outside = false;
	const char *value;
	int first, key, worst = 0;

	while ((key = cli_next(argc, argv, &value, &first))) {
		if (key < 0) {
			return 2;
		}
		allow_outside |= key == OPTION_ALLOW_OUTSIDE;
	}
	if (first == argc) {
		return check_one(NULL, allow_outside);
	}
	for (int i = first; i < argc; i++) {
		int status = check_one(argv[i], allow_outside);

		worst = status > worst ? status : worst;
	}
	return worst;
}
