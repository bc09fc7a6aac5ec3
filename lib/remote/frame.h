/* SPDX-License-Identifier: Apache-2.0
 *
 * What travels between a session and its worker over a pipe or a socket: messages
 * (channel/group.h), and reads and writes of the area, which is memory of the worker.
 *
 *   message   size (4), bytes; answered by a message
 *   put       0xffffff01 (4), offset (8), size (8), bytes; not answered
 *   get       0xffffff02 (4), offset (8), size (8); answered by the bytes
 */
#ifndef SGPU_REMOTE_FRAME_H
#define SGPU_REMOTE_FRAME_H

#include "remote/carrier.h"

#define SGPU_FRAME_PUT UINT32_C(0xffffff01)
#define SGPU_FRAME_GET UINT32_C(0xffffff02)

/* A frame without the bytes of put and get. */
struct sgpu_remote_frame {
	uint32_t kind; /* SGPU_FRAME_PUT, SGPU_FRAME_GET, or 0: a message */
	uint64_t offset,
		size; /* size 0 of a message: the other side has ended between two frames */
	uint8_t message[SGPU_MESSAGE_MAX];
};

/* Reads a frame; the bytes of a put follow. Errors: SGPU_EINVALID (no frame, or outside of the
 * area), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_remote_frame_read(int fd, struct sgpu_remote_frame *frame,
					   struct sgpu_error *error);
/* Writes the head of a put or a get. */
SGPU_MUST_CHECK int sgpu_remote_frame_write(int fd, uint32_t kind, uint64_t offset, uint64_t size,
					    struct sgpu_error *error);
/* Reads exactly `size` bytes. */
SGPU_MUST_CHECK int sgpu_remote_frame_bytes(int fd, void *bytes, size_t size,
					    struct sgpu_error *error);

#endif
