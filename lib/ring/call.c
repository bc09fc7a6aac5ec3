/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls over a ring. Of the threads that wait, one leads: it waits on the ring, reaps, and hands
 * every result to the thread that it belongs to. When its own has come, it passes the lead on. The
 * others spin for a while and then sleep.
 *
 * A call's record is on the stack of its thread, and the cookie is its address: the client gives
 * back only cookies of open submissions, each once. Results are handed out under the lock, and a
 * thread leaves under the lock, too. After the end nobody reaps any more, so that no record is
 * touched after its thread has left.
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

struct call {
	_Atomic uint32_t state;
	pthread_cond_t changed;
	struct sgpu_ring_result result;
	struct call *previous, *next;
};

struct sgpu_ring_calls {
	struct sgpu_ring_client *client;
	int doorbell;
	uint64_t spin_ns;
	pthread_mutex_t lock;
	struct call *first; /* of the calls that have a thread here */
	bool led;           /* a thread waits on the ring */
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
		struct call *call = (struct call *)(uintptr_t)results[i].cookie;

		call->result = results[i];
		call->result.cookie = 0;
		move_to(call, DONE);
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

int sgpu_ring_call(struct sgpu_ring_calls *calls, const struct sgpu_ring_descriptor *descriptor,
		   struct sgpu_ring_result *result, struct sgpu_error *error)
{
	struct call call = { .changed = PTHREAD_COND_INITIALIZER };
	struct sgpu_ring_descriptor submitted = *descriptor;
	struct sgpu_error found;
	int rc;

	submitted.cookie = (uintptr_t)&call;
	pthread_mutex_lock(&calls->lock);
	if (!calls->ended) {
		rc = sgpu_ring_submit(calls->client, &submitted, NULL, &found);
		if (rc == SGPU_ERETRY || rc == SGPU_EUSAGE) {
			goto out;
		}
		if (rc < 0) {
			end_calls(calls, &found);
		}
	}
	enter(calls, &call);
	while (atomic_load(&call.state) != DONE && !calls->ended) {
		atomic_store(&call.state, WAITS); /* whoever was to lead may have come too late */
		if (calls->led) {
			follow(calls, &call);
		} else {
			lead(calls);
		}
	}
	leave(calls, &call);
	pass_lead(calls);
	rc = SGPU_OK;
	*result = call.result;
	if (atomic_load(&call.state) != DONE) {
		found = calls->why;
		rc = found.code;
	}
out:
	pthread_mutex_unlock(&calls->lock);
	pthread_cond_destroy(&call.changed);
	if (rc < 0 && rc != SGPU_ERETRY && error) {
		*error = found;
	}
	return rc;
}

void sgpu_ring_calls_end(struct sgpu_ring_calls *calls, const struct sgpu_error *why)
{
	pthread_mutex_lock(&calls->lock);
	end_calls(calls, why);
	pthread_mutex_unlock(&calls->lock);
}
