/* SPDX-License-Identifier: Apache-2.0
 *
 * What a record of measurements says of the program that made it.
 */
#include <string.h>

#include "verbs.h"

/* The Makefile defines these for this file and version.c alone. */
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

/* Writes the command line, cut to `size`, in printable ASCII; for people. */
static void command_text(char *text, size_t size)
{
	size_t length = (size_t)snprintf(text, size, "%s", cli_tool_name());

	for (char **word = command_words; *word && length < size; word++) {
		length += (size_t)snprintf(text + length, size - length,
					   strpbrk(*word, " \t'\"\\$`") ? " '%s'" : " %s", *word);
	}
	for (char *c = text; *c; c++) {
		*c = *c < ' ' || *c > '~' ? '?' : *c;
	}
}

void describe_build(json_t *object)
{
	const char *dirty = strstr(SGPU_COMMIT, "-dirty");
	char command[4096];

	command_text(command, sizeof(command));
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
