/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring with both sides in one process, and a third mapping of its memory, in which a test plays
 * the hostile side.
 */
#ifndef RING_HARNESS_H
#define RING_HARNESS_H

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/ring.h>

#include "ring/private.h"
#include "unit.h"

enum { OP_ANY = 16, OP_NARROW = 200 };

struct ring {
	int fd, client_end, worker_end;
	struct sgpu_ring *client, *worker;
	struct sgpu_ring_memory raw;
	uint64_t submitted; /* by submit_one of a test */
};

static _Thread_local struct sgpu_error ring_error;

static const uint8_t ring_members[SGPU_RING_OPCODES] = {
	[OP_ANY] = SGPU_RING_KNOWN | SGPU_RING_HANDLE | SGPU_RING_OFFSET | SGPU_RING_LENGTH |
		   SGPU_RING_ARGUMENT,
	[OP_NARROW] = SGPU_RING_KNOWN | SGPU_RING_ARGUMENT,
};

/* doorbell: with a pair of sockets, else with a futex. */
static inline bool ring_open(struct ring *r, uint32_t submissions, uint32_t completions,
			     bool doorbell)
{
	struct sgpu_ring_config client = { 0 }, worker = { .members = ring_members };
	int ends[2] = { -1, -1 };
	bool good;

	memset(r, 0, sizeof(*r));
	good = !doorbell || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
	client.doorbell = r->client_end = ends[0];
	worker.doorbell = r->worker_end = ends[1];
	good = good &&
	       sgpu_ring_memory_create(submissions, completions, &r->fd, &ring_error) == SGPU_OK &&
	       sgpu_ring_open(r->fd, &client, &r->client, &ring_error) == SGPU_OK &&
	       sgpu_ring_open(r->fd, &worker, &r->worker, &ring_error) == SGPU_OK &&
	       sgpu_ring_map(r->fd, &r->raw, &ring_error) == SGPU_OK;
	CHECK(good);
	return good;
}

static inline void ring_close(struct ring *r)
{
	sgpu_ring_close(&r->client);
	sgpu_ring_close(&r->worker);
	sgpu_ring_unmap(&r->raw);
	close(r->fd);
	close(r->client_end);
	close(r->worker_end);
}

static inline int ring_submit(struct ring *r, uint8_t opcode, uint64_t cookie)
{
	const struct sgpu_ring_descriptor descriptor = { .opcode = opcode, .cookie = cookie };

	return sgpu_ring_submit(r->client, &descriptor, &ring_error);
}

/* Whether a submission was there. */
static inline bool ring_next(struct ring *r, struct sgpu_ring_descriptor *operation)
{
	const int rc = sgpu_ring_next(r->worker, operation, &ring_error);

	CHECK(rc == SGPU_OK || rc == SGPU_ERETRY);
	return rc == SGPU_OK;
}

/* The worker does what there is: how many operations. */
static inline uint32_t ring_serve(struct ring *r)
{
	struct sgpu_ring_descriptor operation;
	uint32_t count = 0;

	while (ring_next(r, &operation)) {
		CHECK(sgpu_ring_finish(r->worker, SGPU_OK, 0, &ring_error) == SGPU_OK);
		count++;
	}
	return count;
}

/* One completion, or one with cookie UINT64_MAX if there is none. */
static inline struct sgpu_ring_result ring_reap(struct ring *r)
{
	struct sgpu_ring_result result;
	size_t count = 0;

	CHECK(sgpu_ring_reap(r->client, &result, 1, &count, &ring_error) == SGPU_OK);
	if (!count) {
		result = (struct sgpu_ring_result){ .cookie = UINT64_MAX };
	}
	return result;
}

#endif
