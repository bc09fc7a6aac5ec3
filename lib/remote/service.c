/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds `sgpu-serve`, connects to it, and sends and receives packets.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "remote/greeting.h"

enum { CONNECT_S = 5 };

static const char default_name[] = "sgpu/run.sock";

int sgpu_service_find(const char *given, struct sgpu_service_path *path, struct sgpu_error *error)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"),
		   *named = given ? given : getenv("SGPU_SOCKET");
	int length = 0;

	memset(path, 0, sizeof(*path));
	path->named = named && *named;
	if (path->named) {
		length = snprintf(path->text, sizeof(path->text), "%s", named);
	} else if (runtime && runtime[0] == '/') {
		length = snprintf(path->text, sizeof(path->text), "%s/%s", runtime, default_name);
	} else if (geteuid() == 0) {
		length = snprintf(path->text, sizeof(path->text), "/run/%s", default_name);
	}
	if (length >= (int)sizeof(path->text)) {
		if (path->named) {
			return sgpu_fail(error, SGPU_EUSAGE,
					 "the path of a socket has at most %d bytes, '%s' has more",
					 (int)sizeof(path->text) - 1, named);
		}
		path->text[0] = '\0'; /* no socket has such a long path */
	}
	return SGPU_OK;
}

int sgpu_service_reach(const char *path)
{
	const struct timeval patience = { .tv_sec = CONNECT_S };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int rc, saved;

	if (fd < 0) {
		return -1;
	}
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	do {
		rc = connect(fd, (struct sockaddr *)&address, sizeof(address));
	} while (rc != 0 && errno == EINTR);
	if (rc == 0) {
		return fd;
	}
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int sgpu_service_connect(const struct sgpu_service_path *path, int *fd, struct sgpu_error *error)
{
	*fd = -1;
	if (!path->text[0]) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "neither SGPU_SOCKET nor XDG_RUNTIME_DIR says where a server is");
		return sgpu_hint(error, "set SGPU_SOCKET to the path of its socket");
	}
	*fd = sgpu_service_reach(path->text);
	if (*fd >= 0) {
		return SGPU_OK;
	}
	if (errno == ENOENT || errno == ENOTDIR) {
		sgpu_fail(error, SGPU_EUNAVAILABLE, "there is no server at '%s'", path->text);
		(void)sgpu_set_retryable(error);
		return SGPU_EUNAVAILABLE;
	}
	if (errno == ECONNREFUSED || errno == EAGAIN) {
		sgpu_fail(error, SGPU_ESYSTEM,
			  errno == EAGAIN ? "the server at '%s' does not answer"
					  : "the server at '%s' has gone",
			  path->text);
		(void)sgpu_set_retryable(error);
	} else {
		sgpu_fail_errno(error, "cannot connect to '%s'", path->text);
	}
	return SGPU_ESYSTEM;
}

/* ---- packets ---- */
bool sgpu_wire_send(int socket, int kind, void *message, size_t size, const int *fds, int count)
{
	*(struct sgpu_greeting *)message = (struct sgpu_greeting){ .magic = SGPU_GREETING_MAGIC,
								   .version = SGPU_GREETING_VERSION,
								   .kind = (uint16_t)kind,
								   .size = (uint32_t)size };
	return sgpu_send_descriptors(socket, message, size, fds, count, MSG_DONTWAIT);
}

int sgpu_wire_receive(int socket, struct msghdr *packet, int flags, ssize_t *size)
{
	bool reset = false;

	for (;;) {
		*size = recvmsg(socket, packet,
				flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
		if (*size > 0) {
			return SGPU_OK;
		}
		if (*size < 0 && errno == ECONNRESET && !reset) {
			reset = true; /* the peer closed; its packets can still be read */
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
