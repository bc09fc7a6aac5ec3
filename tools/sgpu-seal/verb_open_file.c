/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal open-file: the inverse of seal-file.
 */
#include "single_file.h"
#include "verbs.h"

const struct cli_option open_file_options[] = {
	SINGLE_FILE_OPTIONS("where the opened data go"),
	{ "allow-named-temporary", 0, NULL, "write even where a killed run would leave plaintext",
	  CLI_FLAG(struct single_file, named) },
	CLI_END,
};

int verb_open_file(int argc, char **argv)
{
	return single_file(argc, argv, true);
}
