/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of a fixed size, with a descriptor, for both sides of module_wire.h.
 */
#ifndef SGPU_DEVICE_CPU_MODULE_MESSAGE_H
#define SGPU_DEVICE_CPU_MODULE_MESSAGE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union sgpu_host_ancillary {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(int))];
};

/* One message with at most one descriptor; -1: none. */
static inline bool sgpu_host_send(int socket, const void *data, size_t size, int fd)
{
	struct iovec part = { (void *)(uintptr_t)data, size };
	union sgpu_host_ancillary ancillary;
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t sent;

	if (fd >= 0) {
		memset(&ancillary, 0, sizeof(ancillary));
		ancillary.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(fd)),
						   .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&ancillary.head), &fd, sizeof(fd));
		message.msg_control = &ancillary;
		message.msg_controllen = sizeof(ancillary);
	}
	do {
		sent = sendmsg(socket, &message, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)size;
}

/* False: it has another size, or the other end is closed. `fd` may be NULL: descriptors that come
 * are dropped then. */
static inline bool sgpu_host_receive(int socket, void *data, size_t size, int *fd)
{
	struct iovec part = { data, size };
	union sgpu_host_ancillary ancillary;
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = fd ? &ancillary : NULL,
				  .msg_controllen = fd ? sizeof(ancillary) : 0 };
	const struct cmsghdr *head;
	ssize_t got;

	do {
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (fd) {
		head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
		*fd = -1;
		if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
		    head->cmsg_len == CMSG_LEN(sizeof(*fd))) {
			memcpy(fd, CMSG_DATA(head), sizeof(*fd));
		}
	}
	if (got == (ssize_t)size && !(message.msg_flags & (MSG_TRUNC | (fd ? MSG_CTRUNC : 0)))) {
		return true;
	}
	if (fd && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	return false;
}

#endif
