/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest merge.
 */
#include "verbs.h"
const struct cli_option merge_options[] = { CLI_COMMON, { NULL, 0, NULL, NULL } };
int verb_merge(int argc, char **argv) { const char *value; int first; return cli_next(argc, argv, &value, &first) ? 2 : cli_usage("not ready"); }
