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
	sgpu_io_note_failure();
	return sgpu_fail_errno(error, "cannot %s '%s'", what, name);
}

/* The kernel moves at most this much in one call. */
static size_t piece(size_t size)
{
	return size < ((size_t)1 << 30) ? size : (size_t)1 << 30;
}

/* No offset: at the descriptor's own position. */
enum { AT_POSITION = -1 };

static ssize_t move_once(int fd, void *data, size_t size, int64_t offset, bool out)
{
	if (offset == AT_POSITION) {
		return out ? write(fd, data, size) : read(fd, data, size);
	}
	return out ? pwrite(fd, data, size, (off_t)offset) : pread(fd, data, size, (off_t)offset);
}

/* Reads or writes until all is done or, when reading, the file ends; *done says how far it came. */
static int move_all(int fd, const char *name, void *data, size_t size, int64_t offset, bool out, size_t *done,
		    struct sgpu_error *error)
{
	*done = 0;
	while (*done < size) {
		if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "interrupted");
		}
		ssize_t count = move_once(fd, (char *)data + *done, piece(size - *done),
					  offset == AT_POSITION ? offset : offset + (int64_t)*done, out);
		if (count < 0) {
			int code = after_failure(fd, out ? POLLOUT : POLLIN, out ? "write" : "read", name, error);
			if (code) {
				return code;
			}
		} else if (count == 0 && !out) {
			break;
		} else {
			*done += (size_t)count;
		}
	}
	return 0;
}

static int check_offset(const char *name, size_t size, uint64_t offset, struct sgpu_error *error)
{
	return size <= INT64_MAX && offset <= INT64_MAX - size ? 0 :
		sgpu_fail(error, SGPU_EINVALID, "offset is out of range in '%s'", name);
}

int sgpu_read(int fd, const char *name, void *data, size_t size, size_t *got, struct sgpu_error *error)
{
	return move_all(fd, name, data, size, AT_POSITION, false, got, error);
}

int sgpu_pread(int fd, const char *name, void *data, size_t size, uint64_t offset, size_t *got,
	       struct sgpu_error *error)
{
	*got = 0;
	int code = check_offset(name, size, offset, error);
	return code ? code : move_all(fd, name, data, size, (int64_t)offset, false, got, error);
}

/* The data are only read: the loop is shared with reading, which is why it takes them as they are. */
int sgpu_write(int fd, const char *name, const void *data, size_t size, struct sgpu_error *error)
{
	size_t done;

	return move_all(fd, name, (void *)(uintptr_t)data, size, AT_POSITION, true, &done, error);
}

int sgpu_pwrite(int fd, const char *name, const void *data, size_t size, uint64_t offset, struct sgpu_error *error)
{
	size_t done;
	int code = check_offset(name, size, offset, error);

	return code ? code : move_all(fd, name, (void *)(uintptr_t)data, size, (int64_t)offset, true, &done, error);
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
