/* SPDX-License-Identifier: Apache-2.0
 *
 * A session over a ring: the shared memory, and the program's side, which makes no system calls
 * while the worker is awake.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "remote/carrier.h"

/* ---- the shared memory ---- */
int sgpu_link_create(int *memory, int *area, struct sgpu_error *error)
{
	int rc = sgpu_ring_memory_create(LINK_ENTRIES, LINK_ENTRIES, memory, error);

	*area = -1;
	if (rc < 0) {
		return rc;
	}
	rc = sgpu_memory_file_create("sgpu-session", LINK_SIZE, true, area, error);
	if (rc < 0) {
		close(*memory);
		*memory = -1;
	}
	return rc;
}

int sgpu_link_map(int fd, uint8_t **area, struct sgpu_error *error)
{
	uint64_t size;
	void *memory;
	const int rc = sgpu_memory_file_map(fd, "the area of a session", LINK_SIZE, LINK_SIZE,
					    &memory, &size, error);

	*area = memory;
	return rc;
}

void sgpu_link_unmap(uint8_t **area)
{
	if (*area) {
		munmap(*area, LINK_SIZE);
		*area = NULL;
	}
}

/* ---- the program's side ---- */
struct ring_carrier {
	struct sgpu_carrier carrier;
	struct sgpu_ring *ring;
	uint8_t *area;
};

/* A worker that ends closes its bell; if the worker hangs, only the deadline ends the wait. */
static int await_answer(struct ring_carrier *c, uint64_t *size, struct sgpu_error *error)
{
	const uint64_t patience = c->carrier.patience_ns;
	const uint64_t deadline = patience ? sgpu_now_ns() + patience : 0;
	struct sgpu_ring_result result;
	size_t count = 0;
	int rc = SGPU_OK;

	while (rc == SGPU_OK && count == 0) {
		rc = sgpu_ring_await(c->ring, deadline, error);
		if (rc == SGPU_ESYSTEM || rc == SGPU_ETIMEOUT) {
			return sgpu_fail(error, rc,
					 rc == SGPU_ESYSTEM
						 ? "the worker of the session has ended"
						 : "the worker of the session does not answer");
		}
		rc = rc ? rc : sgpu_ring_reap(c->ring, &result, 1, &count, error);
	}
	if (rc == SGPU_OK && (result.status < 0 || result.value > SGPU_MESSAGE_MAX)) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "a message of a session is answered with status %d and %llu bytes",
			       result.status, (unsigned long long)result.value);
	}
	*size = rc == SGPU_OK ? result.value : 0;
	return rc;
}

static int exchange(void *argument, const uint8_t *message, size_t size, uint8_t *answer,
		    size_t *answer_size, struct sgpu_error *error)
{
	struct ring_carrier *c = argument;
	const struct sgpu_ring_descriptor descriptor = { .opcode = LINK_MESSAGE, .length = size };
	uint64_t answered = 0;
	int rc;

	memcpy(c->area + SGPU_AREA_SIZE, message, size);
	rc = sgpu_ring_submit(c->ring, &descriptor, error);
	if (rc == SGPU_ERETRY) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "the ring of a session is full, though it has nothing to do");
	}
	rc = rc ? rc : await_answer(c, &answered, error);
	if (rc == SGPU_OK) {
		memcpy(answer, c->area + SGPU_AREA_SIZE, answered);
		*answer_size = (size_t)answered;
	}
	return rc;
}

static int put(struct sgpu_carrier *carrier, uint64_t offset, const uint8_t *bytes, size_t size,
	       struct sgpu_error *error)
{
	(void)error;
	memcpy(((struct ring_carrier *)carrier)->area + offset, bytes, size);
	return SGPU_OK;
}

static int get(struct sgpu_carrier *carrier, uint64_t offset, uint8_t *bytes, size_t size,
	       struct sgpu_error *error)
{
	(void)error;
	memcpy(bytes, ((struct ring_carrier *)carrier)->area + offset, size);
	return SGPU_OK;
}

static void close_ring(struct sgpu_carrier *carrier)
{
	struct ring_carrier *c = (struct ring_carrier *)carrier;

	sgpu_ring_close(&c->ring);
	sgpu_link_unmap(&c->area);
	free(c);
}

int sgpu_carrier_ring(const struct sgpu_remote_ring *ring, struct sgpu_carrier **carrier,
		      struct sgpu_error *error)
{
	static const struct sgpu_carrier_calls calls = { exchange, put, get, close_ring };
	const struct sgpu_ring_config config = { .doorbell = ring->bell, .spin_ns = ring->spin_ns };
	struct ring_carrier *c = calloc(1, sizeof(*c));
	int rc;

	*carrier = NULL;
	if (!c) {
		return sgpu_fail_nomem(error);
	}
	c->carrier.calls = &calls;
	rc = sgpu_ring_open(ring->memory, &config, &c->ring, error);
	rc = rc ? rc : sgpu_link_map(ring->area, &c->area, error);
	if (rc < 0) {
		close_ring(&c->carrier);
		return rc;
	}
	*carrier = &c->carrier;
	return SGPU_OK;
}
