/* SPDX-License-Identifier: Apache-2.0
 *
 * A carrier takes a session's messages and sealed data to its worker and back: over a pipe, or over
 * a ring and an area that both sides map. Neither the carrier nor its data are trusted.
 *
 * The area holds sealed data: `put` writes there before the next message is sent, and `get` reads
 * what the worker wrote before its last answer.
 */
#ifndef SGPU_REMOTE_CARRIER_H
#define SGPU_REMOTE_CARRIER_H

#include <sgpu/base.h>
#include <sgpu/session.h>

#include "channel/group.h"
#include "ring/ring.h"

enum { SGPU_AREA_SIZE = 4 << 20 };

struct sgpu_carrier {
	const struct sgpu_carrier_calls *calls;
	uint64_t patience_ns; /* over a ring: how long a call waits for the worker; 0: for ever */
};

struct sgpu_carrier_calls {
	sgpu_exchange_fn exchange; /* its argument is the carrier */
	/* Copy from private memory to the area, and back, within the area. */
	int (*put)(struct sgpu_carrier *carrier, uint64_t offset, const uint8_t *bytes, size_t size,
		   struct sgpu_error *error);
	int (*get)(struct sgpu_carrier *carrier, uint64_t offset, uint8_t *bytes, size_t size,
		   struct sgpu_error *error);
	void (*close)(struct sgpu_carrier *carrier);
};

/* carrier_pipe.c: uses two borrowed descriptors. The program must ignore SIGPIPE. */
SGPU_MUST_CHECK int sgpu_carrier_pipe(int in, int out, struct sgpu_carrier **carrier,
				      struct sgpu_error *error);

/* ---- carrier_ring.c: over a ring ----
 * The two sides also map a file with this layout:
 *
 *   0                 sealed data: the area
 *   SGPU_AREA_SIZE    a message; then its answer
 *
 * The program writes a message and submits LINK_MESSAGE with its length. The worker overwrites the
 * message with its answer, and completes the operation with that length. */
enum {
	LINK_MESSAGE = SGPU_RING_OPCODE_SERVICE, /* `length`: of the message */
	LINK_ENTRIES = 16,			 /* of each queue */
	LINK_SIZE = SGPU_AREA_SIZE + (20 << 10),
};
_Static_assert(SGPU_MESSAGE_MAX <= LINK_SIZE - SGPU_AREA_SIZE, "a message has room");

/* The descriptors are borrowed. */
SGPU_MUST_CHECK int sgpu_carrier_ring(const struct sgpu_remote_ring *ring,
				      struct sgpu_carrier **carrier, struct sgpu_error *error);
/* Checks the type, size and seals of the file, which the other side may have made, and maps it. If
 * this fails, *area is NULL. */
SGPU_MUST_CHECK int sgpu_link_map(int fd, uint8_t **area, struct sgpu_error *error);
void sgpu_link_unmap(uint8_t **area);
/* Makes the two memory files of a link, which the caller closes. */
SGPU_MUST_CHECK int sgpu_link_create(int *memory, int *area, struct sgpu_error *error);

extern const struct sgpu_group_jobs sgpu_remote_jobs; /* job.c */

/* ---- frame.c ----
 * Frames on a pipe or a socket are messages (channel/group.h), and reads and writes of the area,
 * which is the worker's memory.
 *
 *   message   size (4), bytes; answered by a message
 *   put       0xffffff01 (4), offset (8), size (8), bytes; not answered
 *   get       0xffffff02 (4), offset (8), size (8); answered by the bytes
 */
#define SGPU_FRAME_PUT UINT32_C(0xffffff01)
#define SGPU_FRAME_GET UINT32_C(0xffffff02)

struct sgpu_remote_frame {
	uint32_t kind; /* SGPU_FRAME_PUT, SGPU_FRAME_GET, or 0: a message */
	/* size 0 of a message: the stream has ended between frames */
	uint64_t offset, size;
};

/* Reads a frame, with the bytes of a message but not those of a put. Errors: SGPU_EINVALID (not a
 * frame, or a range outside the area), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_remote_frame_read(int fd, struct sgpu_remote_frame *frame,
					   uint8_t message[SGPU_MESSAGE_MAX],
					   struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_message_write(int fd, const uint8_t *message, size_t size,
				       struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_remote_frame_write(int fd, uint32_t kind, uint64_t offset, uint64_t size,
					    struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_remote_frame_bytes(int fd, void *bytes, size_t size,
					    struct sgpu_error *error);

#endif
