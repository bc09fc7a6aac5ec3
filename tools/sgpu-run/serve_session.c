/* SPDX-License-Identifier: Apache-2.0
 *
 * See requests.h. A client brings the memory of a ring and an area as descriptors, and the
 * connection is the bell of both sides. The loop of the worker only tells a session to end.
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sgpu_remote_service *services[TENANT_SESSIONS_MAX]; /* those that run */
static unsigned count, most = TENANT_SESSIONS_MAX; /* of one worker, and so of one user */

static bool take_place(unsigned *limit)
{
	bool taken;

	pthread_mutex_lock(&lock);
	*limit = most;
	taken = count < most;
	count += taken;
	pthread_mutex_unlock(&lock);
	return taken;
}

/* sessions_end reaches it meanwhile. */
static void run_service(struct sgpu_remote_service *service)
{
	int i = 0;

	pthread_mutex_lock(&lock);
	while (services[i]) {
		i++;
	}
	services[i] = service;
	pthread_mutex_unlock(&lock);
	/* What a client breaks ends its session, and is nobody else's affair. */
	(void)!sgpu_remote_service_run(service, NULL);
	pthread_mutex_lock(&lock);
	services[i] = NULL;
	pthread_mutex_unlock(&lock);
}

static int serve(const struct request *request, const int fds[2], struct sgpu_error *error)
{
	const struct sgpu_remote_ring ring = { .memory = fds[0],
					       .area = fds[1],
					       .bell = request->connection };
	struct sgpu_secure *context = request->server->worker.devices[0].context;
	struct sgpu_remote_service *service = NULL;
	int rc;

	if (!context) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the server's device has no secure contexts, which sessions need");
	}
	rc = sgpu_remote_service_create(context, request->server->session_memory, serve_quote_key(),
					&ring, &service, error);
	if (rc == SGPU_OK && wire_say(request->connection, WIRE_TAKEN, -1)) {
		run_service(service);
	}
	sgpu_remote_service_free(&service);
	return rc;
}

int serve_session(const struct request *request, struct sgpu_error *error)
{
	struct wire_plain asked;
	unsigned limit;
	int fds[2], rc = wire_receive(request->connection, WIRE_SESSION, &asked, sizeof(asked), fds,
				      2, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	/* Nothing in it says whose program it is, so no owner can be asked for. */
	if (!request->server->worker.sessions) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "this server takes no sessions, which anybody could open");
		rc = sgpu_hint(error,
			       "'sgpu-run serve --sessions any' takes them of whoever may connect");
	} else if (!take_place(&limit)) {
		rc = sgpu_fail(error, SGPU_ERETRY, "user %lu has %u sessions, which is the limit",
			       (unsigned long)request->uid, limit);
	} else {
		atomic_fetch_add(&request->counters->sessions, 1);
		rc = serve(request, fds, error);
		pthread_mutex_lock(&lock);
		count--;
		pthread_mutex_unlock(&lock);
		atomic_fetch_sub(&request->counters->sessions, 1);
	}
	close(fds[0]);
	close(fds[1]);
	return rc;
}

void sessions_limit(unsigned limit)
{
	pthread_mutex_lock(&lock);
	most = limit < TENANT_SESSIONS_MAX ? limit : TENANT_SESSIONS_MAX;
	pthread_mutex_unlock(&lock);
}

void sessions_end(uint64_t idle_ns)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < TENANT_SESSIONS_MAX; i++) {
		if (services[i] && sgpu_remote_service_idle(services[i]) >= idle_ns) {
			sgpu_remote_service_stop(services[i]);
		}
	}
	pthread_mutex_unlock(&lock);
}
