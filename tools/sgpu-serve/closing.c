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

#include "base/base.h"

enum { MANY = 256 };
#define PAUSE_NS UINT64_C(100000000)

static struct pollfd taken[CLOSING_ROOM];
static unsigned count;
static uint64_t due_ns;
/* The supervisor and its thread meet here twice: when the thread has, or lacks, a descriptor table
 * of its own, and when the supervisor has closed its descriptors. */
static pthread_barrier_t meeting;
static bool is_apart;

/* Closes connections in a descriptor table of its own: first those on which nothing has come, which
 * cannot block. The others close as the thread ends. */
static void *end_with_them(void *unused)
{
	struct pollfd own[CLOSING_ROOM];
	const unsigned number = count;
	unsigned from = STDERR_FILENO + 1;
	const bool apart = unshare(CLONE_FILES) == 0;

	(void)unused;
	for (unsigned i = 0; apart && i < number; i++) {
		own[i] = taken[i];
		if ((unsigned)own[i].fd > from) {
			(void)close_range(from, (unsigned)own[i].fd - 1, 0); /* not needed here */
		}
		from = (unsigned)own[i].fd + 1;
	}
	if (apart) {
		(void)close_range(from, ~0U, 0);
	}
	is_apart = apart;
	(void)pthread_barrier_wait(&meeting);
	(void)pthread_barrier_wait(&meeting);
	if (apart && poll(own, number, 0) >= 0) {
		for (unsigned i = 0; i < number; i++) {
			if (!own[i].revents) {
				close(own[i].fd);
			}
		}
	}
	return NULL;
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

void closing_do(bool all)
{
	const uint64_t now = sgpu_now_ns();
	static bool made;

	if (count == 0 || (!all && now < due_ns && count < MANY)) {
		return;
	}
	due_ns = now + PAUSE_NS; /* the next try, if no thread can start now */
	qsort(taken, count, sizeof(*taken), compare);
	made = made || pthread_barrier_init(&meeting, NULL, 2) == 0;
	if (!made || sgpu_thread_start(NULL, end_with_them, NULL, NULL) < 0) {
		return;
	}
	(void)pthread_barrier_wait(&meeting);
	while (is_apart && count > 0) {
		close(taken[--count].fd);
	}
	(void)pthread_barrier_wait(&meeting);
}
