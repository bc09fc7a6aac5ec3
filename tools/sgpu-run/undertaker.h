/* SPDX-License-Identifier: Apache-2.0
 *
 * Closes connections for the supervisor. Descriptors that a client sent and nobody received are closed with its connection,
 * and closing some of them blocks for as long as the client likes, as that of a socket that lingers. It does not block in a
 * process that ends; so the last to have a connection is always such a process.
 */
#ifndef SGPU_RUN_UNDERTAKER_H
#define SGPU_RUN_UNDERTAKER_H

#include <stdbool.h>

enum { UNDERTAKER_ROOM = 1024 };

/* Takes a descriptor, which is closed by one of the next calls of undertaker_bury. */
void undertaker_take(int fd);
/* Closes those that were taken; false: not now, the machine lacks processes or descriptors. */
bool undertaker_bury(void);
/* How many more it can take. */
unsigned undertaker_room(void);

#endif
