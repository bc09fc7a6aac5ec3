/* SPDX-License-Identifier: Apache-2.0
 *
 * A session over a pipe or a socket; carrier.h has the format.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "remote/carrier.h"

struct pipe_carrier {
	struct sgpu_carrier carrier;
	int in, out;
};

static int exchange(void *argument, const uint8_t *message, size_t size, uint8_t *answer,
		    size_t *answer_size, struct sgpu_error *error)
{
	struct pipe_carrier *c = argument;
	struct sgpu_remote_frame frame;
	int rc = sgpu_message_write(c->out, message, size, error);

	rc = rc ? rc : sgpu_remote_frame_read(c->in, &frame, answer, error);
	if (rc < 0) {
		return rc;
	}
	*answer_size = (size_t)frame.size;
	if (frame.kind != 0) {
		return sgpu_fail(error, SGPU_EINVALID, "a message of a session is malformed");
	}
	return frame.size > 0
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_ESYSTEM, "the other side of a session has ended");
}

static int put(struct sgpu_carrier *carrier, uint64_t offset, const uint8_t *bytes, size_t size,
	       struct sgpu_error *error)
{
	struct pipe_carrier *c = (struct pipe_carrier *)carrier;
	int rc = sgpu_remote_frame_write(c->out, SGPU_FRAME_PUT, offset, size, error);

	return rc < 0 ? rc : sgpu_write(c->out, "a session", bytes, size, error);
}

static int get(struct sgpu_carrier *carrier, uint64_t offset, uint8_t *bytes, size_t size,
	       struct sgpu_error *error)
{
	struct pipe_carrier *c = (struct pipe_carrier *)carrier;
	int rc = sgpu_remote_frame_write(c->out, SGPU_FRAME_GET, offset, size, error);

	return rc < 0 ? rc : sgpu_remote_frame_bytes(c->in, bytes, size, error);
}

static void close_pipe(struct sgpu_carrier *carrier)
{
	free(carrier);
}

int sgpu_carrier_pipe(int in, int out, struct sgpu_carrier **carrier, struct sgpu_error *error)
{
	static const struct sgpu_carrier_calls calls = { exchange, put, get, close_pipe };
	struct pipe_carrier *c = calloc(1, sizeof(*c));

	*carrier = NULL;
	if (!c) {
		return sgpu_fail_nomem(error);
	}
	c->carrier.calls = &calls;
	c->in = in;
	c->out = out;
	*carrier = &c->carrier;
	return SGPU_OK;
}
