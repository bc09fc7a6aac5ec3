/* SPDX-License-Identifier: Apache-2.0
 *
 * Tries the protections of the runner on this machine: each in a child that takes them and then
 * does what they are to stop.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/secret.h>

#include "cli.h"
#include "harden.h"
#include "landlock.h"

/* A child that runs `body` with nothing to say, and how it ended; -1 when there is none. */
static pid_t start(int (*body)(int), int fd)
{
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (nowhere >= 0) {
			dup2(nowhere, STDERR_FILENO);
		}
		_exit(body(fd));
	}
	if (nowhere >= 0) {
		close(nowhere);
	}
	return child;
}

static int end_of(pid_t child)
{
	int status = -1;

	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	return child > 0 ? status : -1;
}

/* ---- core files ---- */
static int dump_core(int fd)
{
	struct rlimit limit;

	(void)fd;
	if (getrlimit(RLIMIT_CORE, &limit) == 0) {
		limit.rlim_cur =
			limit.rlim_max; /* else the shell's limit would be what was tried */
		(void)setrlimit(RLIMIT_CORE, &limit);
	}
	cli_harden();
	raise(SIGABRT);
	return 1;
}

static bool leaves_no_core(void)
{
	int status = cli_harden_off() ? -1 : end_of(start(dump_core, -1));

	return status >= 0 && WIFSIGNALED(status) && !WCOREDUMP(status);
}

/* ---- attaching ---- */
static const char held[] = "held";

/* Root reads every process. So the trial goes on between two that are no more than one user. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];

	memset(none, 0, sizeof(none));
	(void)syscall(SYS_capset, &header, none);
}

/* Says that it is ready and waits to be read. */
static int be_read(int fd)
{
	drop_capabilities();
	cli_harden();
	return write(fd, "", 1) == 1 && pause() ? 0 : 1;
}

static pid_t victim;

static int read_it(int fd)
{
	char copy[sizeof(held)];
	const struct iovec here = { copy, sizeof(copy) },
			   there = { (void *)(uintptr_t)held, sizeof(held) };

	(void)fd;
	drop_capabilities();
	return process_vm_readv(victim, &here, 1, &there, 1, 0) < 0 && errno == EPERM ? 0 : 1;
}

static bool lets_none_attach(void)
{
	int ends[2], status = -1;
	char ready;

	if (pipe(ends) != 0) {
		return false;
	}
	victim = start(be_read, ends[1]);
	close(ends[1]);
	if (victim > 0 && read(ends[0], &ready, 1) == 1) {
		status = end_of(start(read_it, -1));
	}
	close(ends[0]);
	if (victim > 0) {
		kill(victim, SIGKILL);
		end_of(victim);
	}
	return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- rights, system calls ---- */
static int gain_nothing(int fd)
{
	(void)fd;
	cli_harden();
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 1;
}

/* An enum harden_kind takes the place of a descriptor. */
static int run_another_program(int kind)
{
	char *const none[] = { NULL };

	cli_harden();
	if (cli_harden_off() || harden_filter((enum harden_kind)kind, NULL) != SGPU_OK) {
		return 1;
	}
	execve("/", none, none);
	return 1;
}

/* ---- files ---- */
static int confined_ends[2];

/* A thread that was there before, with all signals blocked, as those of libraries are. */
static void *read_later(void *opened)
{
	char go;

	*(bool *)opened = read(confined_ends[0], &go, 1) != 1 ||
			  open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0;
	return NULL;
}

static int open_what_is_not_ours(int fd)
{
	const struct landlock_needs none = { .files = NULL };
	pthread_t thread;
	sigset_t all, before;
	bool opened = true;

	(void)fd;
	cli_harden();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (cli_harden_off() || pipe(confined_ends) != 0 ||
	    pthread_create(&thread, NULL, read_later, &opened) != 0) {
		return 1;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (landlock_confine(&none, NULL) != SGPU_OK ||
	    open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ||
	    open("/proc/self/root/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ||
	    open("/dev/null", O_RDONLY | O_CLOEXEC) < 0 || write(confined_ends[1], "", 1) != 1) {
		return 1;
	}
	pthread_join(thread, NULL);
	return opened ? 1 : 0;
}

static bool exits_with(int (*body)(int), int argument, int wanted)
{
	int status = end_of(start(body, argument));

	return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == wanted;
}

static void note(struct harden_finding *finding, const char *name, const char *title, bool holds,
		 const char *good, const char *bad)
{
	const char *off = cli_harden_off();

	finding->name = name;
	finding->title = title;
	finding->holds = holds;
	snprintf(finding->text, sizeof(finding->text), "%s%s%s", holds ? good : bad,
		 !holds && off ? ": " : "", !holds && off ? off : "");
}

void harden_try(struct harden_finding findings[HARDEN_FINDINGS])
{
	const int refused = sgpu_exit_status(SGPU_EPOLICY);
	const char *kind = sgpu_secret_kind();
	const bool secret = strcmp(kind, "memfd_secret") == 0, locked = strcmp(kind, "mlock") == 0;

	note(&findings[0], "no_core", "core files", leaves_no_core(),
	     "none is written, whatever core_pattern says",
	     "a crash may write one, with all that the runner held");
	note(&findings[1], "no_attaching", "attaching", lets_none_attach(),
	     "other processes of the same user are refused; root is not",
	     "other processes of the same user can read and write the runner's memory");
	note(&findings[2], "no_new_privileges", "gaining rights", exits_with(gain_nothing, -1, 0),
	     "no set-user-ID program gives it more rights than it has",
	     "a program that it starts may have more rights than it has");
	note(&findings[3], "filtered_system_calls", "system calls",
	     exits_with(run_another_program, HARDEN_CPU, refused) &&
		     exits_with(run_another_program, HARDEN_GPU, refused),
	     "CPU device: those that it needs, no others; GPU: all but those that no runner needs",
	     "all are possible");
	note(&findings[4], "confined_files", "files", exits_with(open_what_is_not_ours, -1, 0),
	     "a run opens none but the system's, those of --files, regions and its outputs "
	     "(Landlock)",
	     "a run can open all that its user can: this kernel has no Landlock, or it is off");
	note(&findings[5], "secret_memory", "keys", secret || locked,
	     secret ? "in memory that the kernel itself does not map (memfd_secret)"
		    : "in locked memory (mlock), which root and the kernel can read",
	     "in ordinary memory, which may be swapped: RLIMIT_MEMLOCK leaves no room");
}
