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

#include "ring/memory.h"
#include "unit.h"

enum { RING_CLIENT_ID = 77, OP_ANY = 16, OP_NARROW = 200 };

struct ring {
	int fd, client_end, worker_end;
	struct sgpu_ring_client *client;
	struct sgpu_ring_worker *worker;
	struct sgpu_ring_memory raw;
	struct sgpu_ring_descriptor area[SGPU_RING_BATCH_MAX]; /* the memory that batches name */
};

static _Thread_local struct sgpu_error ring_error;

/* The handle is 5, and offsets are those of `area`. */
static inline int ring_read(void *context, uint64_t handle, uint64_t offset, void *data,
			    size_t size, struct sgpu_error *error)
{
	const struct ring *r = context;

	if (handle != 5 || offset > sizeof(r->area) || size > sizeof(r->area) - offset) {
		return sgpu_fail(error, SGPU_EPOLICY, "not in the client's memory");
	}
	memcpy(data, (const char *)r->area + offset, size);
	return SGPU_OK;
}

static inline struct sgpu_ring_worker_config ring_worker_config(struct ring *r)
{
	struct sgpu_ring_worker_config config = {
		.doorbell = r->worker_end, .client = RING_CLIENT_ID, .read = ring_read, .context = r
	};

	config.members[OP_ANY] = SGPU_RING_KNOWN | SGPU_RING_HANDLE | SGPU_RING_OFFSET |
				 SGPU_RING_LENGTH | SGPU_RING_COUNTER | SGPU_RING_ARGUMENT;
	config.members[OP_NARROW] = SGPU_RING_KNOWN | SGPU_RING_ARGUMENT;
	return config;
}

/* doorbell: with a pair of sockets, else with a futex. */
static inline bool ring_open(struct ring *r, uint32_t submissions, uint32_t completions,
			     bool shared, bool doorbell)
{
	struct sgpu_ring_client_config client = { .doorbell = -1, .shared = shared };
	struct sgpu_ring_worker_config worker;
	int ends[2] = { -1, -1 };
	bool good;

	memset(r, 0, sizeof(*r));
	good = !doorbell || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
	client.doorbell = r->client_end = ends[0];
	r->worker_end = ends[1];
	worker = ring_worker_config(r);
	good = good &&
	       sgpu_ring_memory_create(submissions, completions, &r->fd, &ring_error) == SGPU_OK &&
	       sgpu_ring_client_open(r->fd, &client, &r->client, &ring_error) == SGPU_OK &&
	       sgpu_ring_worker_open(r->fd, &worker, &r->worker, &ring_error) == SGPU_OK &&
	       sgpu_ring_map(r->fd, &r->raw, &ring_error) == SGPU_OK;
	CHECK(good);
	return good;
}

static inline void ring_close(struct ring *r)
{
	sgpu_ring_client_close(&r->client);
	sgpu_ring_worker_close(&r->worker);
	sgpu_ring_unmap(&r->raw);
	close(r->fd);
	close(r->client_end);
	close(r->worker_end);
}

static inline int ring_submit(struct ring *r, uint8_t opcode, uint64_t cookie)
{
	const struct sgpu_ring_descriptor descriptor = { .opcode = opcode, .cookie = cookie };

	return sgpu_ring_submit(r->client, &descriptor, NULL, &ring_error);
}

static inline enum sgpu_ring_event ring_next(struct ring *r, struct sgpu_ring_operation *operation)
{
	enum sgpu_ring_event event = SGPU_RING_IDLE;

	CHECK(sgpu_ring_next(r->worker, operation, &event, &ring_error) == SGPU_OK);
	return event;
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
