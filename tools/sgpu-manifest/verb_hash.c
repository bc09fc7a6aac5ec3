/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest hash: what a batch names its manifest by.
 */
#include <stdio.h>

#include <sgpu/base.h>

#include "document.h"
#include "manifest_tool.h"

const struct cli_option hash_options[] = { CLI_COMMON, OPTION_OUTSIDE(struct document_request),
					   CLI_END };

static int hash_one(const char *path, unsigned options)
{
	struct document document;
	char hex[2 * sizeof(document.manifest->sha256) + 1];
	int status = document_load(path, options, &document);

	if (!status) {
		sgpu_hex_encode(document.manifest->sha256, sizeof(document.manifest->sha256), hex);
		if (cli_json) {
			status = json_write(NULL, NULL,
					    json_pack("{s:s, s:o, s:s}", "sha256", hex, "file",
						      cli_json_text(document.path), "manifest_id",
						      document.manifest->id),
					    0);
		} else {
			printf("%s  %s\n", hex, document.path);
		}
	}
	document_free(&document);
	return status;
}

int verb_hash(int argc, char **argv)
{
	return document_each(argc, argv, 0, hash_one);
}
