/* SPDX-License-Identifier: Apache-2.0
 *
 * The enclave's side of calls. The shared area has a place for each call that may be under way. A
 * direct call needs none: its data stay where they are.
 */
#include <sgpu/ring.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "ring/memory.h"
#include "ring/outside.h"

enum { ERRNO_MAX = 4095 };

struct sgpu_rpc {
	enum sgpu_rpc_way way;
	uint64_t exit_cycles, count;
	struct sgpu_rpc_shared shared;
	struct sgpu_ring_client *client;
	struct sgpu_rpc_server *server;
	struct sgpu_error why; /* why there are no more calls: a fault of the outside */
};

/* ---- exits ---- */

#if defined(__x86_64__)
static const bool has_cycles = true;

/* Spins for `cycles` of the time-stamp counter, whose rate is constant whatever the processor's
 * clock does. Where SGPU_RPC_EXIT_CYCLES was measured, the two rates are nearly the same. */
static void lose(uint64_t cycles)
{
	const uint64_t begin = __builtin_ia32_rdtsc();

	while (__builtin_ia32_rdtsc() - begin < cycles) {
	}
}
#else
static const bool has_cycles = false;

static void lose(uint64_t cycles)
{
	(void)cycles;
}
#endif

/* ---- opening and closing ---- */

static int open_area(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	void *memory = NULL;
	int rc = sgpu_memory_file_create("sgpu-rpc", SGPU_RPC_AREA_SIZE, true, &rpc->shared.area,
					 error);

	rc = rc ? rc : sgpu_rpc_map(rpc->shared.area, &memory, error);
	rpc->shared.data = memory;
	return rc;
}

/* The ring has as many entries as there are places for calls, so it is never full. */
static int open_queue(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	struct sgpu_ring_client_config config = { .wait = sgpu_rpc_spinning() };
	int ends[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
		return sgpu_fail_errno(error, "cannot make the sockets of a queue");
	}
	config.doorbell = rpc->shared.inside = ends[0];
	rpc->shared.outside = ends[1];
	rc = sgpu_ring_memory_create(SGPU_RPC_CALLS_MAX, SGPU_RPC_CALLS_MAX, &rpc->shared.ring,
				     error);
	return rc ? rc : sgpu_ring_client_open(rpc->shared.ring, &config, &rpc->client, error);
}

int sgpu_rpc_open_inside(enum sgpu_rpc_way way, uint64_t exit_cycles, struct sgpu_rpc **rpc,
			 const struct sgpu_rpc_shared **shared, struct sgpu_error *error)
{
	struct sgpu_rpc *r = calloc(1, sizeof(*r));
	int rc = SGPU_OK;

	*rpc = r;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	r->way = way;
	r->exit_cycles = exit_cycles;
	r->shared = (struct sgpu_rpc_shared){ .ring = -1, .area = -1, .inside = -1, .outside = -1 };
	*shared = &r->shared;
	if (way == SGPU_RPC_EXIT && !has_cycles) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE,
			       "an exit cannot be emulated: there is no time-stamp counter");
	} else if (way != SGPU_RPC_DIRECT) {
		rc = open_area(r, error);
	}
	if (rc == SGPU_OK && way == SGPU_RPC_QUEUE) {
		rc = open_queue(r, error);
	}
	if (rc < 0) {
		sgpu_rpc_close(rpc);
	}
	return rc;
}

int sgpu_rpc_open(enum sgpu_rpc_way way, uint64_t exit_cycles, struct sgpu_rpc **rpc,
		  struct sgpu_error *error)
{
	const struct sgpu_rpc_shared *shared;
	int rc = sgpu_rpc_open_inside(way, exit_cycles, rpc, &shared, error);

	if (rc == SGPU_OK && way == SGPU_RPC_QUEUE) {
		rc = sgpu_rpc_server_start(shared, &(*rpc)->server, error);
		if (rc < 0) {
			sgpu_rpc_close(rpc);
		}
	}
	return rc;
}

void sgpu_rpc_close(struct sgpu_rpc **rpc)
{
	struct sgpu_rpc *r = *rpc;

	if (!r) {
		return;
	}
	if (r->shared.inside >= 0) {
		(void)shutdown(r->shared.inside, SHUT_RDWR);
	}
	sgpu_rpc_server_end(&r->server);
	sgpu_ring_client_close(&r->client);
	if (r->shared.data) {
		munmap(r->shared.data, SGPU_RPC_AREA_SIZE);
	}
	sgpu_close(r->shared.ring);
	sgpu_close(r->shared.area);
	sgpu_close(r->shared.inside);
	sgpu_close(r->shared.outside);
	free(r);
	*rpc = NULL;
}

uint64_t sgpu_rpc_count(const struct sgpu_rpc *rpc)
{
	return rpc->count;
}

/* ---- calls ---- */

static int await_results(struct sgpu_rpc *rpc, size_t count, int64_t *values,
			 struct sgpu_error *error)
{
	struct sgpu_ring_result results[SGPU_RPC_CALLS_MAX];
	size_t got = 0, some;

	while (got < count) {
		int rc = sgpu_ring_client_wait(rpc->client, 0, error);

		rc = rc ? rc
			: sgpu_ring_reap(rpc->client, results, SGPU_RPC_CALLS_MAX, &some, error);
		if (rc < 0) {
			return rc;
		}
		for (size_t i = 0; i < some; i++) {
			if (results[i].status != SGPU_OK) {
				return sgpu_fail(error, SGPU_EINVALID,
						 "the outside has refused a call, with status %d",
						 results[i].status);
			}
			values[results[i].cookie] = (int64_t)results[i].value;
		}
		got += some;
	}
	return SGPU_OK;
}

/* Makes calls through the ring. The values are as the outside gave them, unchecked. */
static int queue_calls(struct sgpu_rpc *rpc, const struct sgpu_rpc_request *requests, size_t count,
		       int64_t *values, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	sgpu_rpc_show_order();
	for (size_t i = 0; rc == SGPU_OK && i < count; i++) {
		const struct sgpu_ring_descriptor descriptor = {
			.opcode = requests[i].operation,
			.cookie = i,
			.handle = (uint64_t)requests[i].fd,
			.offset = (uint64_t)((char *)requests[i].data - rpc->shared.data),
			.length = requests[i].size,
			.argument = requests[i].argument,
		};

		rc = sgpu_ring_submit(rpc->client, &descriptor, error);
	}
	if (rc == SGPU_ERETRY) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the queue to the outside is full, though it has nothing to do");
	}
	rc = rc ? rc : await_results(rpc, count, values, error);
	sgpu_rpc_show_order();
	return rc;
}

static int carry(struct sgpu_rpc *rpc, const struct sgpu_rpc_request *requests, size_t count,
		 int64_t *values, struct sgpu_error *error)
{
	const bool exits = rpc->way == SGPU_RPC_EXIT;
	struct sgpu_error found;

	if (sgpu_ring_fault_check(&rpc->why, error) < 0) {
		return rpc->why.code;
	}
	rpc->count += count;
	if (rpc->way == SGPU_RPC_QUEUE) {
		return queue_calls(rpc, requests, count, values, &found) < 0
			       ? sgpu_ring_fault_set(&rpc->why, &found, error)
			       : SGPU_OK;
	}
	for (size_t i = 0; i < count; i++) {
		if (exits) {
			lose(rpc->exit_cycles / 2);
		}
		values[i] = sgpu_rpc_perform(&requests[i]);
		if (exits) {
			lose(rpc->exit_cycles - rpc->exit_cycles / 2);
		}
	}
	return SGPU_OK;
}

/* Checks a call's result: it must be at most `most`, or minus an errno. */
static int judge(struct sgpu_rpc *rpc, int64_t value, size_t most, size_t *done,
		 struct sgpu_error *error)
{
	struct sgpu_error found;

	if (value < -ERRNO_MAX || (value > 0 && (uint64_t)value > most)) {
		(void)sgpu_fail(&found, SGPU_EINVALID,
				"the outside says that a call for %zu has returned %lld", most,
				(long long)value);
		return sgpu_ring_fault_set(&rpc->why, &found, error);
	}
	*done = value > 0 ? (size_t)value : 0;
	if (value == -EAGAIN || value == -EINTR) {
		return SGPU_ERETRY;
	}
	if (value < 0) {
		errno = (int)-value;
		return sgpu_fail_errno(error, "a call outside has failed");
	}
	return SGPU_OK;
}

/* Makes at most SGPU_RPC_CALLS_MAX calls. Each call gets its own code, even after a result that
 * breaks the protocol. */
static int make_some(struct sgpu_rpc *rpc, enum sgpu_rpc_operation operation,
		     struct sgpu_rpc_io *ios, size_t count, struct sgpu_error *error)
{
	const bool direct = rpc->way == SGPU_RPC_DIRECT;
	struct sgpu_rpc_request requests[SGPU_RPC_CALLS_MAX];
	int64_t values[SGPU_RPC_CALLS_MAX];
	int rc;

	for (size_t i = 0; i < count; i++) {
		requests[i] = (struct sgpu_rpc_request){
			.operation = operation,
			.fd = ios[i].fd,
			.data = direct ? ios[i].data : rpc->shared.data + i * SGPU_RPC_BYTES_MAX,
			.size = ios[i].size < SGPU_RPC_BYTES_MAX ? ios[i].size : SGPU_RPC_BYTES_MAX,
		};
		if (!direct && operation == SGPU_RPC_SEND) {
			memcpy(requests[i].data, ios[i].data, requests[i].size);
		}
	}
	rc = carry(rpc, requests, count, values, error);
	for (size_t i = 0; i < count && rc == SGPU_OK; i++) {
		ios[i].code = judge(rpc, values[i], requests[i].size, &ios[i].done, error);
		if (!direct && operation == SGPU_RPC_RECV && ios[i].done) {
			memcpy(ios[i].data, requests[i].data, ios[i].done);
		}
	}
	return rc < 0 ? rc : sgpu_ring_fault_check(&rpc->why, error);
}

int sgpu_rpc_call_all(struct sgpu_rpc *rpc, enum sgpu_rpc_operation operation,
		      struct sgpu_rpc_io *ios, size_t count, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (size_t i = 0; i < count; i++) {
		ios[i].done = 0;
		ios[i].code = SGPU_ECANCELED; /* the call was not made */
		if (ios[i].fd < 0) {
			return sgpu_fail(error, SGPU_EUSAGE, "%d is not a descriptor", ios[i].fd);
		}
	}
	for (size_t i = 0, some; i < count && rc == SGPU_OK; i += some) {
		some = count - i < SGPU_RPC_CALLS_MAX ? count - i : SGPU_RPC_CALLS_MAX;
		rc = make_some(rpc, operation, &ios[i], some, error);
	}
	return rc;
}

/* ---- poll ---- */

static void take_events(const volatile struct pollfd *from, struct pollfd *to, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		to[i].revents = from[i].revents;
	}
}

/* Checks a copy of poll's events. The shared memory is not read again. */
static int check_events(const struct pollfd *fds, size_t count, size_t ready,
			struct sgpu_error *error)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		if (fds[i].revents & ~(fds[i].events | POLLERR | POLLHUP | POLLNVAL)) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "the outside says that poll has found events 0x%x of 0x%x",
					 (unsigned)(unsigned short)fds[i].revents,
					 (unsigned)(unsigned short)fds[i].events);
		}
		found += fds[i].revents != 0;
	}
	if (found != ready) {
		return sgpu_fail(
			error, SGPU_EINVALID,
			"the outside says that poll has found %zu events, and %zu are there", ready,
			found);
	}
	return SGPU_OK;
}

int sgpu_rpc_poll(struct sgpu_rpc *rpc, struct pollfd *fds, size_t count, int timeout_ms,
		  size_t *done, struct sgpu_error *error)
{
	const bool direct = rpc->way == SGPU_RPC_DIRECT;
	const struct sgpu_rpc_request request = { .operation = SGPU_RPC_POLL,
						  .data = direct ? (void *)fds : rpc->shared.data,
						  .size = count * sizeof(*fds),
						  .argument = (uint64_t)(int64_t)timeout_ms };
	struct sgpu_error found;
	int64_t value = 0;
	int rc;

	*done = 0;
	if (count > SGPU_RPC_POLL_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a poll of %zu descriptors", count);
	}
	if (!direct && count) {
		for (size_t i = 0; i < count; i++) {
			fds[i].revents = 0;
		}
		memcpy(request.data, fds, request.size);
	}
	rc = carry(rpc, &request, 1, &value, error);
	rc = rc ? rc : judge(rpc, value, count, done, error);
	if (rc == SGPU_OK && !direct) {
		take_events(request.data, fds, count);
		if (check_events(fds, count, *done, &found) < 0) {
			rc = sgpu_ring_fault_set(&rpc->why, &found, error);
		}
	}
	return rc;
}
