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

/* Warns if the directory `path`, or that of a region `path`, is unusual or on a disk. */
void stage_warn_of_directory(const char *path);

#endif
