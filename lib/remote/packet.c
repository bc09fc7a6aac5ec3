/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends and receives the packets of a connection to `sgpu-serve`.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/descriptors.h"
#include "remote/greeting.h"

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
