/* SPDX-License-Identifier: Apache-2.0
 *
 * How a program asks sgpu-serve for a session, over a SOCK_SEQPACKET socket.
 */
#ifndef SGPU_REMOTE_GREETING_H
#define SGPU_REMOTE_GREETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include <sgpu/error.h>

enum {
	SGPU_GREETING_MAGIC = 0x53475055,
	SGPU_GREETING_VERSION = 7,
	SGPU_GREETING_TAKEN = 5,
	SGPU_GREETING_REFUSED = 6,
	SGPU_GREETING_SESSION = 15,
	SGPU_WIRE_FDS_MAX = 16, /* descriptors received with one message */
};

/* The head of each message; the request and SGPU_GREETING_TAKEN have nothing else. */
struct sgpu_greeting {
	uint32_t magic;
	uint16_t version, kind;
	uint32_t size;
	uint32_t zero;
};

struct sgpu_refusal_of_session {
	struct sgpu_greeting greeting;
	struct sgpu_error error;
};

struct msghdr;

/* Fills in a message's head and sends the message with `count` descriptors. Does not block. Returns
 * false, with errno, if the peer has gone or its queue is full; EINVAL: more than 4 descriptors. */
bool sgpu_wire_send(int socket, int kind, void *message, size_t size, const int *fds, int count);
/* flags: recvmsg's. *size: of the whole packet, even if cut. Does not block. Errors:
 * SGPU_ECANCELED: the peer has gone; SGPU_ETIMEOUT: there is no packet. */
SGPU_MUST_CHECK int sgpu_wire_receive(int socket, struct msghdr *packet, int flags, ssize_t *size);

/* ---- where the server is ---- */
struct sgpu_service_path {
	char text[sizeof(((struct sockaddr_un *)0)->sun_path)];
	bool named; /* by an option or SGPU_SOCKET */
};

/* Sets path->text to `given` (an option, or NULL), else $SGPU_SOCKET, else
 * $XDG_RUNTIME_DIR/sgpu/run.sock, else /run/sgpu/run.sock for root, else "". Errors: SGPU_EUSAGE:
 * too long. */
SGPU_MUST_CHECK int sgpu_service_find(const char *given, struct sgpu_service_path *path,
				      struct sgpu_error *error);

/* Returns a descriptor, or -1 with errno. */
int sgpu_service_reach(const char *path);
/* Errors: SGPU_ESYSTEM; SGPU_EUNAVAILABLE: there is no such socket. */
SGPU_MUST_CHECK int sgpu_service_connect(const struct sgpu_service_path *path, int *fd,
					 struct sgpu_error *error);

#endif
