/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of a session over a pipe or a socket.
 */

#include "base/io.h"
#include "channel/group.h"
#include "channel/wire.h"

int sgpu_message_read(int fd, uint8_t message[SGPU_MESSAGE_MAX], size_t *size,
		      struct sgpu_error *error)
{
	uint8_t head[4];
	struct sgpu_reader reader = { .next = head, .left = sizeof(head) };
	size_t got = 0;
	int rc = sgpu_read(fd, "a session", head, sizeof(head), &got, error);

	*size = 0;
	if (rc < 0 || got == 0) {
		return rc;
	}
	*size = sgpu_take_u32(&reader);
	if (got < sizeof(head) || *size == 0 || *size > SGPU_MESSAGE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "a message of a session is malformed");
	}
	rc = sgpu_read(fd, "a session", message, *size, &got, error);
	if (rc == SGPU_OK && got < *size) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "a message of a session ends after %zu of %zu bytes", got, *size);
	}
	return rc;
}

int sgpu_message_write(int fd, const uint8_t *message, size_t size, struct sgpu_error *error)
{
	uint8_t frame[4 + SGPU_MESSAGE_MAX];

	if (size == 0 || size > SGPU_MESSAGE_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a message of %zu bytes", size);
	}
	/* In one write, so that a small one arrives whole. */
	sgpu_put_bytes(sgpu_put_u32(frame, (uint32_t)size), message, size);
	return sgpu_write(fd, "a session", frame, 4 + size, error);
}

int sgpu_pipe_exchange(void *argument, const uint8_t *message, size_t size, uint8_t *answer,
		       size_t *answer_size, struct sgpu_error *error)
{
	const struct sgpu_pipe *pipe = argument;
	int rc = sgpu_message_write(pipe->out, message, size, error);

	if (rc == SGPU_OK) {
		rc = sgpu_message_read(pipe->in, answer, answer_size, error);
	}
	if (rc == SGPU_OK && *answer_size == 0) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "the other side of a session has ended");
	}
	return rc;
}
