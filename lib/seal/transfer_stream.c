/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes on streams that can be given up. A worker's thread blocks signals, so it must not block in the
 * kernel: it waits in poll with a limit, and looks whether its work is still wanted.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/io.h>

#include "seal/transfer.h"

enum { WAIT_MS = 50, PIPE_SIZE = 1 << 20 };

/* Fewer switches between the processes; it does not matter when it is refused. */
static void enlarge_pipe(int fd)
{
	int size = fcntl(fd, F_GETPIPE_SZ);

	if (size >= 0 && size < PIPE_SIZE) {
		(void)fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE);
	}
}

static bool is_pipe(const struct sgpu_seal_end *end)
{
	struct stat status;

	return !end->positioned && fstat(end->fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

void sgpu_transfer_open_streams(struct sgpu_transfer *transfer)
{
	char path[64];

	transfer->pipe_out = -1;
	if (is_pipe(&transfer->in)) {
		enlarge_pipe(transfer->in.fd);
	}
	if (is_pipe(&transfer->out)) {
		enlarge_pipe(transfer->out.fd);
		/* O_NONBLOCK on the descriptor that we were given would be seen by all who share it. */
		snprintf(path, sizeof(path), "/proc/self/fd/%d", transfer->out.fd);
		transfer->pipe_out = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	}
}

void sgpu_transfer_close_streams(struct sgpu_transfer *transfer)
{
	if (transfer->pipe_out >= 0) {
		close(transfer->pipe_out);
		transfer->pipe_out = -1;
	}
}

/* Until fd is ready (or broken, which the call that follows will tell), or the group is moot. */
static int wait_for(struct sgpu_transfer *transfer, uint64_t group, int fd, short events, struct sgpu_error *error)
{
	struct pollfd wait = { .fd = fd, .events = events };

	for (;;) {
		int ready = poll(&wait, 1, WAIT_MS);
		if (ready > 0 || (ready < 0 && errno != EINTR && errno != EAGAIN)) {
			return 0;
		}
		if (sgpu_transfer_moot(transfer, group)) {
			return sgpu_fail(error, SGPU_ECANCELED, "interrupted");
		}
	}
}

int sgpu_transfer_read(struct sgpu_transfer_worker *worker, uint64_t group, size_t size, size_t *got,
		       struct sgpu_error *error)
{
	const struct sgpu_seal_end *in = &worker->transfer->in;

	if (!worker->own_thread) {
		return sgpu_read(in->fd, in->name, worker->in, size, got, error);
	}
	for (*got = 0; *got < size;) {
		int code = wait_for(worker->transfer, group, in->fd, POLLIN, error);
		if (code) {
			return code;
		}
		ssize_t count = read(in->fd, worker->in + *got, size - *got);
		if (count == 0) {
			break;
		}
		if (count > 0) {
			*got += (size_t)count;
		} else if (errno != EINTR && errno != EAGAIN) {
			return sgpu_fail_errno(error, "cannot read '%s'", in->name);
		}
	}
	return 0;
}

/* One write that does not block once poll has said that there is room. */
static ssize_t write_some(const struct sgpu_transfer *transfer, const uint8_t *data, size_t size, bool is_socket)
{
	if (is_socket) {
		return send(transfer->out.fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	if (transfer->pipe_out >= 0) {
		return write(transfer->pipe_out, data, size);
	}
	/* A pipe that poll calls writable has room for this much. */
	return write(transfer->out.fd, data, size < PIPE_BUF ? size : PIPE_BUF);
}

int sgpu_transfer_write(struct sgpu_transfer_worker *worker, uint64_t group, size_t size, struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = worker->transfer;
	const struct sgpu_seal_end *out = &transfer->out;
	struct stat status;

	bool known = fstat(out->fd, &status) == 0;
	bool is_socket = known && S_ISSOCK(status.st_mode);
	/* Files and devices do not wait for another process. */
	if (!worker->own_thread || (known && !is_socket && !S_ISFIFO(status.st_mode))) {
		return sgpu_write(out->fd, out->name, worker->out, size, error);
	}
	for (size_t done = 0; done < size;) {
		int code = wait_for(transfer, group, out->fd, POLLOUT, error);
		if (code) {
			return code;
		}
		ssize_t count = write_some(transfer, worker->out + done, size - done, is_socket);
		if (count >= 0) {
			done += (size_t)count;
		} else if (errno != EINTR && errno != EAGAIN) {
			sgpu_io_note_failure();
			return sgpu_fail_errno(error, "cannot write '%s'", out->name);
		}
	}
	return 0;
}
