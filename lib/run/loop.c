/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes are a list under a mutex. An eventfd wakes the thread only when it sleeps, since a busy
 * loop checks the list again anyway. While notes are expected, it spins for some time before it
 * sleeps.
 */
#include "run/loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

struct sgpu_loop {
	uint64_t (*tick)(void *argument);
	void *argument;
	uint64_t spin_ns;
	pthread_t thread;
	int wake_fd;
	_Atomic uint32_t calls; /* notes and wakes so far */
	atomic_int expected;	/* how many things that post notes have not ended */
	atomic_bool sleeping, end;
	pthread_mutex_t mutex; /* guards the members below */
	struct sgpu_note *head, *tail;
};

/* The loop's thread sets `sleeping` before it checks `calls`, so that no call is missed. */
void sgpu_loop_wake(struct sgpu_loop *loop)
{
	const int saved = errno;

	atomic_fetch_add(&loop->calls, 1);
	if (atomic_exchange(&loop->sleeping, false)) {
		(void)eventfd_write(loop->wake_fd, 1); /* if it is full, the loop wakes as well */
	}
	errno = saved;
}

void sgpu_loop_expect(struct sgpu_loop *loop, bool ended)
{
	atomic_fetch_add(&loop->expected, ended ? -1 : 1);
}

void sgpu_loop_post(struct sgpu_loop *loop, struct sgpu_note *note)
{
	note->next = NULL;
	pthread_mutex_lock(&loop->mutex);
	if (loop->head) {
		loop->tail->next = note;
	} else {
		loop->head = note;
	}
	loop->tail = note;
	sgpu_loop_wake(loop); /* the mutex is held, so that the loop cannot be freed meanwhile */
	pthread_mutex_unlock(&loop->mutex);
}

static struct sgpu_note *take_notes(struct sgpu_loop *loop)
{
	struct sgpu_note *notes;

	pthread_mutex_lock(&loop->mutex);
	notes = loop->head;
	loop->head = loop->tail = NULL;
	pthread_mutex_unlock(&loop->mutex);
	return notes;
}

/* Returns the milliseconds until `when_ns`, rounded up, since a tick that comes too early would
 * find nothing to do; -1: no limit. */
static int time_left(uint64_t when_ns)
{
	uint64_t now = sgpu_now_ns(), left;

	if (when_ns == 0) {
		return -1;
	}
	left = now >= when_ns ? 0 : (when_ns - now) / 1000000 + 1;
	return left > 3600000 ? 3600000 : (int)left;
}

/* Sleeps until a new call, or until `when_ns`. */
static void wait_for_call(struct sgpu_loop *loop, uint32_t seen, uint64_t when_ns)
{
	struct pollfd wake = { .fd = loop->wake_fd, .events = POLLIN };
	uint64_t count;

	if (atomic_load(&loop->expected) > 0 && sgpu_spin(&loop->calls, seen, loop->spin_ns)) {
		return;
	}
	atomic_store(&loop->sleeping, true);
	if (atomic_load(&loop->calls) == seen && poll(&wake, 1, time_left(when_ns)) > 0 &&
	    read(loop->wake_fd, &count, sizeof(count)) < 0) {
		errno = 0; /* there was no call to read, which is no error */
	}
	atomic_store(&loop->sleeping, false);
}

static void *loop_thread(void *argument)
{
	struct sgpu_loop *loop = argument;

	while (!atomic_load(&loop->end)) {
		const uint32_t seen = atomic_load(&loop->calls);
		struct sgpu_note *note = take_notes(loop), *next;
		const bool idle = !note;
		uint64_t when;

		for (; note; note = next) {
			next = note->next;
			note->handle(note);
		}
		when = loop->tick(loop->argument);
		if (idle) {
			wait_for_call(loop, seen, when);
		}
	}
	return NULL;
}

int sgpu_loop_create(uint64_t (*tick)(void *argument), void *argument, uint64_t spin_ns,
		     struct sgpu_loop **loop, struct sgpu_error *error)
{
	struct sgpu_loop *l = calloc(1, sizeof(*l));
	int rc;

	*loop = NULL;
	if (!l) {
		return sgpu_fail_nomem(error);
	}
	l->tick = tick;
	l->argument = argument;
	l->spin_ns = spin_ns;
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0) {
		rc = sgpu_fail_errno(error, "cannot make an event descriptor");
		free(l);
		return rc;
	}
	pthread_mutex_init(&l->mutex, NULL);
	rc = sgpu_thread_start(&l->thread, loop_thread, l, error);
	if (rc < 0) {
		pthread_mutex_destroy(&l->mutex);
		close(l->wake_fd);
		free(l);
		return rc;
	}
	*loop = l;
	return SGPU_OK;
}

void sgpu_loop_free(struct sgpu_loop **loop)
{
	struct sgpu_loop *l = *loop;

	if (!l) {
		return;
	}
	atomic_store(&l->end, true);
	sgpu_loop_wake(l);
	pthread_join(l->thread, NULL);
	pthread_mutex_destroy(&l->mutex);
	close(l->wake_fd);
	free(l);
	*loop = NULL;
}
