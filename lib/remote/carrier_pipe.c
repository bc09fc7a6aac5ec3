/* SPDX-License-Identifier: Apache-2.0
 *
 * A session over a pipe or a socket: frame.h says what travels.
 */
#include <stdlib.h>

#include <sgpu/io.h>

#include "remote/carrier.h"
#include "remote/frame.h"

struct pipe_carrier {
	struct sgpu_carrier carrier;
	struct sgpu_pipe pipe;
};

static int exchange(void *argument, const uint8_t *message, size_t size, uint8_t *answer, size_t *answer_size,
		    struct sgpu_error *error)
{
	struct pipe_carrier *c = argument;

	return sgpu_pipe_exchange(&c->pipe, message, size, answer, answer_size, error);
}

static int put(struct sgpu_carrier *carrier, uint64_t offset, const uint8_t *bytes, size_t size, struct sgpu_error *error)
{
	const struct pipe_carrier *c = (const struct pipe_carrier *)carrier;
	int rc = sgpu_remote_frame_write(c->pipe.out, SGPU_FRAME_PUT, offset, size, error);

	return rc < 0 ? rc : sgpu_write(c->pipe.out, "a session", bytes, size, error);
}

static int get(struct sgpu_carrier *carrier, uint64_t offset, uint8_t *bytes, size_t size, struct sgpu_error *error)
{
	const struct pipe_carrier *c = (const struct pipe_carrier *)carrier;
	int rc = sgpu_remote_frame_write(c->pipe.out, SGPU_FRAME_GET, offset, size, error);

	return rc < 0 ? rc : sgpu_remote_frame_bytes(c->pipe.in, bytes, size, error);
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
	c->pipe = (struct sgpu_pipe){ in, out };
	*carrier = &c->carrier;
	return SGPU_OK;
}
