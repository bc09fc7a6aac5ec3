/* SPDX-License-Identifier: Apache-2.0
 *
 * See wire.h. Every byte that comes in is hostile: sizes are exact, and what is too much is no
 * message.
 */
#include "base/io.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum { MAGIC = 0x53475055, RECEIVED_FDS = 16 };

union control {
	struct cmsghdr header; /* for its alignment */
	char data[CMSG_SPACE(RECEIVED_FDS * sizeof(int))];
};

bool wire_send(int socket, enum wire_kind kind, void *message, size_t size, const int *fds,
	       int count)
{
	struct wire_header *header = message;
	struct iovec part = { .iov_base = message, .iov_len = size };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
	union control control;
	ssize_t sent;

	*header = (struct wire_header){ .magic = MAGIC,
					.version = WIRE_VERSION,
					.kind = (uint16_t)kind,
					.size = (uint32_t)size };
	if (count > 0) {
		memset(&control, 0, sizeof(control));
		packet.msg_control = control.data;
		packet.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, (size_t)count * sizeof(int));
	}
	do {
		sent = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)size;
}

/* All descriptors of a packet, however many control messages bring them; those beyond `most` are
 * closed. Returns their number. */
static int take_descriptors(struct msghdr *packet, int *fds, int most)
{
	int count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(packet); c; c = CMSG_NXTHDR(packet, c)) {
		const size_t here =
			c->cmsg_len < CMSG_LEN(0) ? 0 : (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0;
		     c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && i < here; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (count < most) {
				fds[count] = fd;
			} else {
				close(fd);
			}
			count++;
		}
	}
	return count;
}

/* The packet, or what came in its place. `flags` are recvmsg's. */
static int receive(int socket, struct msghdr *packet, int flags, ssize_t *size)
{
	bool reset = false;

	for (;;) {
		*size = recvmsg(socket, packet,
				flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
		if (*size > 0) {
			return SGPU_OK;
		}
		if (*size < 0 && errno == ECONNRESET && !reset) {
			reset = true; /* the peer closed before it had read all: what it sent is
					 still there */
			continue;
		}
		if (*size == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)) {
			return SGPU_ECANCELED;
		}
		if (errno != EINTR) {
			return SGPU_ETIMEOUT;
		}
	}
}

static int check_header(const struct wire_header *header, ssize_t size, struct sgpu_error *error)
{
	if (size < (ssize_t)sizeof(*header) || header->magic != MAGIC) {
		return sgpu_fail(error, SGPU_EINVALID, "the message is none of this protocol");
	}
	if (header->version != WIRE_VERSION) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "client and server are of different versions");
	}
	if (header->kind == 0 || header->kind >= WIRE_KINDS || header->size != (size_t)size ||
	    header->zero != 0) {
		return sgpu_fail(error, SGPU_EINVALID, "the message is malformed");
	}
	return SGPU_OK;
}

int wire_receive(int socket, enum wire_kind kind, void *message, size_t size, int *fds, int count,
		 struct sgpu_error *error)
{
	const struct wire_header *header = message;
	struct iovec part = { .iov_base = message, .iov_len = size };
	union control control;
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.data,
				 .msg_controllen = sizeof(control.data) };
	int received[RECEIVED_FDS], got, rc;
	ssize_t bytes;

	rc = receive(socket, &packet, 0, &bytes);
	if (rc != SGPU_OK) {
		return rc;
	}
	got = take_descriptors(&packet, received, RECEIVED_FDS);
	rc = check_header(header, bytes, error);
	if (rc == SGPU_OK && (bytes != (ssize_t)size || header->kind != kind)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "the message is not the one that is expected");
	}
	if (rc == SGPU_OK && (got != count || (packet.msg_flags & MSG_CTRUNC))) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "the message has another number of descriptors than %d", count);
	}
	for (int i = 0; i < got && i < RECEIVED_FDS; i++) {
		if (rc == SGPU_OK) {
			fds[i] = received[i];
		} else {
			close(received[i]);
		}
	}
	return rc;
}

bool wire_say(int socket, enum wire_kind kind, int fd)
{
	struct wire_plain message;

	return wire_send(socket, kind, &message, sizeof(message), &fd, fd >= 0);
}

int wire_hear(int socket, enum wire_kind kind, int *fd, struct sgpu_error *error)
{
	struct wire_plain message;

	return wire_receive(socket, kind, &message, sizeof(message), fd, fd != NULL, error);
}

int wire_read_text(int fd, const char *name, char *text, size_t most, size_t *size,
		   struct sgpu_error *error)
{
	*size = 0;
	/* The kernel tells by itself whether a file has seals. */
	if (fcntl(fd, F_GET_SEALS) < 0) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is not in a memory file", name);
	}
	return sgpu_pread(fd, name, text, most, 0, size, error);
}

int wire_peek(int socket, enum wire_kind *kind, struct sgpu_error *error)
{
	struct wire_header header;
	struct iovec part = { .iov_base = &header, .iov_len = sizeof(header) };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t size;
	int rc = receive(socket, &packet, MSG_PEEK, &size);

	if (rc == SGPU_OK) {
		rc = check_header(&header, size, error);
	}
	*kind = rc == SGPU_OK ? (enum wire_kind)header.kind : WIRE_KINDS;
	return rc;
}

bool wire_is_request(enum wire_kind kind)
{
	return kind == WIRE_LEASE || kind == WIRE_SESSION || kind == WIRE_QUOTE;
}

void wire_refuse(int socket, const struct sgpu_error *error)
{
	struct wire_answer answer;

	memset(&answer, 0, sizeof(answer));
	answer.error = *error;
	wire_send(socket, WIRE_ANSWER, &answer, sizeof(answer), NULL, 0);
}

/* What comes from another process is made fit to be printed. */
static void clean_text(char *text, size_t size)
{
	char copy[SGPU_ERROR_TEXT_MAX];

	size = size < sizeof(copy) ? size : sizeof(copy);
	memcpy(copy, text, size);
	sgpu_escape(copy, strnlen(copy, size - 1), text, size, true);
}

void wire_clean(struct wire_answer *answer)
{
	struct report *report = &answer->report;

	clean_text(answer->error.text, sizeof(answer->error.text));
	clean_text(answer->error.hint, sizeof(answer->error.hint));
	clean_text(report->batch_id, sizeof(report->batch_id));
	clean_text(report->manifest_id, sizeof(report->manifest_id));
	clean_text(report->kid, sizeof(report->kid));
	clean_text(report->owner, sizeof(report->owner));
	clean_text(report->aead, sizeof(report->aead));
	clean_text(report->device.name, sizeof(report->device.name));
	clean_text(report->device.selector, sizeof(report->device.selector));
	clean_text(report->device.confidential, sizeof(report->device.confidential));
	if (answer->error.code > SGPU_OK || answer->error.code < SGPU_EREFUSED) {
		answer->error.code = SGPU_ESYSTEM;
	}
}

/* ---- descriptors of batches and responses ---- */
/* Even fstat and fstatfs ask the server behind a FUSE file. So a file is first told by what the
 * kernel knows by itself. No file system without a device but tmpfs has seals. One with a device is
 * root's to mount. */
static bool is_memory_or_disk(int fd)
{
	struct statx status;
	struct statfs system;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0 ||
	    !S_ISREG(status.stx_mode)) {
		return false;
	}
	if (fcntl(fd, F_GET_SEALS) >= 0) {
		return true;
	}
	return status.stx_dev_major != 0 && fstatfs(fd, &system) == 0 &&
	       (system.f_type == EXT4_SUPER_MAGIC || system.f_type == XFS_SUPER_MAGIC);
}

static bool has_mode(int fd, bool writes)
{
	const int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & (O_PATH | O_DIRECT)) &&
	       ((flags & O_ACCMODE) == O_RDWR ||
		(flags & O_ACCMODE) == (writes ? O_WRONLY : O_RDONLY)) &&
	       !(writes && (flags & O_APPEND));
}

bool wire_takes_batch(int fd)
{
	return has_mode(fd, false) && is_memory_or_disk(fd);
}

bool wire_takes_response(int fd)
{
	return has_mode(fd, true) && is_memory_or_disk(fd);
}
