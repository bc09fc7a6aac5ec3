/* SPDX-License-Identifier: Apache-2.0
 *
 * See requests.h. A client brings the memory of a ring and an area as descriptors, and the
 * connection is the bell of both sides. From the moment at which a session is taken its thread
 * alone deals with it, also with what a client may make wait: the loop of the worker only tells it
 * to end.
 */
#include "requests.h"

#include <pthread.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/session.h>

#include "remote/greeting.h"
#include "tenants.h"

_Static_assert((int)SGPU_GREETING_VERSION == (int)WIRE_VERSION &&
		       (int)SGPU_GREETING_SESSION == (int)WIRE_SESSION &&
		       (int)SGPU_GREETING_TAKEN == (int)WIRE_TAKEN &&
		       (int)SGPU_GREETING_REFUSED == (int)WIRE_ANSWER &&
		       sizeof(struct sgpu_greeting) == sizeof(struct wire_plain) &&
		       offsetof(struct sgpu_refusal_of_session, error) ==
			       offsetof(struct wire_answer, error),
	       "what the library knows of these messages");

struct session {
	bool used;
	struct request request;
	int fds[2];			     /* the ring's memory, and the area */
	struct sgpu_remote_service *service; /* while it runs; under the lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct session sessions[TENANT_SESSIONS_MAX]; /* of one worker, and so of one user */
static unsigned most = TENANT_SESSIONS_MAX;

/* The descriptors are its from then on. */
static struct session *find_place(const struct request *request, const int fds[2])
{
	struct session *place = NULL;
	unsigned used = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < TENANT_SESSIONS_MAX; i++) {
		used += sessions[i].used;
		place = sessions[i].used ? place : &sessions[i];
	}
	place = used < most ? place : NULL;
	if (place) {
		*place = (struct session){ .used = true,
					   .request = *request,
					   .fds = { fds[0], fds[1] } };
	}
	pthread_mutex_unlock(&lock);
	return place;
}

static void leave_place(struct session *s)
{
	close(s->fds[0]);
	close(s->fds[1]);
	pthread_mutex_lock(&lock);
	s->used = false;
	pthread_mutex_unlock(&lock);
}

static int open_service(struct session *s, struct sgpu_remote_service **service,
			struct sgpu_error *error)
{
	const struct sgpu_remote_ring ring = { .memory = s->fds[0],
					       .area = s->fds[1],
					       .bell = s->request.connection };
	struct sgpu_secure *context = s->request.server->worker.devices[0].context;
	int rc;

	if (!context) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the server's device has no secure contexts, which sessions need");
	}
	rc = sgpu_remote_service_create(context, s->request.server->session_memory,
					serve_quote_key(), &ring, service, error);
	if (rc == SGPU_OK && !wire_say(s->request.connection, WIRE_TAKEN, -1)) {
		rc = SGPU_ECANCELED;
	}
	if (rc == SGPU_OK) {
		pthread_mutex_lock(&lock);
		s->service = *service; /* from here on sessions_end reaches it */
		pthread_mutex_unlock(&lock);
	}
	return rc;
}

static void *run_session(void *argument)
{
	struct session *s = argument;
	const int connection = s->request.connection;
	_Atomic uint64_t *count = &s->request.counters->sessions;
	struct sgpu_remote_service *service = NULL;
	struct sgpu_error error = { 0 };
	int rc;

	atomic_fetch_add(count, 1);
	rc = open_service(s, &service, &error);
	if (rc == SGPU_OK) {
		/* What a client breaks ends its session, and is nobody else's affair. */
		(void)!sgpu_remote_service_run(service, NULL);
		pthread_mutex_lock(&lock);
		s->service = NULL;
		pthread_mutex_unlock(&lock);
	}
	sgpu_remote_service_free(&service);
	leave_place(s);
	atomic_fetch_sub(count, 1);
	if (rc < 0 && rc != SGPU_ECANCELED) {
		requests_refuse(connection, &error);
	} else {
		requests_end(connection);
	}
	return NULL;
}

void session_take(const struct request *request)
{
	struct sgpu_error error = { 0 };
	struct session *s = NULL;
	struct wire_plain asked;
	int fds[2] = { -1, -1 };
	int rc = wire_receive(request->connection, WIRE_SESSION, &asked, sizeof(asked), fds, 2,
			      &error);

	/* Nothing in it says whose program it is, so no owner can be asked for. */
	if (rc == SGPU_OK && !request->server->worker.sessions) {
		sgpu_fail(&error, SGPU_EPOLICY,
			  "this server takes no sessions, which anybody could open");
		rc = sgpu_hint(&error,
			       "'sgpu-run serve --sessions any' takes them of whoever may connect");
	}
	if (rc == SGPU_OK) {
		s = find_place(request, fds);
		rc = s ? requests_start_thread(run_session, s, &error)
		       : sgpu_fail(&error, SGPU_ERETRY,
				   "user %lu has %u sessions, which is the limit",
				   (unsigned long)request->uid, most); /* this thread sets it */
	}
	if (rc == SGPU_OK) {
		return;
	}
	if (s) {
		leave_place(s);
	} else if (fds[0] >= 0) {
		close(fds[0]);
		close(fds[1]);
	}
	error.code = rc == SGPU_ETIMEOUT ? SGPU_EINVALID : rc; /* nothing was there */
	requests_refuse(request->connection, &error);
}

void sessions_limit(unsigned count)
{
	pthread_mutex_lock(&lock);
	most = count < TENANT_SESSIONS_MAX ? count : TENANT_SESSIONS_MAX;
	pthread_mutex_unlock(&lock);
}

void sessions_end(uint64_t idle_ns)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < TENANT_SESSIONS_MAX; i++) {
		if (sessions[i].service &&
		    sgpu_remote_service_idle(sessions[i].service) >= idle_ns) {
			sgpu_remote_service_stop(sessions[i].service);
		}
	}
	pthread_mutex_unlock(&lock);
}
