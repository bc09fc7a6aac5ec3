/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors that a client hands to the server. A client may be hostile, so the server takes only
 * those on which no call can block for ever: files in memory (tmpfs, memfd), files on a disk, and
 * pipes, which are read as far as they are filled. Not among them: network file systems, FUSE,
 * overlays, of which a part may be either, and files that show the kernel or another process. A
 * client copies all these through a pipe or memory of its own.
 */
#ifndef SGPU_RUN_HANDED_H
#define SGPU_RUN_HANDED_H

#include <stdbool.h>

/* Whether the server takes the descriptor as a batch, or as the place of a response. Never blocks,
 * either. */
bool handed_batch_is_taken(int fd);
bool handed_response_is_taken(int fd);

#endif
