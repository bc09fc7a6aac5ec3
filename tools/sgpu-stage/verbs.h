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
CLI_VERB(hold);
CLI_VERB(list);
CLI_VERB(release);
CLI_VERB(info);

/* "1.5 GiB", at most 15 characters. */
enum { STAGE_BYTES_TEXT = 16 };
const char *stage_bytes(uint64_t bytes, char text[STAGE_BYTES_TEXT]);
/* Warns if the directory is not the usual one, or is on a disk. path: the directory, or a region in
 * it. */
void stage_warn_of_directory(const char *path);
/* Takes a value of --node. Returns 0, or the exit status after a message. */
int stage_take_node(struct sgpu_region_options *options, const char *text);

/* verb_info.c */
enum { STAGE_NODE_OF_GPU = -2, STAGE_LOCK_TEXT = 160 };
/* Returns the NUMA node of all GPUs, or -1: there is nothing to choose. */
int stage_gpu_node(void);
/* Returns how many bytes this process may lock, and why not more. */
uint64_t stage_lockable(char why[STAGE_LOCK_TEXT]);

#endif
