/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal seal-file: one file into the format of sgpu-sealed(5).
 */
#include "single_file.h"
#include "verbs.h"

const struct cli_option seal_file_options[] = {
	SINGLE_FILE_OPTIONS("where the sealed data go"),
	CLI_END,
};

int verb_seal_file(int argc, char **argv)
{
	return single_file(argc, argv, false);
}
