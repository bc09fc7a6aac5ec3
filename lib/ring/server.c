/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads outside. One leads: it waits on the ring and makes the calls in their order. Before a
 * call that may wait, a poll, it passes the lead on, if another thread is there.
 *
 * Two locks: of the lead, for waiting on the ring; and of the ring's state, for a moment, so that
 * a thread without the lead can finish its call.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <sgpu/base.h>
#include <sgpu/rpc.h>

#include "ring/outside.h"

struct sgpu_rpc_server {
	struct sgpu_ring_worker *worker;
	struct sgpu_rpc_shared shared;
	char *area;
	pthread_mutex_t leading, state;
	unsigned count;
	pthread_t threads[SGPU_RPC_THREADS_MAX];
};

/* Until there is a call. STOP comes for what the client cancels, which this one never does. */
static int wait_for_call(struct sgpu_rpc_server *server, struct sgpu_ring_operation *operation,
			 struct sgpu_error *error)
{
	enum sgpu_ring_event event;
	int rc;

	for (;;) {
		pthread_mutex_lock(&server->state);
		rc = sgpu_ring_next(server->worker, operation, &event, error);
		pthread_mutex_unlock(&server->state);
		if (rc == SGPU_OK && event == SGPU_RING_IDLE) {
			rc = sgpu_ring_worker_wait(server->worker, 0, error);
		}
		if (rc < 0 || event == SGPU_RING_START) {
			return rc;
		}
	}
}

/* The numbers are a copy; the range must be in the area. */
static int make_call(struct sgpu_rpc_server *server, const struct sgpu_ring_operation *operation,
		     struct sgpu_error *error)
{
	const struct sgpu_ring_descriptor *d = &operation->descriptor;
	const size_t size = server->shared.area_size;
	const bool good = d->handle <= INT32_MAX && d->length <= size &&
			  d->offset <= size - d->length && d->offset % _Alignof(struct pollfd) == 0;
	int64_t value = 0;
	int rc;

	if (good) {
		const struct sgpu_rpc_request request = { .operation = d->opcode,
							  .fd = (int)d->handle,
							  .data = server->area + d->offset,
							  .size = d->length,
							  .argument = d->argument };

		sgpu_rpc_show_order();
		value = sgpu_rpc_perform(&request, server->shared.outside);
		sgpu_rpc_show_order();
	}
	pthread_mutex_lock(&server->state);
	rc = sgpu_ring_finish(server->worker, operation->ticket, good ? SGPU_OK : SGPU_EUSAGE,
			      (uint64_t)value, error);
	pthread_mutex_unlock(&server->state);
	return rc;
}

static void *serve(void *argument)
{
	struct sgpu_rpc_server *server = argument;
	struct sgpu_ring_operation operation;
	struct sgpu_error error;
	bool leads = false;
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		if (!leads) {
			pthread_mutex_lock(&server->leading);
			leads = true;
		}
		rc = wait_for_call(server, &operation, &error);
		if (rc == SGPU_OK && operation.descriptor.opcode == SGPU_RPC_POLL &&
		    server->shared.threads > 1) {
			pthread_mutex_unlock(&server->leading);
			leads = false;
		}
		if (rc == SGPU_OK) {
			rc = make_call(server, &operation, &error);
		}
	}
	if (leads) {
		pthread_mutex_unlock(&server->leading);
	}
	/* Those who wait inside learn that nobody serves them, and the other threads here. */
	(void)shutdown(server->shared.outside, SHUT_RDWR);
	return NULL;
}

static int start_threads(struct sgpu_rpc_server *server, struct sgpu_error *error)
{
	sigset_t all, before;
	int failed = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (!failed && server->count < server->shared.threads) {
		failed = pthread_create(&server->threads[server->count], NULL, serve, server);
		server->count += !failed;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed ? sgpu_fail(error, SGPU_ESYSTEM, "cannot start a thread outside: %s",
				  strerror(failed))
		      : SGPU_OK;
}

int sgpu_rpc_server_start(const struct sgpu_rpc_shared *shared, struct sgpu_rpc_server **server,
			  struct sgpu_error *error)
{
	enum { DATA = SGPU_RING_KNOWN | SGPU_RING_HANDLE | SGPU_RING_OFFSET | SGPU_RING_LENGTH };
	struct sgpu_ring_worker_config config = { .doorbell = shared->outside,
						  .wait = sgpu_rpc_spinning() };
	struct sgpu_rpc_server *s = calloc(1, sizeof(*s));
	int rc;

	*server = NULL;
	if (!s) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&s->leading, NULL);
	pthread_mutex_init(&s->state, NULL);
	s->shared = *shared;
	s->area =
		mmap(NULL, shared->area_size, PROT_READ | PROT_WRITE, MAP_SHARED, shared->area, 0);
	if (s->area == MAP_FAILED) {
		s->area = NULL;
		rc = sgpu_fail_errno(error, "cannot map the data of a queue");
		goto out;
	}
	config.members[SGPU_RPC_PREAD] = config.members[SGPU_RPC_PWRITE] =
		DATA | SGPU_RING_ARGUMENT;
	config.members[SGPU_RPC_RECV] = config.members[SGPU_RPC_SEND] = DATA;
	config.members[SGPU_RPC_POLL] = DATA | SGPU_RING_ARGUMENT;
	config.members[SGPU_RPC_EMPTY] = DATA;
	rc = sgpu_ring_worker_open(shared->ring, &config, &s->worker, error);
	if (rc < 0) {
		goto out;
	}
	rc = start_threads(s, error);
	if (rc < 0) {
		goto out;
	}
	*server = s;
	s = NULL;
out:
	if (s) {
		(void)shutdown(shared->outside, SHUT_RDWR);
	}
	sgpu_rpc_server_end(&s);
	return rc;
}

void sgpu_rpc_server_end(struct sgpu_rpc_server **server)
{
	struct sgpu_rpc_server *s = *server;

	if (!s) {
		return;
	}
	for (unsigned i = 0; i < s->count; i++) {
		pthread_join(s->threads[i], NULL);
	}
	sgpu_ring_worker_close(&s->worker);
	if (s->area) {
		munmap(s->area, s->shared.area_size);
	}
	pthread_mutex_destroy(&s->leading);
	pthread_mutex_destroy(&s->state);
	free(s);
	*server = NULL;
}
