/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-stage.
 */
#ifndef SGPU_STAGE_VERBS_H
#define SGPU_STAGE_VERBS_H

#include "stage/stage.h"

#include "cli.h"

CLI_VERB(load);
CLI_VERB(pin);
CLI_VERB(list);
CLI_VERB(release);

/* Warns if the directory is not the usual one, or is on a disk. path: the directory, or a region in
 * it. */
void stage_warn_of_directory(const char *path);

#endif
