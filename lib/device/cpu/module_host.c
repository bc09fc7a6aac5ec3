/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts and stops the host, the process that modules run in; a socket to this process is all that
 * it has. The host is executed by the descriptor of a sealed memory file. No path is looked up, so
 * that nobody who can replace a file, or /proc, can have another program run instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <device/cpu/cpu.h>
#include <device/cpu/module_wire.h>

#include "base/io.h"

/* Known to kernels from 6.3 on, which may make memory files non-executable without it. */
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* For the child; all above SGPU_HOST_CONTROL, so that its dup2() closes none. */
struct start {
	int image, control, nothing;
	int report; /* where the child reports why it could not start */
};

static int not_executable(struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_EUNAVAILABLE,
		  "modules cannot be run: memory files may not be executed here");
	return sgpu_hint(error, "the setting 'vm.memfd_noexec' of the kernel, which has to be 0 or "
				"1, or a security policy "
				"forbids it");
}

int sgpu_cpu_code_file(const char *name, const char *what, const void *bytes, size_t size,
		       mode_t mode, int *fd, struct sgpu_error *error)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int rc;

	*fd = memfd_create(name, flags | MFD_EXEC);
	if (*fd < 0 && errno == EINVAL) {
		*fd = memfd_create(name, flags);
	}
	if (*fd < 0) {
		return errno == EACCES
			       ? not_executable(error)
			       : sgpu_fail_errno(error, "cannot make a memory file for %s", what);
	}
	rc = sgpu_write(*fd, "memory file", bytes, size, error);
	if (rc == SGPU_OK && fchmod(*fd, mode) != 0) {
		rc = sgpu_fail_errno(error, "cannot set the mode of the memory file of %s", what);
	}
	if (rc == SGPU_OK && fcntl(*fd, F_ADD_SEALS,
				   F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
		rc = sgpu_fail_errno(error, "cannot seal the memory file of %s", what);
	}
	if (rc != SGPU_OK) {
		close(*fd);
		*fd = -1;
	}
	return rc;
}

/* Runs in the child of vfork(), which shares this process's memory and suspends the caller until
 * the child executes the program. The child gets its own session, so a terminal's signals reach
 * only the runner, at whose end the host ends. */
static _Noreturn void become_host(const struct start *start)
{
	static char name[] = SGPU_HOST_PROGRAM;
	char *const words[] = { name, NULL }, *const environment[] = { NULL };
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	sigset_t none;
	int rc;

	for (int number = 1; number < NSIG; number++) {
		(void)sigaction(number, &usual, NULL);
	}
	setsid();
	if (dup2(start->nothing, STDIN_FILENO) >= 0 && dup2(start->nothing, STDOUT_FILENO) >= 0 &&
	    dup2(start->nothing, STDERR_FILENO) >= 0 &&
	    dup2(start->control, SGPU_HOST_CONTROL) >= 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		syscall(SYS_execveat, start->image, "", words, environment, AT_EMPTY_PATH);
	}
	rc = errno;
	(void)!write(start->report, &rc, sizeof(rc));
	_exit(1);
}

/* Uses vfork(), as fork() would copy the page tables. The child reports over a pipe why it could
 * not start, not in memory, since a sanitizer may turn vfork() into fork(). */
static __attribute__((noinline)) pid_t make_child(const struct start *start)
{
	pid_t child = vfork();

	if (child == 0) {
		become_host(start);
	}
	return child;
}

static int run(struct start *start, pid_t *pid, struct sgpu_error *error)
{
	sigset_t all, before;
	int ends[2], code = 0;

	if (pipe2(ends, O_CLOEXEC) != 0) {
		return sgpu_fail_errno(error, "cannot make a pipe for modules");
	}
	start->report = fcntl(ends[1], F_DUPFD_CLOEXEC, SGPU_HOST_CONTROL + 1);
	close(ends[1]);
	/* Signals are blocked so that no handler of this process runs in the child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	*pid = start->report < 0 ? -1 : make_child(start);
	code = *pid < 0 ? errno : 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	sgpu_close(start->report);
	while (*pid > 0 && read(ends[0], &code, sizeof(code)) < 0 && errno == EINTR) {
	}
	close(ends[0]);
	while (*pid > 0 && code != 0 && waitpid(*pid, NULL, 0) < 0 && errno == EINTR) {
	}
	if (code == EACCES || code == EPERM) {
		return not_executable(error);
	}
	errno = code;
	return code == 0 ? SGPU_OK
			 : sgpu_fail_errno(error, "cannot start the process that modules run in");
}

/* Opens /dev/null, and checks that it is a device, not a file that somebody put there to read what
 * modules print. */
static int open_nothing(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat status;

	if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISCHR(status.st_mode) ||
			status.st_rdev != makedev(1, 3))) {
		close(fd);
		errno = ENODEV;
		return -1;
	}
	return fd;
}

/* Returns a duplicate of `fd` above SGPU_HOST_CONTROL, or -1. Always closes `fd`. */
static int above(int fd)
{
	int other = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, SGPU_HOST_CONTROL + 1);
	int kept = errno;

	sgpu_close(fd);
	errno = kept;
	return other;
}

int sgpu_module_host_spawn(int control, pid_t *pid, struct sgpu_error *error)
{
	struct start start = { .image = -1, .control = -1, .nothing = -1 };
	/* The file may be executed but not read, so that nobody can trace the program, even at its
	 * start. */
	int rc = sgpu_cpu_code_file(SGPU_HOST_PROGRAM, "the process that modules run in",
				    sgpu_module_host_image,
				    (size_t)(sgpu_module_host_image_end - sgpu_module_host_image),
				    S_IXUSR, &start.image, error);

	if (rc == SGPU_OK) {
		start.image = above(start.image);
		start.nothing = start.image < 0 ? -1 : above(open_nothing());
		start.control = start.nothing < 0
					? -1
					: fcntl(control, F_DUPFD_CLOEXEC, SGPU_HOST_CONTROL + 1);
		rc = start.control >= 0
			     ? run(&start, pid, error)
			     : sgpu_fail_errno(
				       error,
				       start.image >= 0 && start.nothing < 0
					       ? "cannot open '/dev/null' for modules"
					       : "cannot start the process that modules run in");
	}
	sgpu_close(start.image);
	sgpu_close(start.nothing);
	sgpu_close(start.control);
	return rc;
}

/* ---- starting and stopping ---- */
enum { HELLO_MS = 20000, PREPARED_MAX = 16 };

static void end_host(struct sgpu_cpu_host *host)
{
	int status;

	close(host->control); /* the host ends when its socket closes */
	host->control = -1;
	while (waitpid(host->pid, &status, 0) < 0 && errno == EINTR) {
	}
}

static int start_host(struct sgpu_cpu_host *host, struct sgpu_error *error)
{
	struct sgpu_host_answer hello = { 0 };
	int ends[2], code;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return sgpu_fail_errno(error, "cannot make a socket for modules");
	}
	code = sgpu_module_host_spawn(ends[1], &host->pid, error);
	close(ends[1]);
	if (code != SGPU_OK) {
		close(ends[0]);
		return code;
	}
	host->control = ends[0];
	if (poll(&(struct pollfd){ .fd = ends[0], .events = POLLIN }, 1, HELLO_MS) != 1 ||
	    !sgpu_host_receive(ends[0], &hello, sizeof(hello), NULL) ||
	    hello.kind != SGPU_HOST_HELLO) {
		kill(host->pid, SIGKILL);
		end_host(host);
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the process that modules run in does not start as it should");
	}
	host->confinement = hello.confinement;
	return SGPU_OK;
}

/* Hosts that were started for devices which are opened later. */
static struct sgpu_cpu_host prepared[PREPARED_MAX];
static int prepared_count;

int sgpu_device_prepare_modules(int devices, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	while (rc == SGPU_OK && prepared_count < devices && prepared_count < PREPARED_MAX) {
		rc = start_host(&prepared[prepared_count], error);
		prepared_count += rc == SGPU_OK;
	}
	return rc;
}

int sgpu_cpu_host_start(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cpu_host *host = &device->host;
	int rc = SGPU_OK;

	pthread_mutex_lock(&host->lock);
	if (host->control < 0 && prepared_count > 0) {
		prepared_count--;
		host->control = prepared[prepared_count].control;
		host->pid = prepared[prepared_count].pid;
		host->confinement = prepared[prepared_count].confinement;
	} else if (host->control < 0) {
		rc = start_host(host, error);
	}
	pthread_mutex_unlock(&host->lock);
	return rc;
}

void sgpu_cpu_host_stop(struct sgpu_device *device)
{
	if (device->host.control >= 0) {
		end_host(&device->host);
	}
}

void sgpu_cpu_host_release(int *channel, int *report)
{
	sgpu_close(*channel);
	sgpu_close(*report);
	*channel = *report = -1;
}

int sgpu_cpu_host_worker(struct sgpu_device *device, int image, uint64_t size, int *channel,
			 int *report, struct sgpu_error *error)
{
	const struct sgpu_host_request request = { .version = SGPU_HOST_VERSION, .size = size };
	struct sgpu_cpu_host *host = &device->host;
	struct sgpu_host_answer answer = { 0 };
	bool first, second;

	*channel = *report = -1;
	pthread_mutex_lock(&host->lock);
	first = sgpu_host_send(host->control, &request, sizeof(request), image) &&
		sgpu_host_receive(host->control, &answer, sizeof(answer), channel);
	/* Receive the second answer even if the first failed, lest the next request get it. */
	second = sgpu_host_receive(host->control, &answer, sizeof(answer), report);
	pthread_mutex_unlock(&host->lock);
	if (first && second && answer.kind == SGPU_HOST_STARTED && *channel >= 0 && *report >= 0) {
		return SGPU_OK;
	}
	sgpu_cpu_host_release(channel, report);
	if (answer.kind != SGPU_HOST_STARTED) {
		return sgpu_fail(error, SGPU_EDEVICE, "the process that modules run in has ended");
	}
	if (answer.code == EUSERS) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "the CPU device runs %d modules at once, and no more", SGPU_HOST_WORKERS);
		return sgpu_hint(error, "put functions that belong together into one module");
	}
	errno = answer.code ? answer.code : EMFILE;
	return sgpu_fail_errno(error, "no process can be had for a module");
}

/* ---- how a worker ended ---- */
static bool is_name(const char *text)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");

	return length > 0 && text[length] == '\0';
}

int sgpu_cpu_host_ended(struct sgpu_device *device, struct sgpu_host_answer *answer,
			struct sgpu_error *error)
{
	const char *signal_name;

	answer->text[sizeof(answer->text) - 1] = '\0';
	if (answer->call >= 0) {
		atomic_store(&device->host.broke_rules, true);
		return sgpu_fail(error, SGPU_EPOLICY,
				 "system call %d (%s) refused: no module needs it", answer->call,
				 is_name(answer->text) ? answer->text : "unknown");
	}
	if (WIFSIGNALED(answer->status) && WTERMSIG(answer->status) == SIGSYS) {
		atomic_store(&device->host.broke_rules, true);
		return sgpu_fail(
			error, SGPU_EPOLICY,
			"a system call was refused that no module needs; "
			"it is not one of this architecture, or the kernel did not name it");
	}
	if (WIFSIGNALED(answer->status)) {
		signal_name = sigabbrev_np(WTERMSIG(answer->status));
		return sgpu_fail(error, SGPU_EDEVICE, "its process was ended by signal %d (SIG%s)",
				 WTERMSIG(answer->status), signal_name ? signal_name : "?");
	}
	return sgpu_fail(error, SGPU_EDEVICE, "it ended its process, with status %d",
			 WEXITSTATUS(answer->status));
}

/* ---- calls in the device's table ---- */
int sgpu_cpu_module_confinement(struct sgpu_device *device,
				struct sgpu_module_confinement *confinement,
				struct sgpu_error *error)
{
	int rc = sgpu_cpu_host_start(device, error);

	if (rc == SGPU_OK) {
		*confinement = device->host.confinement;
	}
	return rc;
}

bool sgpu_cpu_module_broke_rules(struct sgpu_device *device)
{
	return atomic_load(&device->host.broke_rules);
}
