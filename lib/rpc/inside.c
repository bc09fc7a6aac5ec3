/* SPDX-License-Identifier: Apache-2.0
 *
 * The enclave's side. Shared memory is cut into as many places as there may be calls at once; which
 * are free is known in here alone. A direct call needs none: its data stay where they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "rpc/inside.h"

enum { CALLS = 64, BYTES = 64 << 10, BYTES_UNIT = 64, ERRNO_MAX = 4095 };

struct sgpu_rpc {
	struct sgpu_rpc_config config;
	struct sgpu_rpc_shared shared;
	char *area;
	struct sgpu_ring_client *client;
	struct sgpu_ring_calls *calls;
	struct sgpu_rpc_server *server;
	_Atomic uint64_t count;
	pthread_mutex_t lock;
	pthread_cond_t freed;
	uint32_t free[SGPU_RPC_CALLS_MAX], free_count; /* places */
	bool ended;
	struct sgpu_error why;
};

/* ---- opening ---- */

/* Sealed against a change of its size, like the ring: nobody can make the other side fault. */
static int make_area(size_t size, int *fd, struct sgpu_error *error)
{
	*fd = memfd_create("sgpu-rpc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0 || fallocate(*fd, 0, 0, (off_t)size) != 0 ||
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		return sgpu_fail_errno(error, "cannot make memory for the data of calls");
	}
	return SGPU_OK;
}

static int open_area(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	int rc;

	rpc->shared.area_size = rpc->config.calls * rpc->config.bytes;
	rc = make_area(rpc->shared.area_size, &rpc->shared.area, error);
	if (rc < 0) {
		return rc;
	}
	rpc->area = mmap(NULL, rpc->shared.area_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			 rpc->shared.area, 0);
	if (rpc->area == MAP_FAILED) {
		rpc->area = NULL;
		return sgpu_fail_errno(error, "cannot map the data of calls");
	}
	while (rpc->free_count < rpc->config.calls) {
		rpc->free[rpc->free_count] = rpc->free_count;
		rpc->free_count++;
	}
	return SGPU_OK;
}

/* Each call has a place of its own, and as many are in the ring: it is never full. */
static int open_queue(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	const struct sgpu_ring_client_config config = { .doorbell = rpc->shared.inside,
							.shared = true,
							.wait = sgpu_rpc_spinning() };
	int rc = sgpu_ring_memory_create(rpc->config.calls, rpc->config.calls, &rpc->shared.ring,
					 error);

	if (rc == SGPU_OK) {
		rc = sgpu_ring_client_open(rpc->shared.ring, &config, &rpc->client, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_ring_calls_open(rpc->client, rpc->shared.inside, &rpc->calls, error);
	}
	return rc;
}

static int check_config(struct sgpu_rpc_config *config, struct sgpu_error *error)
{
	config->threads = config->threads ? config->threads : 1;
	config->calls = config->calls ? config->calls : CALLS;
	config->bytes = config->bytes ? config->bytes : BYTES;
	if (config->way > SGPU_RPC_QUEUE || config->threads > SGPU_RPC_THREADS_MAX ||
	    config->calls < SGPU_RING_ENTRIES_MIN || config->calls > SGPU_RPC_CALLS_MAX ||
	    (config->calls & (config->calls - 1)) || config->bytes > SGPU_RPC_BYTES_MAX ||
	    config->bytes % BYTES_UNIT) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "calls by way %d, with %u threads, %u calls at once of %zu bytes",
				 (int)config->way, config->threads, config->calls, config->bytes);
	}
	if (config->way == SGPU_RPC_EXIT && !sgpu_rpc_has_cycles()) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "an exit cannot be emulated: there is no time-stamp counter");
	}
	return SGPU_OK;
}

int sgpu_rpc_open_inside(const struct sgpu_rpc_config *config, struct sgpu_rpc **rpc,
			 const struct sgpu_rpc_shared **shared, struct sgpu_error *error)
{
	struct sgpu_rpc *r = calloc(1, sizeof(*r));
	int ends[2], rc;

	*rpc = NULL;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->freed, NULL);
	r->config = *config;
	r->shared = (struct sgpu_rpc_shared){ .ring = -1, .area = -1, .inside = -1, .outside = -1 };
	rc = check_config(&r->config, error);
	if (rc < 0) {
		goto out;
	}
	r->shared.threads = r->config.threads;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
		rc = sgpu_fail_errno(error, "cannot make the sockets of a queue");
		goto out;
	}
	r->shared.inside = ends[0];
	r->shared.outside = ends[1];
	if (r->config.way != SGPU_RPC_DIRECT) {
		rc = open_area(r, error);
	}
	if (rc == SGPU_OK && r->config.way == SGPU_RPC_QUEUE) {
		rc = open_queue(r, error);
	}
	if (rc < 0) {
		goto out;
	}
	*shared = &r->shared;
	*rpc = r;
	r = NULL;
out:
	sgpu_rpc_close(&r);
	return rc;
}

int sgpu_rpc_open(const struct sgpu_rpc_config *config, struct sgpu_rpc **rpc,
		  struct sgpu_error *error)
{
	const struct sgpu_rpc_shared *shared;
	int rc = sgpu_rpc_open_inside(config, rpc, &shared, error);

	if (rc == SGPU_OK && config->way == SGPU_RPC_QUEUE) {
		rc = sgpu_rpc_server_start(shared, &(*rpc)->server, error);
	}
	if (rc < 0) {
		sgpu_rpc_close(rpc);
	}
	return rc;
}

static void close_fd(int fd)
{
	if (fd >= 0) {
		close(fd);
	}
}

void sgpu_rpc_close(struct sgpu_rpc **rpc)
{
	struct sgpu_rpc *r = *rpc;

	if (!r) {
		return;
	}
	sgpu_rpc_stop(r);
	sgpu_rpc_server_end(&r->server);
	sgpu_ring_calls_close(&r->calls);
	sgpu_ring_client_close(&r->client);
	if (r->area) {
		munmap(r->area, r->shared.area_size);
	}
	close_fd(r->shared.ring);
	close_fd(r->shared.area);
	close_fd(r->shared.inside);
	close_fd(r->shared.outside);
	pthread_cond_destroy(&r->freed);
	pthread_mutex_destroy(&r->lock);
	free(r);
	*rpc = NULL;
}

/* ---- the end ---- */

/* The first reason stays; *error receives it, and its code is returned. */
static int end_calls(struct sgpu_rpc *rpc, const struct sgpu_error *why, struct sgpu_error *error)
{
	pthread_mutex_lock(&rpc->lock);
	if (!rpc->ended) {
		rpc->ended = true;
		rpc->why = *why;
	}
	pthread_cond_broadcast(&rpc->freed);
	pthread_mutex_unlock(&rpc->lock);
	if (rpc->calls) {
		sgpu_ring_calls_end(rpc->calls, &rpc->why);
	} else if (rpc->shared.inside >= 0) {
		(void)shutdown(rpc->shared.inside, SHUT_RDWR);
	}
	if (error) {
		*error = rpc->why;
	}
	return rpc->why.code;
}

void sgpu_rpc_stop(struct sgpu_rpc *rpc)
{
	struct sgpu_error why;

	(void)sgpu_fail(&why, SGPU_ECANCELED, "calls to the outside were stopped");
	(void)end_calls(rpc, &why, NULL);
}

uint64_t sgpu_rpc_count(const struct sgpu_rpc *rpc)
{
	return atomic_load_explicit(&rpc->count, memory_order_relaxed);
}

/* ---- calls ---- */

/* A place for the call's data, when there is one; of a direct call only that calls have not ended. */
static int begin_call(struct sgpu_rpc *rpc, uint32_t *place, struct sgpu_error *error)
{
	const bool direct = rpc->config.way == SGPU_RPC_DIRECT;
	int rc = SGPU_OK;

	*place = 0;
	pthread_mutex_lock(&rpc->lock);
	while (!direct && !rpc->ended && !rpc->free_count) {
		pthread_cond_wait(&rpc->freed, &rpc->lock);
	}
	if (rpc->ended) {
		rc = rpc->why.code;
		if (error) {
			*error = rpc->why;
		}
	} else if (!direct) {
		*place = rpc->free[--rpc->free_count];
	}
	pthread_mutex_unlock(&rpc->lock);
	atomic_fetch_add_explicit(&rpc->count, 1, memory_order_relaxed);
	return rc;
}

/* After an error the other side may still write to the place, but then no more calls begin. */
static void end_call(struct sgpu_rpc *rpc, uint32_t place)
{
	if (rpc->config.way == SGPU_RPC_DIRECT) {
		return;
	}
	pthread_mutex_lock(&rpc->lock);
	rpc->free[rpc->free_count++] = place;
	pthread_cond_signal(&rpc->freed);
	pthread_mutex_unlock(&rpc->lock);
}

static int queue_call(struct sgpu_rpc *rpc, const struct sgpu_rpc_request *request, int64_t *value,
		      struct sgpu_error *error)
{
	const struct sgpu_ring_descriptor descriptor = {
		.opcode = (uint8_t)request->operation,
		.handle = (uint64_t)request->fd,
		.offset = (uint64_t)((char *)request->data - rpc->area),
		.length = request->size,
		.argument = request->argument,
	};
	struct sgpu_ring_result result = { 0 };
	int rc;

	sgpu_rpc_show_order();
	do {
		rc = sgpu_ring_call(rpc->calls, &descriptor, &result, error);
		if (rc == SGPU_ERETRY) { /* many threads at the same moment */
			sched_yield();
		}
	} while (rc == SGPU_ERETRY);
	sgpu_rpc_show_order();
	if (rc == SGPU_OK && result.status != SGPU_OK) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "the outside has refused a call, with status %d", result.status);
	}
	*value = (int64_t)result.value;
	return rc;
}

/* The call by the way that was chosen, and the first look at its result: at most `most`, or one
 * that errno can have. */
static int carry(struct sgpu_rpc *rpc, const struct sgpu_rpc_request *request, size_t most,
		 size_t *done, struct sgpu_error *error)
{
	const uint64_t cycles = rpc->config.exit_cycles;
	struct sgpu_error found = { 0 };
	int64_t value = 0;
	int rc = SGPU_OK;

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
		rc = queue_call(rpc, request, &value, &found);
		break;
	}
	if (rc == SGPU_OK &&
	    (value < -ERRNO_MAX ||
	     (value > 0 && (uint64_t)value > most))) {
		rc = sgpu_fail(&found, SGPU_EINVALID,
			       "the outside says that a call for %zu has returned %lld", most,
			       (long long)value);
	}
	if (rc < 0) {
		return end_calls(rpc, &found, error);
	}
	*done = value > 0 ? (size_t)value : 0;
	if (value == -EAGAIN || value == -EINTR) {
		return SGPU_ERETRY;
	}
	if (value == -ECANCELED) {
		return sgpu_fail(error, SGPU_ECANCELED, "calls to the outside were stopped");
	}
	if (value < 0) {
		errno = (int)-value;
		return sgpu_fail_errno(error, "a call outside has failed");
	}
	return SGPU_OK;
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
	rc = begin_call(rpc, &place, error);
	if (rc < 0) {
		return rc;
	}
	request.size = request.size < rpc->config.bytes ? request.size : rpc->config.bytes;
	request.data = direct ? (in ? (void *)(uintptr_t)in : out)
			      : rpc->area + place * rpc->config.bytes;
	if (!direct && in) {
		memcpy(request.data, in, request.size);
	}
	rc = carry(rpc, &request, request.size, done, error);
	if (!direct && out && *done) {
		memcpy(out, request.data, *done);
	}
	end_call(rpc, place);
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
	const struct sgpu_rpc_request request = { .operation = SGPU_RPC_RECV, .fd = fd,
						  .size = size };

	return transfer(rpc, request, NULL, data, done, error);
}

int sgpu_rpc_send(struct sgpu_rpc *rpc, int fd, const void *data, size_t size, size_t *done,
		  struct sgpu_error *error)
{
	const struct sgpu_rpc_request request = { .operation = SGPU_RPC_SEND, .fd = fd,
						  .size = size };

	return transfer(rpc, request, data, NULL, done, error);
}

int sgpu_rpc_empty(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	const struct sgpu_rpc_request request = { .operation = SGPU_RPC_EMPTY };
	size_t done;

	return transfer(rpc, request, NULL, NULL, &done, error);
}

/* ---- poll ---- */

/* Takes the events out of shared memory, each word once, and counts them. */
static int take_events(const volatile struct pollfd *from, struct pollfd *to, size_t count,
		       size_t ready, struct sgpu_error *error)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const short events = from[i].revents;

		if (events & ~(to[i].events | POLLERR | POLLHUP | POLLNVAL)) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "the outside says that poll has found events 0x%x of 0x%x",
					 (unsigned)(unsigned short)events,
					 (unsigned)(unsigned short)to[i].events);
		}
		to[i].revents = events;
		found += events != 0;
	}
	if (found != ready) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the outside says that poll has found %zu events, and %zu are there",
				 ready, found);
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
	rc = begin_call(rpc, &place, error);
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
		rc = take_events(request.data, fds, count, *done, &found);
		rc = rc < 0 ? end_calls(rpc, &found, error) : rc;
	}
	end_call(rpc, place);
	return rc;
}
