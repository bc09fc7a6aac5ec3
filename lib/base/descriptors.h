/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends descriptors to another process. The tests' host of modules is not linked with the library,
 * so the function is here.
 */
#ifndef SGPU_BASE_DESCRIPTORS_H
#define SGPU_BASE_DESCRIPTORS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum { SGPU_DESCRIPTORS_MAX = 4 };

/* Sends one message with `count` descriptors. Returns false, with errno, if it was not sent;
 * EINVAL: more than SGPU_DESCRIPTORS_MAX. */
static inline bool sgpu_send_descriptors(int socket, const void *data, size_t size, const int *fds,
					 int count, int flags)
{
	const size_t bytes = (size_t)count * sizeof(int);
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(SGPU_DESCRIPTORS_MAX * sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(bytes),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct iovec part = { (void *)(uintptr_t)data, size };
	const struct msghdr message = { .msg_iov = &part,
					.msg_iovlen = 1,
					.msg_control = &control,
					.msg_controllen = count > 0 ? CMSG_SPACE(bytes) : 0 };
	ssize_t sent;

	if (count > SGPU_DESCRIPTORS_MAX) {
		errno = EINVAL;
		return false;
	}
	if (count > 0) {
		memcpy(CMSG_DATA(&control.header), fds, bytes);
	}
	do {
		sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)size;
}

#endif
