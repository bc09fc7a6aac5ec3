/* SPDX-License-Identifier: Apache-2.0
 *
 * See supervisor.h.
 */
#include "supervisor.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <sgpu/base.h>

/* CLOSE_RANGE: the same on all architectures; the headers that this is built with may be older. */
enum { CLOSE_RANGE = 436, MANY = 256 };
#define PAUSE_NS UINT64_C(100000000)

static struct pollfd taken[CLOSING_ROOM];
static unsigned count;
static uint64_t due_ns;
static pthread_barrier_t meeting; /* of the supervisor and the thread that it has started */
static bool apart;		  /* that thread has a table of its own */

/* A connection that nothing has come on is closed first, so that none stays open for one that
 * blocks. The others close with the thread. */
static void *end_with_them(void *none)
{
	struct pollfd own[CLOSING_ROOM];
	const unsigned number = count;
	unsigned from = STDERR_FILENO + 1;

	apart = unshare(CLONE_FILES) == 0;
	for (unsigned i = 0; apart && i < number; i++) {
		own[i] = taken[i];
		if ((unsigned)own[i].fd > from) {
			(void)syscall(CLOSE_RANGE, from, own[i].fd - 1, 0); /* not ours to end */
		}
		from = (unsigned)own[i].fd + 1;
	}
	if (apart) {
		(void)syscall(CLOSE_RANGE, from, ~0U, 0);
	}
	(void)pthread_barrier_wait(&meeting);
	(void)pthread_barrier_wait(&meeting); /* the supervisor has closed its own */
	if (apart && poll(own, number, 0) >= 0) {
		for (unsigned i = 0; i < number; i++) {
			if (!own[i].revents) {
				close(own[i].fd);
			}
		}
	}
	return none;
}

static int compare(const void *a, const void *b)
{
	return ((const struct pollfd *)a)->fd - ((const struct pollfd *)b)->fd;
}

void closing_take(int fd)
{
	if (count < CLOSING_ROOM) {
		due_ns = count == 0 ? sgpu_now_ns() + CLOSING_WAIT_NS : due_ns;
		taken[count++] = (struct pollfd){ .fd = fd, .events = POLLIN };
	}
}

unsigned closing_room(void)
{
	return CLOSING_ROOM - count;
}

uint64_t closing_due_ns(void)
{
	return count == 0 ? 0 : due_ns;
}

bool closing_do(bool all)
{
	const uint64_t now = sgpu_now_ns();
	pthread_t thread;

	if (count == 0 || (!all && now < due_ns && count < MANY)) {
		return true;
	}
	due_ns = now + PAUSE_NS; /* if it cannot be done now */
	qsort(taken, count, sizeof(*taken), compare);
	pthread_barrier_init(&meeting, NULL, 2);
	if (pthread_create(&thread, NULL, end_with_them, NULL) != 0) {
		return false;
	}
	pthread_detach(thread);
	(void)pthread_barrier_wait(&meeting);
	while (apart && count > 0) {
		close(taken[--count].fd);
	}
	(void)pthread_barrier_wait(&meeting);
	pthread_barrier_destroy(&meeting);
	return count == 0;
}
