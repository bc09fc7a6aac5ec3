/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole reads and writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/io.h>

static atomic_bool interrupted;

void sgpu_io_interrupt(void)
{
	atomic_store(&interrupted, true);
}

bool sgpu_io_interrupted(void)
{
	return atomic_load(&interrupted);
}

/* What to do after a call that returned -1: 0 to try again. */
static int after_failure(int fd, short events, const char *what, const char *name, struct sgpu_error *error)
{
	if (errno == EINTR) {
		return sgpu_io_interrupted() ? sgpu_fail(error, SGPU_ECANCELED, "interrupted") : 0;
	}
	if (errno == EAGAIN || errno == EWOULDBLOCK) {
		/* Somebody gave us a non-blocking descriptor: wait as a blocking one would. */
		struct pollfd wait = { .fd = fd, .events = events };
		if (poll(&wait, 1, -1) >= 0 || errno == EINTR) {
			return sgpu_io_interrupted() ? sgpu_fail(error, SGPU_ECANCELED, "interrupted") : 0;
		}
	}
	return sgpu_fail_errno(error, "cannot %s '%s'", what, name);
}

/* The kernel moves at most this much in one call. */
static size_t piece(size_t size)
{
	return size < ((size_t)1 << 30) ? size : (size_t)1 << 30;
}

int sgpu_read(int fd, const char *name, void *data, size_t size, size_t *got, struct sgpu_error *error)
{
	size_t done = 0;

	*got = 0;
	while (done < size) {
		if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "interrupted");
		}
		ssize_t count = read(fd, (char *)data + done, piece(size - done));
		if (count == 0) {
			break;
		}
		if (count < 0) {
			int code = after_failure(fd, POLLIN, "read", name, error);
			if (code) {
				return code;
			}
			continue;
		}
		done += (size_t)count;
		*got = done;
	}
	return 0;
}

int sgpu_pread(int fd, const char *name, void *data, size_t size, uint64_t offset, size_t *got,
	       struct sgpu_error *error)
{
	size_t done = 0;

	*got = 0;
	while (done < size) {
		if (offset > INT64_MAX - size) {
			return sgpu_fail(error, SGPU_EINVALID, "offset is out of range in '%s'", name);
		}
		ssize_t count = pread(fd, (char *)data + done, piece(size - done), (off_t)(offset + done));
		if (count == 0) {
			break;
		}
		if (count < 0) {
			int code = after_failure(fd, POLLIN, "read", name, error);
			if (code) {
				return code;
			}
			continue;
		}
		done += (size_t)count;
		*got = done;
	}
	return 0;
}

int sgpu_write(int fd, const char *name, const void *data, size_t size, struct sgpu_error *error)
{
	size_t done = 0;

	while (done < size) {
		if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "interrupted");
		}
		ssize_t count = write(fd, (const char *)data + done, piece(size - done));
		if (count < 0) {
			int code = after_failure(fd, POLLOUT, "write", name, error);
			if (code) {
				return code;
			}
			continue;
		}
		done += (size_t)count;
	}
	return 0;
}

int sgpu_pwrite(int fd, const char *name, const void *data, size_t size, uint64_t offset, struct sgpu_error *error)
{
	size_t done = 0;

	while (done < size) {
		if (offset > INT64_MAX - size) {
			return sgpu_fail(error, SGPU_EINVALID, "offset is out of range in '%s'", name);
		}
		ssize_t count = pwrite(fd, (const char *)data + done, piece(size - done), (off_t)(offset + done));
		if (count < 0) {
			int code = after_failure(fd, POLLOUT, "write", name, error);
			if (code) {
				return code;
			}
			continue;
		}
		done += (size_t)count;
	}
	return 0;
}

/* Grows as data arrive, whatever the file claims to hold. */
int sgpu_read_fd(int fd, const char *name, size_t limit, char **data, size_t *size, struct sgpu_error *error)
{
	size_t capacity = 64 << 10, used = 0, got;
	char *buffer = malloc(capacity);
	int code = SGPU_ENOMEM;

	if (!buffer) {
		return sgpu_fail_nomem(error);
	}
	for (;;) {
		/* One byte is kept for the NUL. */
		code = sgpu_read(fd, name, buffer + used, capacity - 1 - used, &got, error);
		if (code) {
			goto fail;
		}
		used += got;
		if (used > limit) {
			code = sgpu_fail(error, SGPU_EINVALID, "'%s' is longer than %zu bytes", name, limit);
			goto fail;
		}
		if (used < capacity - 1) {
			break;
		}
		/* A fresh copy instead of realloc, so that the old one can be wiped: it may be a key file. */
		char *larger = malloc(2 * capacity);
		if (!larger) {
			code = sgpu_fail_nomem(error);
			goto fail;
		}
		memcpy(larger, buffer, used);
		explicit_bzero(buffer, used);
		free(buffer);
		buffer = larger;
		capacity *= 2;
	}
	buffer[used] = '\0';
	*data = buffer;
	*size = used;
	return 0;
fail:
	explicit_bzero(buffer, capacity);
	free(buffer);
	return code;
}

int sgpu_read_file(const char *path, size_t limit, char **data, size_t *size, struct sgpu_error *error)
{
	if (!strcmp(path, "-")) {
		return sgpu_read_fd(STDIN_FILENO, "standard input", limit, data, size, error);
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	int code = sgpu_read_fd(fd, path, limit, data, size, error);
	close(fd);
	return code;
}

bool sgpu_same_file(int a, int b)
{
	struct stat first, second;

	return fstat(a, &first) == 0 && fstat(b, &second) == 0 && S_ISREG(first.st_mode) &&
	       first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}
