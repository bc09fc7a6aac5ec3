/* SPDX-License-Identifier: Apache-2.0
 *
 * The watcher: sees the deadline and a cancellation while everybody else may block, and relays a batch that comes
 * through a pipe, so that its reader never waits for a sender that went silent: the relay closes, and the reader
 * sees an end.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/run.h"

enum { RELAY_PIECE = 1 << 20, COPY_PIECE = 65536 };

static void close_relay(struct sgpu_watch *watch)
{
	if (watch->relay_fd >= 0) {
		close(watch->relay_fd);
		watch->relay_fd = -1;
	}
}

static void drain_wake(struct sgpu_watch *watch)
{
	uint64_t count;

	if (read(watch->run->wake_fd, &count, sizeof(count)) < 0) {
		return; /* nothing was there: fine */
	}
}

/* What one read gave: the relay's state follows from it. Returns whether to go on relaying. */
static bool moved(struct sgpu_watch *watch, ssize_t got)
{
	if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) {
		return true;
	}
	if (got < 0 && errno != EPIPE) {
		watch->error_number = errno;
	}
	close_relay(watch);
	return false;
}

/* Milliseconds until the deadline, rounded up; -1 when there is none or it was seen. */
static int time_left(struct sgpu_watch *watch)
{
	uint64_t deadline = watch->run->options.deadline_ns, now = sgpu_now_ns();

	if (deadline == 0 || atomic_load(&watch->run->stop)) {
		return -1;
	}
	if (now >= deadline) {
		return 0;
	}
	deadline = (deadline - now) / 1000000 + 1;
	return deadline > 3600000 ? 3600000 : (int)deadline;
}

/* Copies what is there; the pipe's end does not block, so a full one is waited for in the next round. */
static void copy_some(struct sgpu_watch *watch)
{
	char data[COPY_PIECE];
	ssize_t got = read(watch->in_fd, data, sizeof(data));

	if (!moved(watch, got) || got < 0) {
		return;
	}
	for (ssize_t at = 0; at < got;) {
		struct pollfd room[2] = { { .fd = watch->relay_fd, .events = POLLOUT },
					  { .fd = watch->run->wake_fd, .events = POLLIN } };
		ssize_t put = write(watch->relay_fd, data + at, (size_t)(got - at));

		if (put > 0) {
			at += put;
		} else if (errno != EAGAIN && errno != EINTR) {
			close_relay(watch);
			return;
		} else if (atomic_load(&watch->run->stop) || atomic_load(&watch->end) ||
			   atomic_load(&watch->run->cancel)) {
			close_relay(watch);
			return;
		} else if (time_left(watch) == 0) {
			return; /* the next round says so, and closes the relay */
		} else if (poll(room, 2, 100) < 0 && errno != EINTR) {
			close_relay(watch);
			return;
		}
	}
}

static void relay_some(struct sgpu_watch *watch)
{
	ssize_t got;

	if (watch->copies) {
		copy_some(watch);
		return;
	}
	got = splice(watch->in_fd, NULL, watch->relay_fd, NULL, RELAY_PIECE, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	if (got < 0 && (errno == EINVAL || errno == ENOSYS)) {
		watch->copies = true;
		return;
	}
	moved(watch, got);
}

/* Waits for one thing after the other: first for data, then, with `full`, for room. */
static void watch_round(struct sgpu_watch *watch, bool *full)
{
	struct pollfd fds[2] = { { .fd = watch->run->wake_fd, .events = POLLIN }, { .fd = -1 } };
	int left = time_left(watch);

	if (left == 0) {
		sgpu_run_stop(watch->run, SGPU_ETIMEOUT);
		close_relay(watch);
		return;
	}
	if (watch->relay_fd >= 0) {
		fds[1].fd = *full ? watch->relay_fd : watch->in_fd;
		fds[1].events = *full ? POLLOUT : POLLIN;
	}
	if (poll(fds, 2, left) < 0) {
		return;
	}
	if (fds[0].revents) {
		drain_wake(watch);
	}
	if (atomic_load(&watch->run->cancel)) {
		sgpu_run_stop(watch->run, SGPU_ECANCELED);
	}
	if (atomic_load(&watch->run->stop)) {
		close_relay(watch);
		return;
	}
	if (fds[1].revents && *full && !(fds[1].revents & POLLOUT)) {
		close_relay(watch); /* the reader has gone */
	} else if (fds[1].revents && *full) {
		relay_some(watch);
		*full = false;
	} else if (fds[1].revents) {
		*full = true;
	}
}

static void *watch_thread(void *argument)
{
	struct sgpu_watch *watch = argument;
	bool full = false;

	while (!atomic_load(&watch->end)) {
		watch_round(watch, &full);
	}
	close_relay(watch);
	return NULL;
}

static int make_relay(struct sgpu_watch *watch, int in_fd, int *fd, struct sgpu_error *error)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0) {
		return sgpu_fail_errno(error, "cannot make a pipe");
	}
	if (fcntl(ends[1], F_SETPIPE_SZ, RELAY_PIECE) < 0) {
		errno = 0; /* a smaller pipe is only slower */
	}
	if (fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0) {
		int rc = sgpu_fail_errno(error, "cannot set up a pipe");

		close(ends[0]);
		close(ends[1]);
		return rc;
	}
	watch->in_fd = in_fd;
	watch->relay_fd = ends[1];
	*fd = ends[0];
	return SGPU_OK;
}

int sgpu_watch_start(struct sgpu_watch *watch, struct sgpu_run *run, int in_fd, int *fd, struct sgpu_error *error)
{
	sigset_t all, old;
	struct stat status;
	int rc = SGPU_OK;

	*watch = (struct sgpu_watch){ .run = run, .in_fd = -1, .relay_fd = -1 };
	*fd = in_fd;
	if (fstat(in_fd, &status) < 0 || !S_ISREG(status.st_mode)) {
		rc = make_relay(watch, in_fd, fd, error);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = pthread_create(&watch->thread, NULL, watch_thread, watch);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (errno != 0) {
		rc = sgpu_fail_errno(error, "cannot start a thread");
		close_relay(watch);
		if (*fd != in_fd) {
			close(*fd);
			*fd = -1;
		}
		return rc;
	}
	watch->started = true;
	return SGPU_OK;
}

void sgpu_watch_end(struct sgpu_watch *watch)
{
	uint64_t one = 1;

	if (!watch->started) {
		return;
	}
	atomic_store(&watch->end, true);
	if (write(watch->run->wake_fd, &one, sizeof(one)) < 0) {
		errno = 0; /* the counter is full: then it wakes as well */
	}
	pthread_join(watch->thread, NULL);
	watch->started = false;
}
