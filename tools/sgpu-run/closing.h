/* SPDX-License-Identifier: Apache-2.0
 *
 * Closes connections for the supervisor. Descriptors that a client sent and nobody received are
 * closed with its connection, and closing some of them blocks for as long as the client likes, as
 * that of a socket that lingers. It does not block in a thread that ends. So the last to have a
 * connection is always such a thread, with a table of descriptors of its own.
 */
#ifndef SGPU_RUN_CLOSING_H
#define SGPU_RUN_CLOSING_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOSING_ROOM = 1024 };

/* Takes a descriptor, which one of the next calls of closing_do closes. */
void closing_take(int fd);
/* Closes those that were taken, once the first has waited for CLOSING_WAIT_NS, many wait, or `all`
 * are to go; false: not now, the machine lacks threads or memory. */
#define CLOSING_WAIT_NS UINT64_C(20000000)
bool closing_do(bool all);
/* When it is to be called next; 0: there is nothing to close. */
uint64_t closing_due_ns(void);
/* How many more it can take. */
unsigned closing_room(void);

#endif
