/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls over a ring. Of the threads that wait, one leads: it waits on the ring, reaps, and hands
 * every result to the thread that it belongs to. When its own has come, it passes the lead on. The
 * others spin for a while and then sleep.
 *
 * The record of a thread and those of its operations are on its stack, and a cookie is the address
 * of the latter: the client gives back only cookies of open submissions, each once. Results are
 * handed out under the lock, and a thread leaves under the lock, too. After the end nobody reaps
 * any more, so that no record is touched after its thread has left.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <sgpu/base.h>
#include <sgpu/ring.h>

#include "base/spin.h"

/* As long as a wake-up takes: to spin on would cost more than to sleep at once. */
enum { SPIN_NS = 20000, REAPED_AT_ONCE = 16 };

enum state {
	WAITS,
	LEADS, /* is to wait on the ring itself */
	DONE,
};

/* A thread that waits. */
struct call {
	_Atomic uint32_t state;
	pthread_cond_t changed;
	size_t open; /* operations that have not completed */
	struct call *previous, *next;
};

struct operation {
	struct call *call;
	struct sgpu_ring_result *result;
};

struct sgpu_ring_calls {
	struct sgpu_ring_client *client;
	int doorbell;
	uint64_t spin_ns;
	pthread_mutex_t lock;
	struct call *first; /* of the calls that have a thread here */
	bool led;	    /* a thread waits on the ring */
	bool ended;
	struct sgpu_error why;
};

int sgpu_ring_calls_open(struct sgpu_ring_client *client, int doorbell,
			 struct sgpu_ring_calls **calls, struct sgpu_error *error)
{
	struct sgpu_ring_calls *c = calloc(1, sizeof(*c));

	*calls = NULL;
	if (!c) {
		return sgpu_fail_nomem(error);
	}
	c->client = client;
	c->doorbell = doorbell;
	c->spin_ns = sgpu_cpu_count() > 1 ? SPIN_NS : 0;
	pthread_mutex_init(&c->lock, NULL);
	*calls = c;
	return SGPU_OK;
}

void sgpu_ring_calls_close(struct sgpu_ring_calls **calls)
{
	if (*calls) {
		pthread_mutex_destroy(&(*calls)->lock);
		free(*calls);
		*calls = NULL;
	}
}

/* ---- under the lock ---- */

static void enter(struct sgpu_ring_calls *calls, struct call *call)
{
	call->next = calls->first;
	if (call->next) {
		call->next->previous = call;
	}
	calls->first = call;
}

static void leave(struct sgpu_ring_calls *calls, struct call *call)
{
	if (call->previous) {
		call->previous->next = call->next;
	} else {
		calls->first = call->next;
	}
	if (call->next) {
		call->next->previous = call->previous;
	}
}

static void move_to(struct call *call, enum state state)
{
	atomic_store(&call->state, state);
	pthread_cond_signal(&call->changed);
}

/* If nobody waits on the ring, one of those that wait for a result is to do so. */
static void pass_lead(struct sgpu_ring_calls *calls)
{
	if (calls->led || calls->ended) {
		return;
	}
	for (struct call *call = calls->first; call; call = call->next) {
		if (atomic_load(&call->state) != DONE) {
			move_to(call, LEADS);
			return;
		}
	}
}

static void end_calls(struct sgpu_ring_calls *calls, const struct sgpu_error *why)
{
	if (calls->ended) {
		return;
	}
	calls->ended = true;
	calls->why = *why;
	for (struct call *call = calls->first; call; call = call->next) {
		pthread_cond_signal(&call->changed);
	}
	if (calls->doorbell >= 0) {
		(void)shutdown(calls->doorbell, SHUT_RDWR);
	}
}

/* Waits on the ring once, without the lock, and hands out what came. */
static void lead(struct sgpu_ring_calls *calls)
{
	struct sgpu_ring_result results[REAPED_AT_ONCE];
	struct sgpu_error error;
	size_t count = 0;
	int rc;

	calls->led = true;
	pthread_mutex_unlock(&calls->lock);
	rc = sgpu_ring_client_wait(calls->client, 0, &error);
	pthread_mutex_lock(&calls->lock);
	calls->led = false;
	if (rc == SGPU_OK && !calls->ended) {
		rc = sgpu_ring_reap(calls->client, results, REAPED_AT_ONCE, &count, &error);
	}
	for (size_t i = 0; i < count; i++) {
		const struct operation *o = (const struct operation *)(uintptr_t)results[i].cookie;

		*o->result = results[i];
		o->result->cookie = 0;
		if (--o->call->open == 0) {
			move_to(o->call, DONE);
		}
	}
	if (rc < 0) {
		end_calls(calls, &error);
	}
}

/* Another thread leads. */
static void follow(struct sgpu_ring_calls *calls, struct call *call)
{
	pthread_mutex_unlock(&calls->lock);
	(void)sgpu_spin(&call->state, WAITS, calls->spin_ns);
	pthread_mutex_lock(&calls->lock);
	while (atomic_load(&call->state) == WAITS && calls->led && !calls->ended) {
		pthread_cond_wait(&call->changed, &calls->lock);
	}
}

/* ---- calls ---- */

/* Submits from the first on, as many as there is room for. */
static int submit(struct sgpu_ring_calls *calls, const struct sgpu_ring_descriptor *descriptors,
		  size_t count, struct operation *operations, struct call *call, size_t *submitted,
		  struct sgpu_error *error)
{
	int rc = SGPU_OK;

	while (!calls->ended && *submitted < count) {
		struct sgpu_ring_descriptor descriptor = descriptors[*submitted];

		descriptor.cookie = (uintptr_t)&operations[*submitted];
		rc = sgpu_ring_submit(calls->client, &descriptor, NULL, error);
		if (rc < 0) {
			break;
		}
		call->open++;
		(*submitted)++;
	}
	if (rc < 0 && rc != SGPU_ERETRY && rc != SGPU_EUSAGE) {
		end_calls(calls, error);
	}
	return rc;
}

/* Until what was submitted has completed, or calls have ended. */
static void wait_for_results(struct sgpu_ring_calls *calls, struct call *call)
{
	while (call->open && !calls->ended) {
		atomic_store(&call->state, WAITS); /* whoever was to lead may have come too late */
		if (calls->led) {
			follow(calls, call);
		} else {
			lead(calls);
		}
	}
}

int sgpu_ring_call_all(struct sgpu_ring_calls *calls,
		       const struct sgpu_ring_descriptor *descriptors, size_t count,
		       struct sgpu_ring_result *results, struct sgpu_error *error)
{
	struct call call = { .changed = PTHREAD_COND_INITIALIZER };
	struct operation operations[SGPU_RING_CALLS_MAX];
	struct sgpu_error found;
	size_t submitted = 0, before;
	int rc;

	if (count < 1 || count > SGPU_RING_CALLS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "%zu operations in one call", count);
	}
	for (size_t i = 0; i < count; i++) {
		operations[i] = (struct operation){ &call, &results[i] };
	}
	pthread_mutex_lock(&calls->lock);
	enter(calls, &call);
	do {
		before = submitted;
		rc = submit(calls, descriptors, count, operations, &call, &submitted, &found);
		wait_for_results(calls, &call);
	} while (rc == SGPU_ERETRY && submitted > before && !calls->ended);
	leave(calls, &call);
	pass_lead(calls);
	if (calls->ended && (call.open || submitted < count)) {
		found = calls->why;
		rc = found.code;
	}
	pthread_mutex_unlock(&calls->lock);
	pthread_cond_destroy(&call.changed);
	if (rc < 0 && rc != SGPU_ERETRY && error) {
		*error = found;
	}
	return rc;
}

int sgpu_ring_call(struct sgpu_ring_calls *calls, const struct sgpu_ring_descriptor *descriptor,
		   struct sgpu_ring_result *result, struct sgpu_error *error)
{
	return sgpu_ring_call_all(calls, descriptor, 1, result, error);
}

void sgpu_ring_calls_end(struct sgpu_ring_calls *calls, const struct sgpu_error *why)
{
	pthread_mutex_lock(&calls->lock);
	end_calls(calls, why);
	pthread_mutex_unlock(&calls->lock);
}
