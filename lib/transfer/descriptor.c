/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors as sources and sinks. A worker's thread blocks signals, so it must not block in the
 * kernel for another process.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "transfer/transfer.h"

enum { PIPE_SIZE = 1 << 20, PAGE = 4096 };

/* Whether the size says nothing, as in /proc and /sys, which have no blocks. Neither has a tmpfs
 * without a limit. */
static bool is_made_on_reading(int fd)
{
	struct statfs system;

	return fstatfs(fd, &system) != 0 || (system.f_blocks == 0 && system.f_type != TMPFS_MAGIC);
}

void sgpu_descriptor_from_fd(int fd, const char *name, struct sgpu_descriptor *descriptor)
{
	struct stat status;
	int flags = fcntl(fd, F_GETFL);
	off_t position = lseek(fd, 0, SEEK_CUR);
	bool known = fstat(fd, &status) == 0;
	bool reads = (flags & O_ACCMODE) == O_RDONLY;

	*descriptor = (struct sgpu_descriptor){ .fd = fd, .name = name, .pipe = -1 };
	descriptor->is_socket = known && S_ISSOCK(status.st_mode);
	/* Writes to files and devices wait for no other process. */
	descriptor->waits = !known || descriptor->is_socket || S_ISFIFO(status.st_mode);
	if (known && S_ISFIFO(status.st_mode)) {
		/* A larger pipe saves switches between processes. A refusal is harmless. */
		int size = fcntl(fd, F_GETPIPE_SZ);
		if (size >= 0 && size < PIPE_SIZE) {
			(void)fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE);
		}
	}
	/* With O_APPEND the kernel appends, whatever a write's offset. */
	descriptor->positioned = flags >= 0 && position >= 0 && known && S_ISREG(status.st_mode) &&
				 (reads || !(flags & O_APPEND)) && !is_made_on_reading(fd);
	descriptor->offset = descriptor->positioned ? (uint64_t)position : 0;
}

void sgpu_descriptor_close(struct sgpu_descriptor *descriptor)
{
	if (descriptor->pipe >= 0) {
		close(descriptor->pipe);
		descriptor->pipe = -1;
	}
}

static int read_some(void *context, uint64_t position, void *data, size_t size, size_t *got,
		     struct sgpu_error *error)
{
	const struct sgpu_descriptor *in = context;

	return in->positioned
		       ? sgpu_pread(in->fd, in->name, data, size, in->offset + position, got, error)
		       : sgpu_read(in->fd, in->name, data, size, got, error);
}

static bool is_all_zero(const uint8_t *data, size_t size)
{
	return data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

static int write_sparse(const struct sgpu_descriptor *out, const uint8_t *data, size_t size,
			uint64_t offset, struct sgpu_error *error)
{
	size_t begin = 0, at = 0;

	while (at < size) {
		size_t part = PAGE - (size_t)((offset + at) % PAGE);
		part = part < size - at ? part : size - at;
		if (is_all_zero(data + at, part)) {
			int rc = at > begin ? sgpu_pwrite(out->fd, out->name, data + begin,
							  at - begin, offset + begin, error)
					    : 0;
			if (rc) {
				return rc;
			}
			begin = at + part;
		}
		at += part;
	}
	return at > begin ? sgpu_pwrite(out->fd, out->name, data + begin, at - begin,
					offset + begin, error)
			  : 0;
}

/* Writes once, without blocking, after poll has said that there is room. */
static ssize_t write_once(struct sgpu_descriptor *out, const void *data, size_t size)
{
	if (out->is_socket) {
		return send(out->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	if (out->pipe < 0) {
		/* O_NONBLOCK on out->fd would affect every process that shares it, so open anew. */
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", out->fd);
		out->pipe = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	}
	if (out->pipe >= 0) {
		return write(out->pipe, data, size);
	}
	/* If poll says that a pipe is writable, it has room for PIPE_BUF bytes. */
	return write(out->fd, data, size < PIPE_BUF ? size : PIPE_BUF);
}

static int write_all(void *context, uint64_t position, const void *data, size_t size,
		     struct sgpu_error *error)
{
	struct sgpu_descriptor *out = context;

	if (out->positioned) {
		return out->sparse ? write_sparse(out, data, size, out->offset + position, error)
				   : sgpu_pwrite(out->fd, out->name, data, size,
						 out->offset + position, error);
	}
	if (!out->waits) {
		return sgpu_write(out->fd, out->name, data, size, error);
	}
	for (size_t done = 0; done < size;) {
		int rc = sgpu_io_wait(out->fd, POLLOUT, out->name, error);
		if (rc) {
			return rc;
		}
		ssize_t count = write_once(out, (const char *)data + done, size - done);
		if (count >= 0) {
			done += (size_t)count;
		} else if (errno != EINTR && errno != EAGAIN) {
			sgpu_io_note_failure();
			return sgpu_fail_write(error, out->name);
		}
	}
	return 0;
}

struct sgpu_endpoint sgpu_endpoint_of(struct sgpu_descriptor *descriptor)
{
	return (struct sgpu_endpoint){ .read_some = read_some,
				       .write = write_all,
				       .ordered = !descriptor->positioned,
				       .context = descriptor };
}

/* ---- one file or pipe: its size, and the checks before and after ---- */
/* The bytes from the offset of a positioned input to its end. */
static int rest_of_file(const struct sgpu_descriptor *in, uint64_t *size, struct sgpu_error *error)
{
	struct stat status;

	if (fstat(in->fd, &status)) {
		return sgpu_fail_errno(error, "cannot read '%s'", in->name);
	}
	*size = (uint64_t)status.st_size > in->offset ? (uint64_t)status.st_size - in->offset : 0;
	return 0;
}

int sgpu_host_move_file(struct sgpu_host_move *move, struct sgpu_descriptor *in,
			struct sgpu_descriptor *out, struct sgpu_error *error)
{
	struct sgpu_host_part *part = move->parts;
	struct stat status;
	uint64_t now = 0;
	const bool to_end = part->size == SGPU_SIZE_UNKNOWN && in->positioned;
	int rc = to_end ? rest_of_file(in, &part->size, error) : 0;

	part->name = in->name;
	part->source = sgpu_endpoint_of(in);
	part->sink = sgpu_endpoint_of(out);
	rc = rc ? rc : sgpu_host_move(move, error);
	sgpu_descriptor_close(out);
	rc = !rc && to_end ? rest_of_file(in, &now, error) : rc;
	if (!rc && to_end && now != part->size) {
		sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read", in->name);
		rc = sgpu_hint(error, "use a copy of it, or read it through a pipe");
	}
	/* A sparse output that ends with a hole is too short. */
	if (!rc && out->sparse && out->positioned &&
	    (fstat(out->fd, &status) ||
	     ((uint64_t)status.st_size < out->offset + part->bytes_out &&
	      ftruncate(out->fd, (off_t)(out->offset + part->bytes_out))))) {
		rc = sgpu_fail_write(error, out->name);
	}
	if (!rc) {
		in->offset += in->positioned ? part->bytes_in : 0;
		out->offset += out->positioned ? part->bytes_out : 0;
	}
	return rc;
}
