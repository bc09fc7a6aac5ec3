/* SPDX-License-Identifier: Apache-2.0
 *
 * See serving.h.
 */
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/session.h>

#include "base/base.h"
#include "base/io.h"
#include "device/backend.h"
#include "serving.h"

/* Sessions. A client brings the memory of a ring and an area; the connection wakes either side. The
 * worker's loop only ends sessions. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sgpu_remote_service *services[TENANT_SESSIONS_MAX];
/* Open now, and the tenant's limit. The supervisor can change the counters. */
static atomic_uint sessions, places = TENANT_SESSIONS_MAX;

static int run_session_of(int connection, const int fds[2], struct sgpu_error *error)
{
	const struct sgpu_remote_ring ring = { .memory = fds[0],
					       .area = fds[1],
					       .bell = connection };
	struct sgpu_session_authority authority;
	struct sgpu_remote_service *service = NULL;
	int rc = enclave_authority(serving.enclave, &authority, error), i = 0;

	rc = rc ? rc
		: sgpu_remote_service_create(serving.enclave->devices[0].context,
					     serving.begin.session_memory, &authority, &ring,
					     &service, error);
	if (rc == SGPU_OK && wire_say(connection, WIRE_TAKEN)) {
		pthread_mutex_lock(&lock);
		while (services[i]) {
			i++;
		}
		services[i] = service; /* for sessions_end() */
		pthread_mutex_unlock(&lock);
		/* A client's fault ends its session alone. */
		(void)!sgpu_remote_service_run(service, NULL);
		pthread_mutex_lock(&lock);
		services[i] = NULL;
		pthread_mutex_unlock(&lock);
	}
	sgpu_remote_service_free(&service);
	return rc;
}

static int serve_session(int connection, struct sgpu_error *error)
{
	struct sgpu_greeting asked;
	int fds[2],
		rc = wire_receive(connection, WIRE_SESSION, &asked, sizeof(asked), fds, 2, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	if (atomic_fetch_add(&sessions, 1) >= atomic_load(&places)) {
		rc = sgpu_fail(error, SGPU_ERETRY, "this user has %u sessions, which is the limit",
			       atomic_load(&places));
	} else {
		atomic_fetch_add(&serving.counters->sessions, 1);
		rc = run_session_of(connection, fds, error);
		atomic_fetch_sub(&serving.counters->sessions, 1);
	}
	atomic_fetch_sub(&sessions, 1);
	close(fds[0]);
	close(fds[1]);
	return rc;
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

/* Requests ask the signer for quotes in turn, since the platform may take long for a report. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static int serve_quote(int connection, struct sgpu_error *error)
{
	struct wire_quote question;
	char *quote = NULL;
	size_t size = 0;
	int rc = wire_receive(connection, WIRE_QUOTE, &question, sizeof(question), NULL, 0, error);

	if (rc < 0) {
		return rc;
	}
	if (!serving.enclave->quoted) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "this server gives no quotes: it has no attestation key");
		return sgpu_hint(error, "'sgpu-serve --attestation-key' gives it one");
	}
	if (question.nonce_size < SGPU_NONCE_MIN || question.nonce_size > SGPU_NONCE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "a nonce has %d to %d bytes", SGPU_NONCE_MIN,
				 SGPU_NONCE_MAX);
	}
	pthread_mutex_lock(&asking);
	rc = signer_ask(question.nonce, question.nonce_size, &quote, &size, error);
	pthread_mutex_unlock(&asking);
	if (rc == SGPU_OK) {
		atomic_store(&serving.counters->quoted_ns, sgpu_now_ns());
		rc = wire_say_text(connection, WIRE_QUOTE_IS, quote, size, error);
	}
	free(quote);
	return rc;
}

static void end(int connection, int rc, struct sgpu_error *error)
{
	if (rc < 0 && rc != SGPU_ECANCELED) {
		error->code = rc == SGPU_ETIMEOUT ? SGPU_EINVALID : rc; /* client sent nothing */
		wire_refuse(connection, error);
	}
	sgpu_close(connection);
	atomic_fetch_add(&serving.counters->requests_ended, 1);
	(void)wire_say(serving.control, WIRE_NOTE);
	atomic_fetch_sub(&serving.requests, 1);
	if (atomic_load(&serving.draining)) {
		(void)eventfd_write(serving.wake_fd, 1);
	}
}

static void *deal_with(void *argument)
{
	const int connection = (int)(intptr_t)argument;
	struct sgpu_error error = { 0 };
	enum wire_kind kind;
	int rc;

	(void)!wire_peek(connection, &kind, NULL); /* the client may have gone */
	rc = kind == WIRE_LEASE	    ? serve_lease(connection, &error)
	     : kind == WIRE_QUOTE   ? serve_quote(connection, &error)
	     : kind == WIRE_SESSION ? serve_session(connection, &error)
				    : sgpu_fail(&error, SGPU_EUNAVAILABLE,
						"the server does not know such a request");
	end(connection, rc, &error);
	return NULL;
}

void requests_take(int connection)
{
	struct sgpu_error error = { 0 };
	int rc;

	atomic_fetch_add(&serving.requests, 1);
	rc = sgpu_thread_start(NULL, deal_with, (void *)(intptr_t)connection, &error);
	if (rc < 0) {
		end(connection, rc, &error);
	}
}

/* Memory limits of a worker's tenant, which the library counts and enforces. The engines' staging
 * has a reserve of host memory. Of the rest, leases get at most half, since results need memory,
 * too. */

/* Bytes. Staging and gaps between buffers get device memory above the limit: a quarter of it plus
 * this. */
#define DEVICE_SLACK (UINT64_C(1) << 30)

/* 0: no limit. The reserve is kept while there is one. */
static void limit_host_memory(const struct enclave *w, uint64_t bytes)
{
	static bool limited;
	const uint64_t staging = (uint64_t)w->device_count * SGPU_RUNNER_PINNED_MAX;

	if (bytes && bytes <= staging) {
		cli_warning("a user's limit of host memory leaves none for results: %d devices "
			    "have %llu bytes for staging, "
			    "and the limit is %llu",
			    w->device_count, (unsigned long long)staging,
			    (unsigned long long)bytes);
	}
	if (bytes && !limited) {
		serve_lease_shrink(bytes > staging ? (bytes - staging) / 2 : 0);
		(void)!sgpu_limit_take(SGPU_HOST_MEMORY, staging, NULL); /* no limit yet */
	}
	sgpu_limit_set(SGPU_HOST_MEMORY, bytes);
	if (!bytes && limited) {
		sgpu_limit_give(SGPU_HOST_MEMORY, staging);
	}
	limited = bytes > 0;
}

void serve_limits(const struct wire_limits *limits)
{
	const struct enclave *w = serving.enclave;
	const uint64_t most =
		limits->device_memory ? limits->device_memory / 4 * 5 + DEVICE_SLACK : 0;

	for (int i = 0; i < w->device_count; i++) {
		sgpu_device_set_limit(w->devices[i].device, most);
	}
	sgpu_limit_set(SGPU_DEVICE_MEMORY, limits->device_memory);
	limit_host_memory(w, limits->host_memory);
	/* Open sessions stay. */
	atomic_store(&places, (unsigned)sgpu_min_u64(limits->sessions, TENANT_SESSIONS_MAX));
}
