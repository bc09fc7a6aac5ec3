/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that modules run in, as the device sees it: a program beside this one, ../lib/sgpu/sgpu-module-host from the
 * program's folder, started with a socket and nothing else.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <device/cpu/cpu.h>
#include <device/cpu/module_message.h>
#include <device/cpu/module_wire.h>

enum { HELLO_MS = 20000 };

static bool host_path(char *path, size_t size)
{
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	program[length < 0 ? 0 : length] = '\0';
	slash = strrchr(program, '/');
	if (!slash) {
		return false;
	}
	*slash = '\0';
	return snprintf(path, size, "%s/../lib/sgpu/" SGPU_HOST_PROGRAM, program) < (int)size;
}

/* A session of its own: what a terminal sends is for the program, which ends the host when it ends. */
static int spawn(const char *path, int control, pid_t *pid)
{
	char name[] = SGPU_HOST_PROGRAM;
	char *const words[] = { name, NULL }, *const environment[] = { NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t all, none;
	int rc;

	sigfillset(&all);
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_adddup2(&actions, control, SGPU_HOST_CONTROL);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setsigmask(&attributes, &none);
	rc = posix_spawn(pid, path, &actions, &attributes, words, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

static void end(struct sgpu_cpu_host *host)
{
	int status;

	close(host->control); /* what it waits for */
	host->control = -1;
	while (waitpid(host->pid, &status, 0) < 0 && errno == EINTR) {
	}
}

static int start(struct sgpu_cpu_host *host, struct sgpu_error *error)
{
	struct sgpu_host_answer hello = { 0 };
	char path[PATH_MAX + 64];
	int ends[2], rc;

	if (!host_path(path, sizeof(path)) || access(path, X_OK) != 0) {
		sgpu_fail(error, SGPU_EUNAVAILABLE, "modules cannot be run: '%s' is missing", path);
		return sgpu_hint(error, "it is built and installed with the programs, by make and make install");
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return sgpu_fail_errno(error, "cannot make a socket for modules");
	}
	rc = spawn(path, ends[1], &host->pid);
	close(ends[1]);
	if (rc != 0) {
		close(ends[0]);
		errno = rc;
		return sgpu_fail_errno(error, "cannot start '%s'", path);
	}
	host->control = ends[0];
	if (poll(&(struct pollfd){ .fd = ends[0], .events = POLLIN }, 1, HELLO_MS) != 1 ||
	    !sgpu_host_receive(ends[0], &hello, sizeof(hello), NULL) || hello.kind != SGPU_HOST_HELLO) {
		kill(host->pid, SIGKILL);
		end(host);
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "'%s' does not start as it should", path);
	}
	host->confinement = hello.confinement;
	return SGPU_OK;
}

int sgpu_cpu_host_start(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cpu_host *host = &device->host;
	int code = SGPU_OK;

	pthread_mutex_lock(&host->lock);
	if (host->control < 0) {
		code = start(host, error);
	}
	pthread_mutex_unlock(&host->lock);
	return code;
}

void sgpu_cpu_host_stop(struct sgpu_device *device)
{
	if (device->host.control >= 0) {
		end(&device->host);
	}
}

int sgpu_cpu_host_worker(struct sgpu_device *device, int image, uint64_t size, int *channel, int *report,
			 struct sgpu_error *error)
{
	const struct sgpu_host_request request = { .version = SGPU_HOST_VERSION, .size = size };
	struct sgpu_cpu_host *host = &device->host;
	struct sgpu_host_answer answer = { 0 };
	bool good;

	*channel = *report = -1;
	pthread_mutex_lock(&host->lock);
	good = sgpu_host_send(host->control, &request, sizeof(request), image) &&
	       sgpu_host_receive(host->control, &answer, sizeof(answer), channel) &&
	       sgpu_host_receive(host->control, &answer, sizeof(answer), report) && answer.kind == SGPU_HOST_STARTED;
	pthread_mutex_unlock(&host->lock);
	if (!good) {
		return sgpu_fail(error, SGPU_EDEVICE, "the process that modules run in has ended");
	}
	if (*channel < 0 || *report < 0) {
		errno = answer.code;
		return sgpu_fail_errno(error, "no process can be had for a module");
	}
	return SGPU_OK;
}

/* ---- how a worker ended ---- */
static bool is_name(const char *text)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");

	return length > 0 && text[length] == '\0';
}

int sgpu_cpu_host_ended(struct sgpu_device *device, struct sgpu_host_answer *answer, struct sgpu_error *error)
{
	const char *signal_name;

	answer->text[sizeof(answer->text) - 1] = '\0';
	if (answer->call >= 0) {
		atomic_store(&device->host.broke_rules, true);
		return sgpu_fail(error, SGPU_EPOLICY, "system call %d (%s) refused: no module needs it", answer->call,
				 is_name(answer->text) ? answer->text : "unknown");
	}
	if (WIFSIGNALED(answer->status) && WTERMSIG(answer->status) == SIGSYS) {
		atomic_store(&device->host.broke_rules, true);
		return sgpu_fail(error, SGPU_EPOLICY, "a system call was refused that no module needs; "
				 "it is not one of this architecture, or the kernel did not name it");
	}
	if (WIFSIGNALED(answer->status)) {
		signal_name = sigabbrev_np(WTERMSIG(answer->status));
		return sgpu_fail(error, SGPU_EDEVICE, "its process was ended by signal %d (SIG%s)", WTERMSIG(answer->status),
				 signal_name ? signal_name : "?");
	}
	return sgpu_fail(error, SGPU_EDEVICE, "it ended its process, with status %d", WEXITSTATUS(answer->status));
}

/* ---- the rows of the device ---- */
int sgpu_cpu_module_confinement(struct sgpu_device *device, struct sgpu_module_confinement *confinement,
				struct sgpu_error *error)
{
	int code = sgpu_cpu_host_start(device, error);

	if (code == SGPU_OK) {
		*confinement = device->host.confinement;
	}
	return code;
}

bool sgpu_cpu_module_broke_rules(struct sgpu_device *device)
{
	return atomic_load(&device->host.broke_rules);
}
