/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts and stops the host, the process that modules run in; a socket to this process is all that
 * the host has.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <device/cpu/cpu.h>
#include <device/cpu/module_wire.h>

#include "base/io.h"

enum { HELLO_MS = 20000, PREPARED_MAX = 16 };

/* Hosts of devices that are opened later. */
static struct sgpu_cpu_host prepared[PREPARED_MAX];
static int prepared_count;

/* Opens /dev/null above SGPU_HOST_CONTROL, unless somebody put a file there to read what modules
 * print. */
static int open_nothing(void)
{
	const int fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat status;
	int above = -1, kept;

	if (fd >= 0 && fstat(fd, &status) == 0) {
		errno = ENODEV;
		if (S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3)) {
			above = fcntl(fd, F_DUPFD_CLOEXEC, SGPU_HOST_CONTROL + 1);
		}
	}
	kept = errno;
	sgpu_close(fd);
	errno = kept;
	return above;
}

/* The host gets its own session, so a terminal's signals reach only this process, at whose end the
 * host ends. Returns 0 or an errno. */
static int spawn(const char *program, int control, int nothing, pid_t *pid)
{
	static char name[] = SGPU_HOST_PROGRAM;
	char *const words[] = { name, NULL };
	char *environment[] = { NULL, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t all, none;
	int code;

	/* No variable but that by which this program found its libraries. */
	for (char *const *one = environ; *one; one++) {
		if (strncmp(*one, "LD_LIBRARY_PATH=", 16) == 0) {
			environment[0] = *one;
		}
	}
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawn_file_actions_init(&actions);
	/* first, since `control` may be one of the standard streams */
	code = posix_spawn_file_actions_adddup2(&actions, control, SGPU_HOST_CONTROL);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		code = code ? code : posix_spawn_file_actions_adddup2(&actions, nothing, fd);
	}
	code = code ? code : posix_spawn(pid, program, &actions, &attributes, words, environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return code;
}

static void end_host(struct sgpu_cpu_host *host)
{
	int status;

	close(host->control); /* the host ends when its socket closes */
	host->control = -1;
	while (waitpid(host->pid, &status, 0) < 0 && errno == EINTR) {
	}
}

static int start_host(const char *program, struct sgpu_cpu_host *host, struct sgpu_error *error)
{
	const int nothing = open_nothing();
	int ends[2], code;

	if (nothing < 0) {
		return sgpu_fail_errno(error, "cannot open '/dev/null' for modules");
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		close(nothing);
		return sgpu_fail_errno(error, "cannot make a socket for modules");
	}
	code = spawn(program, ends[1], nothing, &host->pid);
	close(ends[1]);
	close(nothing);
	if (code != 0) {
		close(ends[0]);
		errno = code;
		return sgpu_fail_errno(error, "cannot start the process that modules run in");
	}
	host->control = ends[0];
	if (poll(&(struct pollfd){ .fd = ends[0], .events = POLLIN }, 1, HELLO_MS) != 1 ||
	    !sgpu_host_receive(ends[0], &host->confinement, sizeof(host->confinement), NULL, 0)) {
		kill(host->pid, SIGKILL);
		end_host(host);
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the process that modules run in does not start as it should");
	}
	return SGPU_OK;
}

int sgpu_device_prepare_modules(const char *program, int devices, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	while (rc == SGPU_OK && prepared_count < devices && prepared_count < PREPARED_MAX) {
		rc = start_host(program, &prepared[prepared_count], error);
		prepared_count += rc == SGPU_OK;
	}
	return rc;
}

void sgpu_cpu_host_take(struct sgpu_device *device)
{
	pthread_mutex_init(&device->host.lock, NULL);
	device->host.control = -1;
	if (prepared_count > 0) {
		prepared_count--;
		device->host.control = prepared[prepared_count].control;
		device->host.pid = prepared[prepared_count].pid;
		device->host.confinement = prepared[prepared_count].confinement;
	}
}

int sgpu_cpu_host_check(struct sgpu_device *device, struct sgpu_error *error)
{
	if (device->host.control >= 0) {
		return SGPU_OK;
	}
	sgpu_fail(error, SGPU_EUNAVAILABLE,
		  "modules cannot be run: no process was prepared for them before the device was "
		  "opened");
	return sgpu_hint(error, "'sgpu-run --allow-modules' prepares one for each CPU device");
}

void sgpu_cpu_host_stop(struct sgpu_device *device)
{
	if (device->host.control >= 0) {
		end_host(&device->host);
	}
}
