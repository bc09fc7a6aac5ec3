/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls, the same for every way of calling, and the thread outside that makes those of a
 * queue, in their order.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "ring/outside.h"

enum { SPIN_NS = 20000 };

struct sgpu_ring_wait sgpu_rpc_spinning(void)
{
	return (struct sgpu_ring_wait){ .spin_ns = SPIN_NS, .never_spin = sgpu_cpu_count() == 1 };
}

#if defined(__SANITIZE_THREAD__)
#define SHOWS_ORDER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHOWS_ORDER 1
#endif
#endif

void sgpu_rpc_show_order(void)
{
#ifdef SHOWS_ORDER
	static _Atomic uint64_t order;

	atomic_fetch_add(&order, 1);
#endif
}

/* Copies the shared array first, since the other side may change it. */
static int64_t perform_poll(const struct sgpu_rpc_request *request)
{
	const size_t count = request->size / sizeof(struct pollfd);
	struct pollfd *shared = request->data, fds[SGPU_RPC_POLL_MAX];
	int ready;

	if (count > SGPU_RPC_POLL_MAX) {
		return -EINVAL;
	}
	if (count) {
		memcpy(fds, shared, count * sizeof(*fds));
	}
	ready = poll(fds, count, (int)(int64_t)request->argument);
	if (ready < 0) {
		return -errno;
	}
	for (size_t i = 0; i < count; i++) {
		shared[i].revents = fds[i].revents;
	}
	return ready;
}

int64_t sgpu_rpc_perform(const struct sgpu_rpc_request *request)
{
	ssize_t done;

	switch (request->operation) {
	case SGPU_RPC_RECV:
		done = recv(request->fd, request->data, request->size, MSG_DONTWAIT);
		break;
	case SGPU_RPC_SEND:
		done = send(request->fd, request->data, request->size, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case SGPU_RPC_POLL:
		return perform_poll(request);
	case SGPU_RPC_EMPTY:
		(void)syscall(SYS_getppid);
		return 0;
	default:
		return -ENOSYS;
	}
	return done < 0 ? -errno : done;
}

/* ---- the thread ---- */

struct sgpu_rpc_server {
	struct sgpu_ring_worker *worker;
	int doorbell;
	void *area;
	pthread_t thread;
	bool runs;
};

/* Makes the call that a descriptor describes. The descriptor is a copy; its range must be in the
 * area. */
static int make_call(struct sgpu_rpc_server *server, const struct sgpu_ring_operation *operation,
		     struct sgpu_error *error)
{
	const struct sgpu_ring_descriptor *d = &operation->descriptor;
	const bool good = d->handle <= INT32_MAX && d->length <= SGPU_RPC_AREA_SIZE &&
			  d->offset <= SGPU_RPC_AREA_SIZE - d->length &&
			  d->offset % _Alignof(struct pollfd) == 0;
	int64_t value = 0;

	if (good) {
		const struct sgpu_rpc_request request = { .operation = d->opcode,
							  .fd = (int)d->handle,
							  .data = (char *)server->area + d->offset,
							  .size = d->length,
							  .argument = d->argument };

		sgpu_rpc_show_order();
		value = sgpu_rpc_perform(&request);
		sgpu_rpc_show_order();
	}
	return sgpu_ring_finish(server->worker, operation->ticket, good ? SGPU_OK : SGPU_EUSAGE,
				(uint64_t)value, error);
}

static void *serve(void *argument)
{
	struct sgpu_rpc_server *server = argument;
	struct sgpu_ring_operation operation;
	struct sgpu_error error;
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		rc = sgpu_ring_next(server->worker, &operation, &error);
		if (rc == SGPU_OK) {
			rc = make_call(server, &operation, &error);
		} else if (rc == SGPU_ERETRY) {
			rc = sgpu_ring_worker_wait(server->worker, 0, &error);
		}
	}
	/* Tells the inside, which may wait, that nobody serves it any more. */
	(void)shutdown(server->doorbell, SHUT_RDWR);
	return NULL;
}

int sgpu_rpc_server_start(const struct sgpu_rpc_shared *shared, struct sgpu_rpc_server **server,
			  struct sgpu_error *error)
{
	enum { DATA = SGPU_RING_KNOWN | SGPU_RING_HANDLE | SGPU_RING_OFFSET | SGPU_RING_LENGTH };
	const struct sgpu_ring_worker_config config = {
		.doorbell = shared->outside,
		.wait = sgpu_rpc_spinning(),
		.members = { [SGPU_RPC_RECV] = DATA,
			     [SGPU_RPC_SEND] = DATA,
			     [SGPU_RPC_POLL] = DATA | SGPU_RING_ARGUMENT,
			     [SGPU_RPC_EMPTY] = DATA },
	};
	struct sgpu_rpc_server *s = calloc(1, sizeof(*s));
	int rc;

	*server = NULL;
	if (!s) {
		return sgpu_fail_nomem(error);
	}
	s->doorbell = shared->outside;
	rc = sgpu_rpc_map(shared->area, &s->area, error);
	rc = rc ? rc : sgpu_ring_worker_open(shared->ring, &config, &s->worker, error);
	rc = rc ? rc : sgpu_thread_start(&s->thread, serve, s, error);
	s->runs = rc == SGPU_OK;
	if (rc < 0) {
		sgpu_rpc_server_end(&s);
	}
	*server = s;
	return rc;
}

void sgpu_rpc_server_end(struct sgpu_rpc_server **server)
{
	struct sgpu_rpc_server *s = *server;

	if (!s) {
		return;
	}
	if (s->runs) {
		pthread_join(s->thread, NULL);
	}
	sgpu_ring_worker_close(&s->worker);
	if (s->area) {
		munmap(s->area, SGPU_RPC_AREA_SIZE);
	}
	free(s);
	*server = NULL;
}
