/* SPDX-License-Identifier: Apache-2.0
 *
 * What seal-file and open-file share: one file, one symmetric key, the bare sealed format.
 */
#ifndef SGPU_SEAL_SINGLE_FILE_H
#define SGPU_SEAL_SINGLE_FILE_H

#include <stdbool.h>

#include <sgpu/base.h>
#include <sgpu/seal.h>

#include "cli.h"

struct single_file {
	const char *key, *out;
	struct cli_bytes context;
	unsigned jobs;
	bool named; /* --allow-named-temporary */
	const char *in;
};

#define SINGLE_FILE_OPTIONS(out_help)                                                            \
	CLI_COMMON,                                                                              \
		{ "key", 'k', "KEY", "symmetric key file (- standard input, fd:N a descriptor)", \
		  CLI_TAKE(single_file_take_key) },                                              \
		{ "context", 0, "HEX",                                                           \
		  "the context that the data are bound to, at most 4096 bytes",                  \
		  CLI_BYTES(struct single_file, context, 0, SGPU_CONTEXT_MAX) },                 \
		{ "jobs", 'j', "N", "threads to use (default: all processors)",                  \
		  CLI_NUMBER(struct single_file, jobs, 1, SGPU_POOL_JOBS_MAX) },                 \
	{                                                                                        \
		"output", 'o', "FILE", out_help, CLI_TEXT(struct single_file, out)               \
	}

int single_file_take_key(void *values, const char *path);
/* The whole verb; returns an exit status. */
int single_file(int argc, char **argv, bool opening);

#endif
