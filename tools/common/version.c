/* SPDX-License-Identifier: Apache-2.0
 *
 * What --version tells: enough for a report of a fault, or to find the source again.
 */
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>

#include <sgpu/version.h>

#include "cli.h"

/* The Makefile gives these to this file alone: the commit, and its variables that built something
 * in, or did not. */
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
	json_object_set_new(object, "commit", json_stringn(SGPU_COMMIT, strcspn(SGPU_COMMIT, "-")));
	json_object_set_new(object, "tree",
			    json_string(dirty				      ? "modified"
					: strcmp(SGPU_COMMIT, "unknown") == 0 ? "unknown"
									      : "clean"));
	json_object_set_new(object, "compiler", json_string(COMPILER));
	json_object_set_new(object, "compiler_flags", json_string(SGPU_FLAGS));
	json_object_set_new(object, "cuda_compiler",
			    cuda_compiler ? json_string(cuda_compiler) : json_null());
	json_object_set_new(object, "cuda_flags",
			    cuda_flags ? json_string(cuda_flags) : json_null());
	json_object_set_new(object, "built_with", json_string(SGPU_WITH));
	json_object_set_new(object, "command", json_string(command));
}

void cli_print_version(const char *tool)
{
	printf("%s (sgpu) %s, commit %s\n", tool, SGPU_VERSION, SGPU_COMMIT);
	printf("Built with: %s\n", SGPU_WITH);
	printf("Built without: %s\n", *SGPU_WITHOUT ? SGPU_WITHOUT : "nothing");
	printf("%s\n", OpenSSL_version(OPENSSL_VERSION));
	printf("Licence: Apache-2.0. There is no warranty.\n");
}
