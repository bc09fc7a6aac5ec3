/* SPDX-License-Identifier: Apache-2.0
 *
 * See undertaker.h. Descriptors go to a process that ends in one message; the next message says
 * that the supervisor has closed its own, and only then it ends.
 */
#include "undertaker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

/* CLOSE_RANGE: the same on all architectures; the headers that this is built with may be older.
 * AT_ONCE: as many as the kernel sends in a message. */
enum { CLOSE_RANGE = 436, AT_ONCE = 253, LINE = STDERR_FILENO + 1, NICE_MOST = 19 };
#define PAUSE_NS UINT64_C(100000000)

static int line = -1; /* to the process that starts the others */
static int taken[UNDERTAKER_ROOM];
static unsigned count;
static uint64_t due_ns;

union control {
	struct cmsghdr header; /* aligns it */
	char bytes[CMSG_SPACE(AT_ONCE * sizeof(int))];
};

/* ---- in the processes ---- */
/* Returns how many descriptors came with the next message; 0, too, if there is none any more. */
static unsigned receive(int fds[AT_ONCE])
{
	union control control;
	char byte;
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	const struct cmsghdr *header;
	ssize_t got;
	size_t size;

	do {
		got = recvmsg(LINE, &message, 0);
	} while (got < 0 && errno == EINTR);
	header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (!header || header->cmsg_type != SCM_RIGHTS) {
		return 0;
	}
	size = header->cmsg_len - CMSG_LEN(0);
	memcpy(fds, CMSG_DATA(header), size);
	return (unsigned)(size / sizeof(int));
}

/* What nobody has sent anything to closes at once: so what blocks keeps none of these open. The
 * rest ends with the process. `told` is written to when it needs no message any more. */
static void end_with_them(int told)
{
	struct pollfd closed[AT_ONCE];
	int fds[AT_ONCE], none[AT_ONCE];
	const unsigned got = receive(fds);

	if (got > 0) {
		(void)receive(none); /* it has said that its own are closed */
	}
	(void)!write(told, "", 1);
	for (unsigned i = 0; i < got; i++) {
		closed[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	}
	if (poll(closed, got, 0) >= 0) {
		for (unsigned i = 0; i < got; i++) {
			if (!closed[i].revents) {
				close(fds[i]);
			}
		}
	}
	_exit(0);
}

/* One after the other, each when there is something for it. */
static void start_others(void)
{
	const struct timespec pause = { .tv_nsec = (long)PAUSE_NS };
	int told[2];
	char byte;

	while (recv(LINE, &byte, 1, MSG_PEEK) > 0) {
		pid_t pid = -1;

		if (pipe(told) == 0) {
			pid = fork();
			if (pid == 0) {
				end_with_them(told[1]);
			}
			close(told[1]);
			(void)!read(told[0], &byte, pid > 0 ? 1 : 0);
			close(told[0]);
		}
		if (pid < 0) {
			(void)nanosleep(&pause, NULL);
		}
	}
	_exit(0);
}

bool undertaker_start(void)
{
	char byte = 0;
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return false;
	}
	pid = fork();
	if (pid == 0) {
		signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
		if (dup2(ends[1], LINE) == LINE) {
			(void)syscall(CLOSE_RANGE, LINE + 1, ~0U, 0);
			(void)send(LINE, &byte, 1, MSG_NOSIGNAL);
			(void)setpriority(PRIO_PROCESS, 0, NICE_MOST);
			start_others();
		}
		_exit(0);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return false;
	}
	/* It closes what it has inherited, and must not be the last to: another process may let go
	 * meanwhile. */
	(void)!recv(ends[0], &byte, 1, 0);
	line = ends[0];
	return true;
}

/* ---- in the supervisor ---- */
void undertaker_take(int fd)
{
	if (count < UNDERTAKER_ROOM) {
		due_ns = count == 0 ? sgpu_now_ns() + UNDERTAKER_WAIT_NS : due_ns;
		taken[count++] = fd;
	}
}

unsigned undertaker_room(void)
{
	return UNDERTAKER_ROOM - count;
}

uint64_t undertaker_due_ns(void)
{
	return count == 0 ? 0 : due_ns;
}

static bool send_line(const int *fds, unsigned number)
{
	union control control;
	char byte = 0;
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (number > 0) {
		memset(&control, 0, sizeof(control));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(number * sizeof(int));
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(number * sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), fds, number * sizeof(int));
	}
	return sendmsg(line, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/* Without the second message the first is none: the process ends when the line is closed, too. */
static bool send_some(void)
{
	const unsigned number = count < AT_ONCE ? count : AT_ONCE, first = count - number;
	bool sent = send_line(taken + first, number);

	if (!sent && (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)) {
		return false;
	}
	while (sent && count > first) {
		close(taken[--count]);
	}
	sent = sent && send_line(NULL, 0);
	if (!sent) {
		close(line);
		line = -1;
	}
	return sent;
}

bool undertaker_bury(bool all)
{
	const uint64_t now = sgpu_now_ns();
	bool good = true;

	if (!all && now < due_ns && count < AT_ONCE) {
		return true;
	}
	while (good && count > 0) {
		good = (line >= 0 || undertaker_start()) && send_some();
	}
	due_ns = now + PAUSE_NS; /* if any are left */
	return good;
}
