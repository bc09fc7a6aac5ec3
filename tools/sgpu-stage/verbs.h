/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-stage, one file each, and what they print alike.
 */
#ifndef SGPU_STAGE_VERBS_H
#define SGPU_STAGE_VERBS_H

#include "cli.h"

CLI_VERB(load);
CLI_VERB(list);
CLI_VERB(release);
CLI_VERB(info);

/* "1.5 GiB", at most 15 characters. */
enum { STAGE_BYTES_TEXT = 16 };
const char *stage_bytes(uint64_t bytes, char text[STAGE_BYTES_TEXT]);
/* Says where another than the usual directory is taken, or one that is on a disk: of it, or of a
 * region in it. */
void stage_warn_of_directory(const char *path);

#endif
