/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's side of a session over a ring. Nothing shared is trusted: the ring checks its
 * entries, a message is copied once before it is read, and the data in the area are sealed.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <sgpu/base.h>

#include "remote/carrier.h"
#include "channel/group.h"

struct sgpu_remote_service {
	struct sgpu_group_server *server;
	struct sgpu_ring *ring;
	int bell;
	uint8_t *area;
	atomic_bool stop;
	_Atomic uint64_t idle_ns; /* since when the session is idle; UINT64_MAX: it is not */
	uint8_t message[SGPU_MESSAGE_MAX], answer[SGPU_MESSAGE_MAX];
};

int sgpu_remote_service_create(struct sgpu_secure *context, uint64_t memory_limit,
			       const struct sgpu_session_authority *authority,
			       const struct sgpu_remote_ring *ring,
			       struct sgpu_remote_service **service, struct sgpu_error *error)
{
	static const uint8_t members[SGPU_RING_OPCODES] = { [LINK_MESSAGE] = SGPU_RING_KNOWN |
									     SGPU_RING_LENGTH };
	const struct sgpu_ring_config worker = { .doorbell = ring->bell,
						 .spin_ns = ring->spin_ns,
						 .members = members };
	struct sgpu_group_config config = { .area_size = SGPU_AREA_SIZE,
					    .memory_limit = memory_limit,
					    .jobs = &sgpu_remote_jobs,
					    .authority = authority };
	struct sgpu_remote_service *s = calloc(1, sizeof(*s));
	int rc;

	*service = NULL;
	if (!s) {
		return sgpu_fail_nomem(error);
	}
	atomic_init(&s->idle_ns, sgpu_now_ns());
	s->bell = ring->bell;
	rc = sgpu_ring_open(ring->memory, &worker, &s->ring, error);
	rc = rc ? rc : sgpu_link_map(ring->area, &s->area, error);
	config.area = s->area;
	rc = rc ? rc : sgpu_group_server_create(context, &config, &s->server, error);
	if (rc < 0) {
		sgpu_remote_service_free(&s);
	}
	*service = s;
	return rc;
}

void sgpu_remote_service_free(struct sgpu_remote_service **service)
{
	struct sgpu_remote_service *s = service ? *service : NULL;

	if (!s) {
		return;
	}
	sgpu_group_server_free(&s->server);
	sgpu_link_unmap(&s->area);
	sgpu_ring_close(&s->ring);
	free(s);
	*service = NULL;
}

void sgpu_remote_service_stop(struct sgpu_remote_service *service)
{
	atomic_store(&service->stop, true);
	(void)shutdown(service->bell, SHUT_RDWR);
}

uint64_t sgpu_remote_service_idle(const struct sgpu_remote_service *service)
{
	const uint64_t since = atomic_load(&service->idle_ns), now = sgpu_now_ns();

	return since < now ? now - since : 0;
}

static int answer_message(struct sgpu_remote_service *s,
			  const struct sgpu_ring_descriptor *descriptor, struct sgpu_error *error)
{
	const uint64_t size = descriptor->length;
	size_t answered = 0;
	int rc;

	if (size == 0 || size > SGPU_MESSAGE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "a message of a session has %llu bytes",
				 (unsigned long long)size);
	}
	atomic_store_explicit(&s->idle_ns, UINT64_MAX, memory_order_relaxed);
	memcpy(s->message, s->area + SGPU_AREA_SIZE, size);
	rc = sgpu_group_server_handle(s->server, s->message, (size_t)size, s->answer, &answered,
				      error);
	if (rc < 0) {
		return rc;
	}
	memcpy(s->area + SGPU_AREA_SIZE, s->answer, answered);
	atomic_store_explicit(&s->idle_ns, sgpu_now_ns(), memory_order_relaxed);
	return sgpu_ring_finish(s->ring, SGPU_OK, answered, error);
}

/* Checks `stop` before each message, so endless messages do not prevent a stop. */
int sgpu_remote_service_run(struct sgpu_remote_service *service, struct sgpu_error *error)
{
	struct sgpu_remote_service *s = service;
	struct sgpu_ring_descriptor descriptor;
	int rc = SGPU_OK;

	while (rc == SGPU_OK && !atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		rc = sgpu_ring_next(s->ring, &descriptor, error);
		if (rc == SGPU_OK) {
			rc = answer_message(s, &descriptor, error);
		} else if (rc == SGPU_ERETRY) {
			rc = SGPU_OK;
			if (sgpu_ring_await(s->ring, 0, error) < 0) {
				/* The client has closed the bell, and no message is left. */
				return SGPU_OK;
			}
		}
	}
	return rc;
}
