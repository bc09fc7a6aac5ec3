/* SPDX-License-Identifier: Apache-2.0
 *
 * See wire.h. Every byte that comes in may be hostile, so sizes must be exact, and longer messages
 * are refused.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "wire.h"

#define SECOND UINT64_C(1000000000)
enum { LOOK_MS = 1000 };

const char *const wire_sessions[WIRE_SESSIONS] = { "none", "owners", "any" };

_Static_assert(offsetof(struct sgpu_refusal_of_session, error) ==
		       offsetof(struct wire_answer, error),
	       "what the library knows of an answer");

/* So the kernel has no room for more of them than `received` has. */
_Static_assert(CMSG_SPACE(SGPU_WIRE_FDS_MAX * sizeof(int)) ==
		       CMSG_LEN(SGPU_WIRE_FDS_MAX * sizeof(int)),
	       "no padding behind the descriptors");

static int check_header(const struct sgpu_greeting *header, ssize_t size, struct sgpu_error *error)
{
	if (size < (ssize_t)sizeof(*header) || header->magic != SGPU_GREETING_MAGIC) {
		return sgpu_fail(error, SGPU_EINVALID, "the message is none of this protocol");
	}
	if (header->version != SGPU_GREETING_VERSION) {
		sgpu_fail(error, SGPU_EUNAVAILABLE, "client and server are of different versions");
		return sgpu_hint(error, "a server has to be started again after an update");
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
	const struct sgpu_greeting *header = message;
	struct iovec part = { .iov_base = message, .iov_len = size };
	union {
		struct cmsghdr header; /* for its alignment */
		char data[CMSG_SPACE(SGPU_WIRE_FDS_MAX * sizeof(int))];
	} control;
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.data,
				 .msg_controllen = sizeof(control.data) };
	int received[SGPU_WIRE_FDS_MAX], got = 0, rc;
	ssize_t bytes;

	rc = sgpu_wire_receive(socket, &packet, 0, &bytes);
	if (rc != SGPU_OK) {
		return rc;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&packet); c; c = CMSG_NXTHDR(&packet, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			/* The kernel joins all in one such message. */
			got = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(received, CMSG_DATA(c), (size_t)got * sizeof(int));
		}
	}
	rc = check_header(header, bytes, error);
	if (rc == SGPU_OK &&
	    (kind == WIRE_KINDS ? bytes > (ssize_t)size
				: bytes != (ssize_t)size || header->kind != kind)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "the message is not the one that is expected");
	}
	if (rc == SGPU_OK && got < count && (packet.msg_flags & MSG_CTRUNC)) {
		rc = sgpu_fail(error, SGPU_ERETRY,
			       "the message's descriptors did not all come: too many are open");
	} else if (rc == SGPU_OK && (got > count || (got < count && kind != WIRE_KINDS) ||
				     (packet.msg_flags & MSG_CTRUNC))) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "the message has another number of descriptors than %d", count);
	}
	for (int i = 0; i < got; i++) {
		if (rc == SGPU_OK) {
			fds[i] = received[i];
		} else {
			close(received[i]);
		}
	}
	return rc;
}

/* A text that fits goes in the message: descriptors that a client does not take count for the
 * server's user, who can have no more than so many on their way. */
struct text_message {
	struct sgpu_greeting header;
	char text[96 << 10];
};

bool wire_say(int socket, enum wire_kind kind)
{
	struct sgpu_greeting message;

	return sgpu_wire_send(socket, kind, &message, sizeof(message), NULL, 0);
}

int wire_hear(int socket, enum wire_kind kind, struct sgpu_error *error)
{
	struct sgpu_greeting message;

	return wire_receive(socket, kind, &message, sizeof(message), NULL, 0, error);
}

int wire_say_text(int socket, enum wire_kind kind, const char *text, size_t size,
		  struct sgpu_error *error)
{
	struct text_message message;
	size_t sent = offsetof(struct text_message, text);
	int file = -1, rc = SGPU_OK;

	if (size <= sizeof(message.text)) {
		memcpy(message.text, text, size);
		sent += size;
	} else {
		file = memfd_create("sgpu-run", MFD_CLOEXEC);
		rc = file < 0 ? sgpu_fail_errno(error, "cannot make a memory file")
			      : sgpu_write(file, "a memory file", text, size, error);
	}
	if (rc == SGPU_OK && !sgpu_wire_send(socket, kind, &message, sent, &file, file >= 0)) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "a process of this worker takes no message");
	}
	sgpu_close(file);
	return rc;
}

int wire_hear_text(int socket, enum wire_kind kind, char **text, size_t *size,
		   struct sgpu_error *error)
{
	struct text_message message;
	int file = -1,
	    rc = wire_receive(socket, WIRE_KINDS, &message, sizeof(message), &file, 1, error);

	*text = NULL;
	if (rc == SGPU_OK && message.header.kind != kind) {
		rc = sgpu_fail(error, SGPU_EINVALID, "the message is not the one that is expected");
	} else if (rc == SGPU_OK && file < 0) {
		*size = message.header.size - offsetof(struct text_message, text);
		*text = calloc(1, *size + 1);
		if (*text) {
			memcpy(*text, message.text, *size);
		} else {
			rc = sgpu_fail_nomem(error);
		}
	} else if (rc == SGPU_OK && fcntl(file, F_GET_SEALS) < 0) {
		/* Reading any but a memory file may never return. The kernel knows of seals without
		 * asking a file system. */
		rc = sgpu_fail(error, SGPU_EINVALID, "the text is not in a memory file");
	} else if (rc == SGPU_OK) {
		(void)lseek(file, 0, SEEK_SET);
		rc = sgpu_read_fd(file, "a memory file", WIRE_TEXT_MAX, text, size, error);
	}
	sgpu_close(file);
	return rc;
}

int wire_peek(int socket, enum wire_kind *kind, struct sgpu_error *error)
{
	struct sgpu_greeting header;
	struct iovec part = { .iov_base = &header, .iov_len = sizeof(header) };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t size;
	int rc = sgpu_wire_receive(socket, &packet, MSG_PEEK, &size);

	rc = rc ? rc : check_header(&header, size, error);
	*kind = rc == SGPU_OK ? (enum wire_kind)header.kind : WIRE_KINDS;
	return rc;
}

int wire_fault(int rc, struct sgpu_error *error)
{
	if (rc == SGPU_EINVALID && error) {
		error->code = SGPU_ESYSTEM;
	}
	return rc == SGPU_EINVALID ? SGPU_ESYSTEM : rc;
}

bool wire_is_request(enum wire_kind kind)
{
	return kind == WIRE_LEASE || kind == WIRE_SESSION || kind == WIRE_QUOTE;
}

void wire_answer(int socket, struct wire_answer *answer, const struct sgpu_error *error)
{
	struct sgpu_error *said = &answer->error;

	memset(said, 0, sizeof(*said));
	said->code = error->code;
	said->retryable = error->retryable;
	snprintf(said->text, sizeof(said->text), "%s", error->text);
	snprintf(said->hint, sizeof(said->hint), "%s", error->hint);
	(void)sgpu_wire_send(socket, WIRE_ANSWER, answer, sizeof(*answer), NULL, 0);
}

void wire_refuse(int socket, const struct sgpu_error *error)
{
	struct wire_answer answer;

	memset(&answer, 0, sizeof(answer));
	wire_answer(socket, &answer, error);
}

#define CLEAN(text) clean_text(text, sizeof(text))
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

	CLEAN(answer->error.text);
	CLEAN(answer->error.hint);
	CLEAN(report->batch_id);
	CLEAN(report->manifest_id);
	CLEAN(report->kid);
	CLEAN(report->owner);
	CLEAN(report->aead);
	CLEAN(report->device.name);
	CLEAN(report->device.selector);
	CLEAN(report->device.confidential);
	if (sgpu_error_by_name(sgpu_error_name(answer->error.code)) != answer->error.code) {
		answer->error.code = SGPU_ESYSTEM;
	}
}

/* fstat() and fstatfs() of a FUSE file ask its server, so what the kernel itself knows comes first.
 * Files with seals are in memory. Only root can mount file systems with a device. */
static bool is_memory_or_disk(int fd)
{
	struct statx status;
	struct statfs system;

	if (fcntl(fd, F_GET_SEALS) >= 0) {
		return true;
	}
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
	       S_ISREG(status.stx_mode) && status.stx_dev_major != 0 && fstatfs(fd, &system) == 0 &&
	       (system.f_type == EXT4_SUPER_MAGIC || system.f_type == XFS_SUPER_MAGIC);
}

bool wire_takes(int fd, bool writes)
{
	const int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & (O_PATH | O_DIRECT)) &&
	       ((flags & O_ACCMODE) == O_RDWR ||
		(flags & O_ACCMODE) == (writes ? O_WRONLY : O_RDONLY)) &&
	       !(writes && (flags & O_APPEND)) && is_memory_or_disk(fd);
}

/* ---- questions of a client to a server ---- */
int ask_open(const char *socket, enum wire_kind kind, void *message, size_t size, int *connection,
	     struct sgpu_error *error)
{
	struct sgpu_service_path path;
	int rc = sgpu_service_find(socket, &path, error);

	rc = rc ? rc : sgpu_service_connect(&path, connection, error);
	if (rc == SGPU_OK) {
		/* If the server has refused already and closed, its answer is read next. */
		(void)sgpu_wire_send(*connection, kind, message, size, NULL, 0);
	}
	return rc;
}

int ask_wait(int connection, unsigned patience_s, struct sgpu_error *error)
{
	const uint64_t begin = sgpu_now_ns();
	struct pollfd wait = { .fd = connection, .events = POLLIN };
	enum wire_kind kind;
	int rc = SGPU_ETIMEOUT;

	while (rc == SGPU_ETIMEOUT && sgpu_now_ns() - begin < patience_s * SECOND) {
		if (poll(&wait, 1, LOOK_MS) > 0) {
			rc = wire_fault(wire_peek(connection, &kind, error), error);
		} else if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "stopped");
		}
	}
	if (rc == SGPU_OK && kind == WIRE_ANSWER) {
		return ask_error(connection, error);
	}
	if (rc == SGPU_ETIMEOUT) {
		sgpu_fail(error, SGPU_ESYSTEM, "the server does not answer");
		return sgpu_set_retryable(error);
	}
	if (rc == SGPU_ECANCELED) {
		sgpu_fail(error, SGPU_ESYSTEM, "the server, or its worker, has ended");
		return sgpu_set_retryable(error);
	}
	return rc;
}

int ask_server(const char *socket, enum wire_kind kind, void *message, size_t message_size,
	       enum wire_kind expected, unsigned patience_s, char **text, size_t *size,
	       struct sgpu_error *error)
{
	int connection = -1, rc = ask_open(socket, kind, message, message_size, &connection, error);

	*text = NULL;
	*size = 0;
	rc = rc ? rc : ask_wait(connection, patience_s, error);
	rc = rc ? rc : wire_fault(wire_hear_text(connection, expected, text, size, error), error);
	sgpu_close(connection);
	return rc;
}

int ask_error(int connection, struct sgpu_error *error)
{
	struct wire_answer *answer = calloc(1, sizeof(*answer));
	int rc = answer ? wire_receive(connection, WIRE_ANSWER, answer, sizeof(*answer), NULL, 0,
				       error)
			: sgpu_fail_nomem(error);

	rc = wire_fault(rc, error);
	if (rc == SGPU_OK) {
		wire_clean(answer);
		rc = answer->error.code;
		if (error) {
			*error = answer->error;
		}
		rc = rc < 0 ? rc
			    : sgpu_fail(error, SGPU_ESYSTEM, "the server answers something else");
	}
	free(answer);
	return rc;
}
