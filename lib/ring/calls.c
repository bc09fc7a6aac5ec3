/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the enclave's side. Shared memory is cut into as many places as there may be calls at
 * once; which are free is known inside alone. A direct call needs none: its data stay where they
 * are.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "ring/inside.h"

#define NOT_MADE UINT64_MAX /* the cookie of a result; those that came have another */
enum { ERRNO_MAX = 4095 };

uint64_t sgpu_rpc_count(const struct sgpu_rpc *rpc)
{
	return atomic_load_explicit(&rpc->count, memory_order_relaxed);
}

/* Places for the data of calls, when there are as many; for direct calls only that calls have not
 * ended. */
static int begin_calls(struct sgpu_rpc *rpc, uint32_t *places, uint32_t count,
		       struct sgpu_error *error)
{
	const bool direct = rpc->config.way == SGPU_RPC_DIRECT;
	int rc = SGPU_OK;

	pthread_mutex_lock(&rpc->lock);
	while (!direct && !rpc->ended && rpc->free_count < count) {
		pthread_cond_wait(&rpc->freed, &rpc->lock);
	}
	if (rpc->ended) {
		rc = rpc->why.code;
		if (error) {
			*error = rpc->why;
		}
	}
	for (uint32_t i = 0; rc == SGPU_OK && i < count; i++) {
		places[i] = direct ? 0 : rpc->free[--rpc->free_count];
	}
	pthread_mutex_unlock(&rpc->lock);
	atomic_fetch_add_explicit(&rpc->count, count, memory_order_relaxed);
	return rc;
}

/* After an error the other side may still write to the place, but then no more calls begin. */
static void give_places(struct sgpu_rpc *rpc, const uint32_t *places, uint32_t count)
{
	if (rpc->config.way == SGPU_RPC_DIRECT) {
		return;
	}
	pthread_mutex_lock(&rpc->lock);
	for (uint32_t i = 0; i < count; i++) {
		rpc->free[rpc->free_count++] = places[i];
	}
	pthread_cond_broadcast(&rpc->freed); /* they may wait for different numbers */
	pthread_mutex_unlock(&rpc->lock);
}

/* Why there are no more calls, or SGPU_OK. Only this side says so: no result of the outside does.
 */
static int get_end(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	pthread_mutex_lock(&rpc->lock);
	if (rpc->ended) {
		rc = rpc->why.code;
		if (error) {
			*error = rpc->why;
		}
	}
	pthread_mutex_unlock(&rpc->lock);
	return rc;
}

/* Through the ring: results as the outside gave them. */
static int queue_calls(struct sgpu_rpc *rpc, const struct sgpu_rpc_request *requests, size_t count,
		       int64_t *values, struct sgpu_error *error)
{
	struct sgpu_ring_descriptor descriptors[SGPU_RING_CALLS_MAX];
	struct sgpu_ring_result results[SGPU_RING_CALLS_MAX];
	int rc;

	for (size_t i = 0; i < count; i++) {
		descriptors[i] = (struct sgpu_ring_descriptor){
			.opcode = (uint8_t)requests[i].operation,
			.handle = (uint64_t)requests[i].fd,
			.offset = (uint64_t)((char *)requests[i].data - rpc->area),
			.length = requests[i].size,
			.argument = requests[i].argument,
		};
		results[i].cookie = NOT_MADE;
	}
	sgpu_rpc_show_order();
	for (size_t made = 0; made < count;) {
		rc = sgpu_ring_call_all(rpc->calls, descriptors + made, count - made,
					results + made, error);
		if (rc < 0 && rc != SGPU_ERETRY) {
			return rc;
		}
		while (made < count && results[made].cookie != NOT_MADE) {
			made++;
		}
		if (made < count) { /* many threads at the same moment */
			sched_yield();
		}
	}
	sgpu_rpc_show_order();
	for (size_t i = 0; i < count; i++) {
		if (results[i].status != SGPU_OK) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "the outside has refused a call, with status %d",
					 results[i].status);
		}
		values[i] = (int64_t)results[i].value;
	}
	return SGPU_OK;
}

/* The first look at a result: at most `most`, or one that errno can have. */
static int judge(struct sgpu_rpc *rpc, int64_t value, size_t most, size_t *done,
		 struct sgpu_error *error)
{
	struct sgpu_error found;
	int rc;

	if (value < -ERRNO_MAX || (value > 0 && (uint64_t)value > most)) {
		(void)sgpu_fail(&found, SGPU_EINVALID,
				"the outside says that a call for %zu has returned %lld", most,
				(long long)value);
		return sgpu_rpc_end_calls(rpc, &found, error);
	}
	*done = value > 0 ? (size_t)value : 0;
	if (value == -EAGAIN || value == -EINTR) {
		return SGPU_ERETRY;
	}
	rc = value == -ECANCELED ? get_end(rpc, error) : SGPU_OK; /* a poll that a stop has ended */
	if (rc < 0) {
		return rc;
	}
	if (value < 0) {
		errno = (int)-value;
		return sgpu_fail_errno(error, "a call outside has failed");
	}
	return SGPU_OK;
}

/* One call by the way that was chosen. */
static int carry(struct sgpu_rpc *rpc, const struct sgpu_rpc_request *request, size_t most,
		 size_t *done, struct sgpu_error *error)
{
	const uint64_t cycles = rpc->config.exit_cycles;
	struct sgpu_error found = { 0 };
	int64_t value = 0;
	int rc;

	switch (rpc->config.way) {
	case SGPU_RPC_DIRECT:
		value = sgpu_rpc_perform(request, rpc->shared.outside);
		break;
	case SGPU_RPC_EXIT:
		sgpu_rpc_lose(cycles / 2);
		value = sgpu_rpc_perform(request, rpc->shared.outside);
		sgpu_rpc_lose(cycles - cycles / 2);
		break;
	default:
		rc = queue_calls(rpc, request, 1, &value, &found);
		if (rc < 0) {
			return sgpu_rpc_end_calls(rpc, &found, error);
		}
		break;
	}
	return judge(rpc, value, most, done, error);
}

/* `in` goes out, or `out` comes in. */
static int transfer(struct sgpu_rpc *rpc, struct sgpu_rpc_request request, const void *in,
		    void *out, size_t *done, struct sgpu_error *error)
{
	const bool direct = rpc->config.way == SGPU_RPC_DIRECT;
	uint32_t place;
	int rc;

	*done = 0;
	if (request.fd < 0) {
		return sgpu_fail(error, SGPU_EUSAGE, "%d is not a descriptor", request.fd);
	}
	rc = begin_calls(rpc, &place, 1, error);
	if (rc < 0) {
		return rc;
	}
	request.size = request.size < rpc->config.bytes ? request.size : rpc->config.bytes;
	request.data =
		direct ? (in ? (void *)(uintptr_t)in : out) : rpc->area + place * rpc->config.bytes;
	if (!direct && in) {
		memcpy(request.data, in, request.size);
	}
	rc = carry(rpc, &request, request.size, done, error);
	if (!direct && out && *done) {
		memcpy(out, request.data, *done);
	}
	give_places(rpc, &place, 1);
	return rc;
}

int sgpu_rpc_pread(struct sgpu_rpc *rpc, int fd, void *data, size_t size, uint64_t offset,
		   size_t *done, struct sgpu_error *error)
{
	const struct sgpu_rpc_request request = {
		.operation = SGPU_RPC_PREAD, .fd = fd, .size = size, .argument = offset
	};

	return transfer(rpc, request, NULL, data, done, error);
}

int sgpu_rpc_pwrite(struct sgpu_rpc *rpc, int fd, const void *data, size_t size, uint64_t offset,
		    size_t *done, struct sgpu_error *error)
{
	const struct sgpu_rpc_request request = {
		.operation = SGPU_RPC_PWRITE, .fd = fd, .size = size, .argument = offset
	};

	return transfer(rpc, request, data, NULL, done, error);
}

int sgpu_rpc_recv(struct sgpu_rpc *rpc, int fd, void *data, size_t size, size_t *done,
		  struct sgpu_error *error)
{
	const struct sgpu_rpc_request request = { .operation = SGPU_RPC_RECV,
						  .fd = fd,
						  .size = size };

	return transfer(rpc, request, NULL, data, done, error);
}

int sgpu_rpc_send(struct sgpu_rpc *rpc, int fd, const void *data, size_t size, size_t *done,
		  struct sgpu_error *error)
{
	const struct sgpu_rpc_request request = { .operation = SGPU_RPC_SEND,
						  .fd = fd,
						  .size = size };

	return transfer(rpc, request, data, NULL, done, error);
}

/* ---- several at once ---- */

/* As many as have places. They have been made: each has its own result, also behind one that ends
 * the queue. */
static int queue_ios(struct sgpu_rpc *rpc, enum sgpu_rpc_operation operation,
		     struct sgpu_rpc_io *ios, uint32_t count, struct sgpu_error *error)
{
	struct sgpu_rpc_request requests[SGPU_RING_CALLS_MAX] = { { 0 } };
	uint32_t places[SGPU_RING_CALLS_MAX];
	int64_t values[SGPU_RING_CALLS_MAX];
	struct sgpu_error found;
	bool failed = false;
	int rc = begin_calls(rpc, places, count, error);

	if (rc < 0) {
		return rc;
	}
	for (uint32_t i = 0; i < count; i++) {
		const size_t size =
			ios[i].size < rpc->config.bytes ? ios[i].size : rpc->config.bytes;

		requests[i] = (struct sgpu_rpc_request){
			.operation = operation,
			.fd = ios[i].fd,
			.data = rpc->area + places[i] * rpc->config.bytes,
			.size = size,
		};
		if (operation == SGPU_RPC_SEND) {
			memcpy(requests[i].data, ios[i].data, size);
		}
	}
	rc = queue_calls(rpc, requests, count, values, &found);
	rc = rc < 0 ? sgpu_rpc_end_calls(rpc, &found, error) : rc;
	for (uint32_t i = 0; i < count && rc == SGPU_OK; i++) {
		ios[i].code = judge(rpc, values[i], requests[i].size, &ios[i].done, error);
		failed = failed || ios[i].code < 0;
		if (operation == SGPU_RPC_RECV && ios[i].done) {
			memcpy(ios[i].data, requests[i].data, ios[i].done);
		}
	}
	rc = rc == SGPU_OK && failed ? get_end(rpc, error) : rc;
	give_places(rpc, places, count);
	return rc;
}

static int make_calls(struct sgpu_rpc *rpc, enum sgpu_rpc_operation operation,
		      struct sgpu_rpc_io *ios, size_t count, struct sgpu_error *error)
{
	const size_t most =
		rpc->config.calls < SGPU_RING_CALLS_MAX ? rpc->config.calls : SGPU_RING_CALLS_MAX;
	const bool sends = operation == SGPU_RPC_SEND;
	int rc = SGPU_OK;

	for (size_t i = 0; i < count; i++) {
		ios[i].done = 0;
		ios[i].code = SGPU_ECANCELED; /* not made */
		if (ios[i].fd < 0) {
			return sgpu_fail(error, SGPU_EUSAGE, "%d is not a descriptor", ios[i].fd);
		}
	}
	for (size_t i = 0, some; i < count && rc == SGPU_OK; i += some) {
		some = count - i < most ? count - i : most;
		if (rpc->config.way == SGPU_RPC_QUEUE) {
			rc = queue_ios(rpc, operation, &ios[i], (uint32_t)some, error);
		} else {
			some = 1;
			ios[i].code = transfer(rpc,
					       (struct sgpu_rpc_request){ .operation = operation,
									  .fd = ios[i].fd,
									  .size = ios[i].size },
					       sends ? ios[i].data : NULL,
					       sends ? NULL : ios[i].data, &ios[i].done, error);
			rc = ios[i].code < 0 ? get_end(rpc, error) : SGPU_OK;
		}
	}
	return rc;
}

int sgpu_rpc_recv_all(struct sgpu_rpc *rpc, struct sgpu_rpc_io *ios, size_t count,
		      struct sgpu_error *error)
{
	return make_calls(rpc, SGPU_RPC_RECV, ios, count, error);
}

int sgpu_rpc_send_all(struct sgpu_rpc *rpc, struct sgpu_rpc_io *ios, size_t count,
		      struct sgpu_error *error)
{
	return make_calls(rpc, SGPU_RPC_SEND, ios, count, error);
}

int sgpu_rpc_empty(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	const struct sgpu_rpc_request request = { .operation = SGPU_RPC_EMPTY };
	size_t done;

	return transfer(rpc, request, NULL, NULL, &done, error);
}

/* ---- poll ---- */

static void take_events(const volatile struct pollfd *from, struct pollfd *to, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		to[i].revents = from[i].revents;
	}
}

/* What was taken out of shared memory, which is not looked at again. */
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
	const bool direct = rpc->config.way == SGPU_RPC_DIRECT;
	struct sgpu_rpc_request request = { .operation = SGPU_RPC_POLL,
					    .data = fds,
					    .size = count * sizeof(*fds),
					    .argument = (uint64_t)(int64_t)timeout_ms };
	struct sgpu_error found;
	uint32_t place;
	int rc;

	*done = 0;
	if (count > SGPU_RPC_POLL_MAX || request.size > rpc->config.bytes) {
		return sgpu_fail(error, SGPU_EUSAGE, "a poll of %zu descriptors", count);
	}
	rc = begin_calls(rpc, &place, 1, error);
	if (rc < 0) {
		return rc;
	}
	if (!direct) {
		request.data = rpc->area + place * rpc->config.bytes;
		for (size_t i = 0; i < count; i++) {
			fds[i].revents = 0;
		}
		if (count) {
			memcpy(request.data, fds, request.size);
		}
	}
	rc = carry(rpc, &request, count, done, error);
	if (rc == SGPU_OK && !direct) {
		take_events(request.data, fds, count);
		rc = check_events(fds, count, *done, &found);
		rc = rc < 0 ? sgpu_rpc_end_calls(rpc, &found, error) : rc;
	}
	give_places(rpc, &place, 1);
	return rc;
}
