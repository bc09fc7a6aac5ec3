/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket of a server. A lock on the socket's directory ensures that, of two servers that start
 * at the same time, only one replaces the socket of a dead server.
 */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

enum { BACKLOG = 256, MANAGED_FD = 3, LOCK_TRIES = 50, LOCK_PAUSE_US = 20000 };

/* Takes a service manager's socket. Returns 1 if there is one, else 0. */
static int adopt(struct service_socket *made, struct sgpu_error *error)
{
	const char *count = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID");
	const struct {
		int name, value;
	} wanted[] = { { SO_DOMAIN, AF_UNIX }, { SO_TYPE, SOCK_SEQPACKET }, { SO_ACCEPTCONN, 1 } };
	uint64_t sockets = 0, process = 0;

	if (!count || !pid ||
	    sgpu_parse_u64(pid, "LISTEN_PID", 0, INT32_MAX, &process, NULL) != SGPU_OK ||
	    process != (uint64_t)getpid()) {
		return 0;
	}
	if (sgpu_parse_u64(count, "LISTEN_FDS", 0, 1024, &sockets, NULL) != SGPU_OK ||
	    sockets != 1) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "the service manager passes '%s' sockets, not one", count);
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wanted); i++) {
		socklen_t size = sizeof(int);
		int value = -1;

		if (getsockopt(MANAGED_FD, SOL_SOCKET, wanted[i].name, &value, &size) != 0 ||
		    value != wanted[i].value) {
			sgpu_fail(error, SGPU_EUSAGE,
				  "the service manager's socket is not a listening unix socket of "
				  "packets");
			return sgpu_hint(error, "its unit has ListenSequentialPacket=");
		}
	}
	(void)fcntl(MANAGED_FD, F_SETFD, FD_CLOEXEC);
	(void)fcntl(MANAGED_FD, F_SETFL, fcntl(MANAGED_FD, F_GETFL) | O_NONBLOCK);
	made->fd = MANAGED_FD;
	return 1;
}

/* Opens and locks the socket's directory. Only root and this user may be able to write to it or to
 * remove what is there. */
static int open_directory(const char *path, bool everybody, struct sgpu_error *error)
{
	char copy[sizeof(((struct sockaddr_un *)0)->sun_path)];
	const char *directory;
	struct stat status;
	int fd;

	snprintf(copy, sizeof(copy), "%s", path);
	directory = dirname(copy);
	if (mkdir(directory, everybody ? 0755 : 0700) == 0 && everybody) {
		(void)chmod(directory, 0755); /* whatever the umask */
	}
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) != 0) {
		sgpu_fail_errno(error, "cannot open directory '%s'", directory);
		goto fail;
	}
	if ((status.st_uid != geteuid() && status.st_uid != 0) ||
	    ((status.st_mode & (S_IWGRP | S_IWOTH)) && !(status.st_mode & S_ISVTX))) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "others could replace a socket in directory '%s' (user %lu, mode %04o)",
			  directory, (unsigned long)status.st_uid,
			  (unsigned)status.st_mode & 07777u);
		goto fail;
	}
	/* Anybody who can open the directory can hold its lock, which only matters if the operator
	 * starts several servers together. So after a second the server goes on without. */
	for (int i = 0; i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
		usleep(LOCK_PAUSE_US);
	}
	return fd;
fail:
	sgpu_close(fd);
	return -1;
}

static int remove_dead(const char *path, struct sgpu_error *error)
{
	struct stat status;
	int fd;

	if (lstat(path, &status) != 0) {
		return errno == ENOENT ? SGPU_OK
				       : sgpu_fail_errno(error, "cannot inspect '%s'", path);
	}
	if (!S_ISSOCK(status.st_mode)) {
		return sgpu_fail(error, SGPU_ESYSTEM, "'%s' exists and is no socket", path);
	}
	fd = sgpu_service_reach(path);
	if (fd >= 0 || errno != ECONNREFUSED) {
		sgpu_close(fd);
		return sgpu_fail(error, SGPU_ESYSTEM, "a server listens at '%s' already", path);
	}
	return unlink(path) == 0 ? SGPU_OK
				 : sgpu_fail_errno(error, "cannot remove the socket '%s'", path);
}

static int bind_and_listen(const char *path, bool everybody, struct service_socket *made,
			   struct sgpu_error *error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t mask;
	int rc;

	made->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (made->fd < 0) {
		return sgpu_fail_errno(error, "cannot make a socket");
	}
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	mask = umask(everybody ? 0111 : 0177);
	rc = bind(made->fd, (struct sockaddr *)&address, sizeof(address));
	umask(mask);
	if (rc == 0) {
		struct stat status;

		snprintf(made->path, sizeof(made->path), "%s", path);
		rc = lstat(path, &status);
		made->device = rc == 0 ? status.st_dev : 0;
		made->inode = rc == 0 ? status.st_ino : 0;
	}
	if (rc != 0 || listen(made->fd, BACKLOG) != 0) {
		rc = sgpu_fail_errno(error, "cannot listen at '%s'", path);
		service_close(made);
		return rc;
	}
	return SGPU_OK;
}

int service_listen(const struct sgpu_service_path *path, bool everybody,
		   struct service_socket *made, struct sgpu_error *error)
{
	int directory, rc = adopt(made, error);

	if (rc != 0) {
		return rc > 0 ? SGPU_OK : rc;
	}
	if (!path->text[0]) {
		sgpu_fail(error, SGPU_EUSAGE,
			  "there is no place for a socket: neither SGPU_SOCKET nor XDG_RUNTIME_DIR "
			  "is set");
		return sgpu_hint(error, "name one with --socket");
	}
	directory = open_directory(path->text, everybody, error);
	if (directory < 0) {
		return error->code;
	}
	rc = remove_dead(path->text, error);
	rc = rc ? rc : bind_and_listen(path->text, everybody, made, error);
	close(directory);
	return rc;
}

void service_close(struct service_socket *made)
{
	struct stat status;

	sgpu_close(made->fd);
	if (made->path[0] && lstat(made->path, &status) == 0 && status.st_dev == made->device &&
	    status.st_ino == made->inode) {
		(void)unlink(made->path);
	}
	*made = (struct service_socket){ .fd = -1 };
}

void service_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const size_t length = path ? strlen(path) : 0;
	int fd;

	if (length == 0 || length >= sizeof(address.sun_path) ||
	    (path[0] != '/' && path[0] != '@')) {
		return;
	}
	memcpy(address.sun_path, path, length);
	if (path[0] == '@') {
		address.sun_path[0] = '\0'; /* an abstract name, not a path */
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
		close(fd);
	}
}
