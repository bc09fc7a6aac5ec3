/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of tools/common.
 */
#ifndef SGPU_CLI_PRIVATE_H
#define SGPU_CLI_PRIVATE_H

#include <stdbool.h>

/* "sgpu-seal", and the running verb or "". */
const char *cli_tool_name(void);
const char *cli_verb_name(void);
const struct cli_verb *cli_verb(void);
/* Prints the verb's help, or the version, and exits. */
_Noreturn void cli_print_help(bool version);

/* help.c: one option of --help. */
struct cli_option;
struct cli_tool;
void cli_print_option(const struct cli_option *option);
/* Say so, with the one that was meant; return 2. */
int cli_unknown_verb(const struct cli_tool *tool, const char *given);
int cli_unknown_option(const struct cli_option *options, const char *given);
/* Whether the first argument of a tool with a default verb is no file, but nearly a verb. */
bool cli_meant_verb(const struct cli_tool *tool, const char *given);

/* The command line as a shell shows it, cut to `size`, in printable ASCII; for people, not for a
 * shell. */
void cli_command_text(char *text, size_t size);

/* version.c: the lines of --version. */
void cli_print_version(const char *tool);

/* From here on SIGUSR1 prints how far it is. */
void cli_progress_on_signal(void);

/* Closes what was prepared and not taken. */
void cli_outputs_close(void);

/* Whether a reader of ours has gone: then nobody wants to be told, least of all that. */
bool cli_reader_gone(void);

#endif
