/* SPDX-License-Identifier: Apache-2.0
 *
 * Closes connections for the supervisor. Descriptors that a client sent and nobody received are
 * closed with its connection, and closing some of them blocks for as long as the client likes, as
 * that of a socket that lingers. It does not block in a process that ends; so the last to have a
 * connection is always such a process. To start one takes longer than most of what the supervisor
 * does: another process does that, and one that ends takes the connections of many batches.
 */
#ifndef SGPU_RUN_UNDERTAKER_H
#define SGPU_RUN_UNDERTAKER_H

#include <stdbool.h>
#include <stdint.h>

enum { UNDERTAKER_ROOM = 1024 };

/* Starts the process that starts the others; false: errno says why. It ends with the caller. */
bool undertaker_start(void);
/* Takes a descriptor, which is closed by one of the next calls of undertaker_bury. */
void undertaker_take(int fd);
/* Closes those that were taken, once the first has waited for UNDERTAKER_WAIT_NS, many wait, or
 * `all` are to go; false: not now, the machine lacks processes or descriptors. */
#define UNDERTAKER_WAIT_NS UINT64_C(20000000)
bool undertaker_bury(bool all);
/* When it is to be called next; 0: there is nothing to close. */
uint64_t undertaker_due_ns(void);
/* How many more it can take. */
unsigned undertaker_room(void);

#endif
