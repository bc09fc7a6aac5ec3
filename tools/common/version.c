/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of --version: enough to report a bug, or to find the source.
 */
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>

#include <sgpu/version.h>

#include "cli.h"

/* The Makefile defines these for this file alone: commit, options on and off, compiler's flags. */
#ifndef SGPU_COMMIT
#define SGPU_COMMIT "unknown"
#define SGPU_WITH ""
#define SGPU_WITHOUT ""
#define SGPU_FLAGS ""
#endif
#ifdef SGPU_CUDA_COMPILER
static const char *const cuda_compiler = SGPU_CUDA_COMPILER, *const cuda_flags = SGPU_CUDA_FLAGS;
#else
static const char *const cuda_compiler, *const cuda_flags;
#endif
/* NULL in a program that is not linked with it. */
__attribute__((weak)) extern const char *OpenSSL_version(int type);
#if defined(__clang__)
#define COMPILER __VERSION__
#else
#define COMPILER "GCC " __VERSION__
#endif

void cli_describe_build(json_t *object)
{
	const char *dirty = strstr(SGPU_COMMIT, "-dirty");
	char command[4096];

	cli_command_text(command, sizeof(command));
	json_t *build = json_pack("{s:o, s:s, s:s, s:s, s:s?, s:s?, s:s, s:s}", "commit",
				  json_stringn(SGPU_COMMIT, strcspn(SGPU_COMMIT, "-")), "tree",
				  dirty					? "modified"
				  : strcmp(SGPU_COMMIT, "unknown") == 0 ? "unknown"
									: "clean",
				  "compiler", COMPILER, "compiler_flags", SGPU_FLAGS,
				  "cuda_compiler", cuda_compiler, "cuda_flags", cuda_flags,
				  "built_with", SGPU_WITH, "command", command);

	json_object_update(object, build);
	json_decref(build);
}

void cli_print_version(void)
{
	printf("%s (sgpu) %s, commit %s\n", cli_tool_name(), SGPU_VERSION, SGPU_COMMIT);
	printf("Built with: %s\n", SGPU_WITH);
	printf("Built without: %s\n", *SGPU_WITHOUT ? SGPU_WITHOUT : "nothing");
	if (OpenSSL_version) {
		printf("%s\n", OpenSSL_version(OPENSSL_VERSION));
	}
	printf("Licence: Apache-2.0. There is no warranty.\n");
}
