/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of tools/common.
 */
#ifndef SGPU_CLI_PRIVATE_H
#define SGPU_CLI_PRIVATE_H

/* "sgpu-seal", and the running verb or "". */
const char *cli_tool_name(void);
const char *cli_verb_name(void);

/* Ends a progress line before a message is printed. */
void cli_progress_pause(void);

#endif
