/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of carrier.h.
 */

#include "base/io.h"
#include "channel/wire.h"
#include "remote/carrier.h"

int sgpu_remote_frame_bytes(int fd, void *bytes, size_t size, struct sgpu_error *error)
{
	size_t got = 0;
	int rc = sgpu_read(fd, "a session", bytes, size, &got, error);

	return rc == SGPU_OK && got < size
		       ? sgpu_fail(error, SGPU_EINVALID, "a session ends within a message")
		       : rc;
}

static int read_range(int fd, struct sgpu_remote_frame *frame, struct sgpu_error *error)
{
	uint8_t range[16];
	struct sgpu_reader reader = { .next = range, .left = sizeof(range) };
	int rc = sgpu_remote_frame_bytes(fd, range, sizeof(range), error);

	if (rc < 0) {
		return rc;
	}
	frame->offset = sgpu_take_u64(&reader);
	frame->size = sgpu_take_u64(&reader);
	if (frame->offset > SGPU_AREA_SIZE || frame->size > SGPU_AREA_SIZE - frame->offset) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a message of a session is outside of the shared area");
	}
	return SGPU_OK;
}

int sgpu_remote_frame_read(int fd, struct sgpu_remote_frame *frame,
			   uint8_t message[SGPU_MESSAGE_MAX], struct sgpu_error *error)
{
	uint8_t head[4];
	struct sgpu_reader reader = { .next = head, .left = sizeof(head) };
	size_t got = 0;
	int rc = sgpu_read(fd, "a session", head, sizeof(head), &got, error);

	frame->kind = 0;
	frame->offset = frame->size = 0;
	if (rc < 0 || got == 0) {
		return rc;
	}
	frame->kind = sgpu_take_u32(&reader);
	if (got == sizeof(head) &&
	    (frame->kind == SGPU_FRAME_PUT || frame->kind == SGPU_FRAME_GET)) {
		return read_range(fd, frame, error);
	}
	frame->size = frame->kind;
	frame->kind = 0;
	if (got < sizeof(head) || frame->size == 0 || frame->size > SGPU_MESSAGE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "a message of a session is malformed");
	}
	return sgpu_remote_frame_bytes(fd, message, (size_t)frame->size, error);
}

int sgpu_remote_frame_write(int fd, uint32_t kind, uint64_t offset, uint64_t size,
			    struct sgpu_error *error)
{
	uint8_t head[20];

	sgpu_put_u64(sgpu_put_u64(sgpu_put_u32(head, kind), offset), size);
	return sgpu_write(fd, "a session", head, sizeof(head), error);
}

int sgpu_message_write(int fd, const uint8_t *message, size_t size, struct sgpu_error *error)
{
	uint8_t frame[4 + SGPU_MESSAGE_MAX];

	if (size == 0 || size > SGPU_MESSAGE_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a message of %zu bytes", size);
	}
	/* One write lets a small message arrive whole. */
	sgpu_put_bytes(sgpu_put_u32(frame, (uint32_t)size), message, size);
	return sgpu_write(fd, "a session", frame, 4 + size, error);
}
