/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two sides of a session over a ring share: the ring's memory, and a file that both map.
 *
 *   0                 sealed data: the area of carrier.h
 *   SGPU_AREA_SIZE    a message; then its answer
 *
 * The program writes a message and submits LINK_MESSAGE with its length; the worker puts the answer
 * into its place and completes that with the answer's length. Each side reads what is there once,
 * into memory of its own.
 */
#ifndef SGPU_REMOTE_LINK_H
#define SGPU_REMOTE_LINK_H

#include <sgpu/session.h>

#include "ring/ring.h"
#include "remote/carrier.h"

enum {
	LINK_MESSAGE = SGPU_RING_OPCODE_SERVICE, /* length */
	LINK_ENTRIES = 16,			 /* of each queue */
	LINK_SIZE = SGPU_AREA_SIZE + (20 << 10), /* of the file */
};
_Static_assert(SGPU_MESSAGE_MAX <= LINK_SIZE - SGPU_AREA_SIZE, "a message has room");

/* Maps the file, which the other side may have made: its type, size and seals are checked. *area is
 * NULL if this fails. */
SGPU_MUST_CHECK int sgpu_link_map(int fd, uint8_t **area, struct sgpu_error *error);
void sgpu_link_unmap(uint8_t **area);
/* Makes the two files that sides share. The caller adds a bell and closes all when it needs them no
 * more. */
SGPU_MUST_CHECK int sgpu_link_create(int *memory, int *area, struct sgpu_error *error);

#endif
