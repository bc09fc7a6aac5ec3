/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket of sgpu-run serve: where it is, who may make it, and how it is reached.
 */
#ifndef SGPU_RUN_SERVICE_H
#define SGPU_RUN_SERVICE_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "remote/greeting.h"

struct service_socket {
	int fd; /* listens, does not block; -1: closed */
	char path[sizeof(
		((struct sockaddr_un *)0)->sun_path)]; /* "": it came from the service manager */
	dev_t device;
	ino_t inode;
};
#define SERVICE_SOCKET_INIT \
	{                   \
		.fd = -1    \
	}

/* The socket that a service manager has passed on (LISTEN_FDS), or a new one at `path`;
 * `everybody`: all users may connect, else this one and root. The directory is made if it is
 * missing. A socket that nobody answers at is replaced. Errors: SGPU_ESYSTEM, also if another
 * server lives there; SGPU_EPOLICY: others could take its place. */
SGPU_MUST_CHECK int service_listen(const struct sgpu_service_path *path, bool everybody,
				   struct service_socket *socket, struct sgpu_error *error);
/* Closes it, and removes it if it is still the one that was made. */
void service_close(struct service_socket *socket);

/* Whether something has that name. */
bool service_is_there(const struct sgpu_service_path *path);

/* Tells the service manager, if there is one: "READY=1". */
void service_notify(const char *state);

#endif
