/* SPDX-License-Identifier: Apache-2.0
 *
 * See undertaker.h.
 */
#include "undertaker.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* The same on all architectures; the headers that this is built with may be older. */
enum { CLOSE_RANGE = 436 };

static int taken[UNDERTAKER_ROOM];
static unsigned count;

void undertaker_take(int fd)
{
	if (count < UNDERTAKER_ROOM) {
		taken[count++] = fd;
	}
}

unsigned undertaker_room(void)
{
	return UNDERTAKER_ROOM - count;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* In the child: what the parent goes on with is not to be kept open by it. The parent waits meanwhile, so that none of these
 * is the last, and none of the calls blocks. */
static void keep_taken_alone(int line)
{
	unsigned next = STDERR_FILENO + 1;

	undertaker_take(line);
	qsort(taken, count, sizeof(taken[0]), compare);
	for (unsigned i = 0; i < count; i++) {
		if ((unsigned)taken[i] > next) {
			(void)syscall(CLOSE_RANGE, next, (unsigned)taken[i] - 1, 0);
		}
		next = (unsigned)taken[i] + 1;
	}
	(void)syscall(CLOSE_RANGE, next, ~0U, 0);
}

bool undertaker_bury(void)
{
	int line[2];
	char ready = 0;
	pid_t pid;
	ssize_t got;

	if (count == 0) {
		return true;
	}
	if (count == UNDERTAKER_ROOM || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) != 0) {
		return false;
	}
	pid = fork();
	if (pid == 0) {
		keep_taken_alone(line[1]);
		(void)!write(line[1], &ready, 1);
		(void)!read(line[1], &ready, 1); /* until the parent has closed them */
		_exit(0);
	}
	close(line[1]);
	do {
		got = pid < 0 ? -1 : read(line[0], &ready, 1);
	} while (got < 0 && pid > 0 && errno == EINTR);
	while (got == 1 && count > 0) {
		close(taken[--count]);
	}
	close(line[0]);
	return got == 1;
}
