/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes that do not stop half-way.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"

static atomic_bool interrupted, reader_gone;

void sgpu_io_interrupt(void)
{
	atomic_store(&interrupted, true);
}

bool sgpu_io_interrupted(void)
{
	return atomic_load(&interrupted);
}

bool sgpu_io_reader_gone(void)
{
	return atomic_load(&reader_gone);
}

void sgpu_io_note_failure(void)
{
	if (errno == EPIPE) {
		atomic_store(&reader_gone, true);
	}
}

/* ---- waits that can be ended ---- */
enum { WAIT_MS = 50 };

static _Thread_local const struct sgpu_io_guard *guard;

void sgpu_io_set_guard(const struct sgpu_io_guard *with)
{
	guard = with;
}

void sgpu_close(int fd)
{
	if (fd >= 0) {
		close(fd);
	}
}

static bool can_block(int fd)
{
	struct stat status;

	return fstat(fd, &status) != 0 || !(S_ISREG(status.st_mode) || S_ISBLK(status.st_mode));
}

/* A signal may be blocked, or arrive just before poll() and not interrupt it, and a guard may end
 * the wait, so it is made of short ones. */
int sgpu_io_wait(int fd, short events, const char *name, struct sgpu_error *error)
{
	const struct sgpu_io_guard *g = guard;
	const bool out = events == POLLOUT, limited = g && g->deadline_ns && g->stall_ns;
	struct pollfd one = { .fd = fd, .events = events };
	const uint64_t stalled = limited ? sgpu_now_ns() + g->stall_ns : UINT64_MAX,
		       end = limited && stalled < g->deadline_ns ? g->deadline_ns : stalled;

	for (;;) {
		const int rc = g ? g->ended(g->argument) : 0;

		if (rc) {
			return sgpu_fail(error, rc, "stopped before '%s' could be %s", name,
					 out ? "written" : "read");
		}
		if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "interrupted");
		}
		if (sgpu_now_ns() >= end) {
			return sgpu_fail(error, SGPU_ETIMEOUT,
					 "the deadline passed before '%s' could be %s", name,
					 out ? "written" : "read");
		}
		const int ready = poll(&one, 1, WAIT_MS);

		if (ready > 0) {
			return 0;
		}
		if (ready < 0 && errno != EINTR) {
			return sgpu_fail_errno(error, "cannot wait for '%s'", name);
		}
	}
}

/* Moves what can be moved without blocking: since poll(), another process may have read from the
 * pipe, and a descriptor that takes one byte may block on more. */
static ssize_t move_ready(int fd, void *data, size_t size, bool out)
{
	const struct iovec part = { .iov_base = data, .iov_len = size };
	ssize_t count = out ? pwritev2(fd, &part, 1, -1, RWF_NOWAIT)
			    : preadv2(fd, &part, 1, -1, RWF_NOWAIT);

	if (count < 0 &&
	    (errno == EOPNOTSUPP || errno == ENOSYS || errno == ESPIPE || errno == EINVAL)) {
		count = out ? write(fd, data, size < PIPE_BUF ? size : PIPE_BUF)
			    : read(fd, data, size);
	}
	return count;
}

/* at: the offset, or NULL for the descriptor's own position. */
static ssize_t move_once(int fd, void *data, size_t size, const off_t *at, bool out, bool waits)
{
	if (at) {
		return out ? pwrite(fd, data, size, *at) : pread(fd, data, size, *at);
	}
	return waits ? move_ready(fd, data, size, out)
	       : out ? write(fd, data, size)
		     : read(fd, data, size);
}

/* Reads or writes until all bytes are moved or the file ends; *done: bytes moved. */
static int move_all(int fd, const char *name, void *data, size_t size, const uint64_t *offset,
		    bool out, size_t *done, struct sgpu_error *error)
{
	bool waits = !offset && size > 0 && (guard || !out) && can_block(fd);

	*done = 0;
	if (offset && (size > INT64_MAX || *offset > INT64_MAX - size)) {
		return sgpu_fail(error, SGPU_EINVALID, "offset is out of range in '%s'", name);
	}
	while (*done < size) {
		const int rc = waits ? sgpu_io_wait(fd, out ? POLLOUT : POLLIN, name, error)
			       : sgpu_io_interrupted()
				       ? sgpu_fail(error, SGPU_ECANCELED, "interrupted")
				       : 0;
		if (rc) {
			return rc;
		}
		const off_t at = offset ? (off_t)(*offset + *done) : 0;
		const ssize_t count = move_once(fd, (char *)data + *done, size - *done,
						offset ? &at : NULL, out, waits);
		if (count > 0) {
			*done += (size_t)count;
		} else if (count == 0 && !out) {
			break;
		} else if (count < 0 && errno == EAGAIN) {
			waits = true; /* perhaps somebody gave us a non-blocking descriptor */
		} else if (count < 0 && errno != EINTR) {
			sgpu_io_note_failure();
			return out ? sgpu_fail_write(error, name)
				   : sgpu_fail_errno(error, "cannot read '%s'", name);
		}
	}
	return 0;
}

int sgpu_read(int fd, const char *name, void *data, size_t size, size_t *got,
	      struct sgpu_error *error)
{
	return move_all(fd, name, data, size, NULL, false, got, error);
}

int sgpu_pread(int fd, const char *name, void *data, size_t size, uint64_t offset, size_t *got,
	       struct sgpu_error *error)
{
	return move_all(fd, name, data, size, &offset, false, got, error);
}

/* move_all reads as well, so it takes data that are not const. */
int sgpu_write(int fd, const char *name, const void *data, size_t size, struct sgpu_error *error)
{
	size_t done;

	return move_all(fd, name, (void *)(uintptr_t)data, size, NULL, true, &done, error);
}

int sgpu_pwrite(int fd, const char *name, const void *data, size_t size, uint64_t offset,
		struct sgpu_error *error)
{
	size_t done;

	return move_all(fd, name, (void *)(uintptr_t)data, size, &offset, true, &done, error);
}

/* The buffer grows as data arrive, whatever size the file states. */
int sgpu_read_fd(int fd, const char *name, size_t limit, char **data, size_t *size,
		 struct sgpu_error *error)
{
	size_t capacity = 64 << 10, used = 0, got;
	char *buffer = malloc(capacity);
	int rc;

	if (!buffer) {
		return sgpu_fail_nomem(error);
	}
	for (;;) {
		/* One byte is kept for the NUL. */
		rc = sgpu_read(fd, name, buffer + used, capacity - 1 - used, &got, error);
		used += got;
		if (!rc && used > limit) {
			rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is longer than %zu bytes", name,
				       limit);
		}
		if (rc || used < capacity - 1) {
			break;
		}
		/* realloc would not wipe the old copy, maybe of a key file. */
		char *larger = malloc(2 * capacity);
		if (!larger) {
			rc = sgpu_fail_nomem(error);
			break;
		}
		memcpy(larger, buffer, used);
		sgpu_free_wiped(&buffer, used);
		buffer = larger;
		capacity *= 2;
	}
	if (rc) {
		sgpu_free_wiped(&buffer, capacity);
		return rc;
	}
	buffer[used] = '\0';
	*data = buffer;
	*size = used;
	return 0;
}

bool sgpu_is_trusted(const struct stat *status)
{
	/* Pipes and the like are accepted, since the user gave them. The group's bits hold the mask
	 * of an access control list. */
	return !S_ISREG(status->st_mode) || ((status->st_uid == geteuid() || status->st_uid == 0) &&
					     !(status->st_mode & (S_IWGRP | S_IWOTH)));
}

int sgpu_check_trusted(int fd, const char *name, const char *what, struct sgpu_error *error)
{
	struct stat status;

	if (fstat(fd, &status)) {
		return sgpu_fail_errno(error, "cannot inspect '%s'", name);
	}
	if (sgpu_is_trusted(&status)) {
		return 0;
	}
	sgpu_fail(error, SGPU_EPOLICY, "others can write to '%s', which %s (user %lu, mode %04o)",
		  name, what, (unsigned long)status.st_uid, (unsigned)status.st_mode & 07777u);
	return sgpu_hint(error, "it has to be a file of your own, or of root, to which nobody else "
				"can write: chmod go-w");
}

int sgpu_read_file(const char *path, const char *trusted, size_t limit, char **data, size_t *size,
		   struct sgpu_error *error)
{
	const bool standard = !strcmp(path, "-");
	const int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	int rc = trusted ? sgpu_check_trusted(fd, path, trusted, error) : 0;
	rc = rc ? rc
		: sgpu_read_fd(fd, standard ? "standard input" : path, limit, data, size, error);
	if (!standard) {
		close(fd);
	}
	return rc;
}
