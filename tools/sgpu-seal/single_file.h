/* SPDX-License-Identifier: Apache-2.0
 *
 * What seal-file and open-file share: one file, one symmetric key, the bare sealed format.
 */
#ifndef SGPU_SEAL_SINGLE_FILE_H
#define SGPU_SEAL_SINGLE_FILE_H

#include <stdbool.h>

#include "cli.h"

enum { SINGLE_FILE_CONTEXT = CLI_LONG, SINGLE_FILE_NAMED };

#define SINGLE_FILE_OPTIONS(out_help)                                                                    \
	CLI_COMMON, { "key", 'k', "KEY", "symmetric key file (- standard input, fd:N a descriptor)" },   \
	{ "context", SINGLE_FILE_CONTEXT, "HEX", "what the data are bound to, at most 4096 bytes" },     \
	{ "jobs", 'j', "N", "threads to use (default: all processors)" },                               \
	{ "output", 'o', "FILE", out_help }

/* The whole verb; returns an exit status. */
int single_file(int argc, char **argv, bool opening);

#endif
