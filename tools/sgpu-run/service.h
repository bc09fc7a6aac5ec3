/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket of sgpu-run serve: where it is, who may make it, and how it is reached.
 */
#ifndef SGPU_RUN_SERVICE_H
#define SGPU_RUN_SERVICE_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include <sgpu/error.h>

struct service_path {
	char text[sizeof(((struct sockaddr_un *)0)->sun_path)];
	bool named; /* by an option or SGPU_SOCKET, and not the default */
};

/* `given` (an option, or NULL), else $SGPU_SOCKET, else $XDG_RUNTIME_DIR/sgpu/run.sock, else
 * /run/sgpu/run.sock for root;
 * "" where there is none of these. Errors: SGPU_EUSAGE: too long. */
SGPU_MUST_CHECK int service_find(const char *given, struct service_path *path,
				 struct sgpu_error *error);

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
SGPU_MUST_CHECK int service_listen(const struct service_path *path, bool everybody,
				   struct service_socket *socket, struct sgpu_error *error);
/* Closes it, and removes it if it is still the one that was made. */
void service_close(struct service_socket *socket);

/* Whether something has that name. */
bool service_is_there(const struct service_path *path);
/* A connection, or SGPU_ESYSTEM; SGPU_EUNAVAILABLE: there is no socket of that name. */
SGPU_MUST_CHECK int service_connect(const struct service_path *path, int *fd,
				    struct sgpu_error *error);

/* Tells the service manager, if there is one: "READY=1". */
void service_notify(const char *state);

#endif
