/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections over the loopback interface, whose small messages leave at once.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "parameters.h"

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Closes it after an error. */
static int finish(int fd, int failed, const char *what, int *result, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (failed) {
		rc = sgpu_fail_errno(error, "cannot %s over the loopback interface", what);
		if (fd >= 0) {
			close(fd);
		}
	}
	*result = failed ? -1 : fd;
	return rc;
}

static int send_at_once(int fd)
{
	const int on = 1;

	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int parameters_listen(uint16_t *port, int *listener, struct sgpu_error *error)
{
	struct sockaddr_in address = loopback(0);
	socklen_t size = sizeof(address);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int failed = fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
			   listen(fd, PARAMETERS_CONNECTIONS_MAX) != 0 ||
			   getsockname(fd, (struct sockaddr *)&address, &size) != 0;

	*port = ntohs(address.sin_port);
	return finish(fd, failed, "listen", listener, error);
}

int parameters_accept(int listener, int *socket, struct sgpu_error *error)
{
	const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	return finish(fd, fd < 0 || send_at_once(fd) != 0, "accept a connection", socket, error);
}

int parameters_connect(uint16_t port, int *result, struct sgpu_error *error)
{
	const struct sockaddr_in address = loopback(port);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int failed = fd < 0 || send_at_once(fd) != 0 ||
			   connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0;

	return finish(fd, failed, "connect", result, error);
}
