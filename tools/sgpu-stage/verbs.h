/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-stage, and the functions that they share.
 */
#ifndef SGPU_STAGE_VERBS_H
#define SGPU_STAGE_VERBS_H

#include "stage/stage.h"

#include "cli.h"

CLI_VERB(load);
CLI_VERB(pin);
CLI_VERB(list);
CLI_VERB(release);

/* "1.5 GiB", at most 15 characters. */
enum { STAGE_BYTES_TEXT = 16 };
const char *stage_bytes(uint64_t bytes, char text[STAGE_BYTES_TEXT]);
/* Warns if the directory is not the usual one, or is on a disk. path: the directory, or a region in
 * it. */
void stage_warn_of_directory(const char *path);

#endif
