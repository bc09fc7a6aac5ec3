/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of a worker's system calls: those of computing code are listed, all others refused. A
 * refused call is not carried out: the process blocks in it until the host, which listens, has
 * noted the call and killed the process. No signal handler is involved that a module could replace.
 */
#include "host.h"

#include <errno.h>
#include <string.h>

#if SGPU_SECCOMP
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../sgpu-enclave/seccomp_filter.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Packed by hand: one call a line would fill a page. */
/* clang-format off */
/* Calls for memory, threads, waiting, clocks, the process itself and its own signals, and to read
 * and write open files. */
static const char *const computing[] = {
	"read", "write", "readv", "writev", "pread64", "lseek", "close", "fstat", "munmap", "mremap", "brk", "madvise", "futex",
	"futex_waitv", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "exit", "exit_group",
	"restart_syscall", "gettid", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "uname", "sysinfo",
	"getrandom", "getrusage", "getrlimit", "times", "sched_yield", "sched_getaffinity", "sched_getparam",
	"sched_getscheduler", "sched_get_priority_max", "sched_get_priority_min", "getcpu", "clock_gettime", "clock_getres",
	"clock_nanosleep", "nanosleep", "gettimeofday", "time", "poll", "ppoll", "rt_sigprocmask", "rt_sigreturn",
	"rt_sigpending", "sigaltstack", "membarrier", "arch_prctl",
	NULL,
};
/* clang-format on */

/* Calls of the loader. It also calls openat() for reading, and mmap() of code, which must be a
 * private mapping of a file, since code mapped otherwise could still be written. */
static const char *const opening[] = { "open", "openat", NULL };
static const char *const loading[] = { "readlink",  "readlinkat", "access",
				       "faccessat", "faccessat2", "getcwd",
				       "statfs",    "fstatfs",	  NULL };
static const char *const in_passing[] = { "newfstatat", "statx", "stat", "lstat", NULL };

#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND)
#define CODE_FLAGS (MAP_TYPE | MAP_ANONYMOUS)

/* Allows memory without code, threads but no processes, abort(), handlers of all signals but
 * SIGSYS, names of threads, reading limits, and messages over the two sockets. */
static void add_conditions(scmp_filter_ctx filter, int *rc, int channel, int handoff)
{
	const struct seccomp_rule rules[] = {
		{ SCMP_ACT_ALLOW, "mmap", BITS(2, PROT_EXEC, 0) },
		{ SCMP_ACT_ALLOW, "mprotect", BITS(2, PROT_EXEC, 0) },
		{ SCMP_ACT_ALLOW, "clone", BITS(0, CLONE_THREAD, CLONE_THREAD) },
		{ SCMP_ACT_ALLOW, "rt_sigaction", OTHER(0, SIGSYS) },
		{ SCMP_ACT_ALLOW, "prctl", EQUAL(0, PR_SET_NAME) },
		{ SCMP_ACT_ALLOW, "prctl", EQUAL(0, PR_GET_NAME) },
		{ SCMP_ACT_ALLOW, "prctl", EQUAL(0, 0x53564d41) }, /* PR_SET_VMA: names memory */
		{ SCMP_ACT_ALLOW, "prlimit64", EQUAL(2, 0) },
		{ SCMP_ACT_ALLOW, "fcntl", EQUAL(1, F_GETFD) },
		{ SCMP_ACT_ALLOW, "fcntl", EQUAL(1, F_GETFL) },
		{ SCMP_ACT_ALLOW, "sendmsg", EQUAL(0, channel) },
		{ SCMP_ACT_ALLOW, "sendmsg", EQUAL(0, handoff) },
	};
	const struct scmp_arg_cmp own_abort[] = { EQUAL(0, getpid()), EQUAL(2, SIGABRT) };

	seccomp_add(filter, rc, SCMP_ACT_ALLOW, "tgkill", 2, own_abort);
	seccomp_add_rules(filter, rc, rules, COUNT(rules));
}

bool filter_install(int channel, int handoff, int *listener)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_NOTIFY);
	int rc = filter ? 0 : -ENOMEM;

	seccomp_add_all(filter, &rc, SCMP_ACT_ALLOW, computing);
	add_conditions(filter, &rc, channel, handoff);
	/* Without clone3() the C library calls clone(), whose flags a filter can see. ioctl() fails
	 * as on any file that is no terminal, since none is open. */
	seccomp_add(filter, &rc, SCMP_ACT_ERRNO(ENOSYS), "clone3", 0, NULL);
	seccomp_add(filter, &rc, SCMP_ACT_ERRNO(ENOTTY), "ioctl", 0, NULL);
	rc = seccomp_put_on(filter, rc, SCMP_ACT_KILL_PROCESS);
	*listener = rc == 0 ? seccomp_notify_fd(filter) : -1; /* a release would close it */
	return *listener >= 0;
}

static bool is_one_of(int number, const char *const *names)
{
	for (; *names; names++) {
		if (number == seccomp_syscall_resolve_name(*names)) {
			return true;
		}
	}
	return false;
}

enum host_verdict filter_verdict(int number, const uint64_t arguments[6], int channel)
{
	if (number == seccomp_syscall_resolve_name("mmap")) {
		return (arguments[2] & (PROT_EXEC | PROT_WRITE)) == PROT_EXEC &&
				       (arguments[3] & CODE_FLAGS) == MAP_PRIVATE
			       ? HOST_LOAD
			       : HOST_REFUSE;
	}
	if (number == seccomp_syscall_resolve_name("recvmsg")) {
		return arguments[0] == (uint64_t)channel ? HOST_SERVE : HOST_REFUSE;
	}
	if (is_one_of(number, opening)) {
		const uint64_t flags =
			arguments[number == seccomp_syscall_resolve_name("openat") ? 2 : 1];

		return flags & WRITING ? HOST_REFUSE : HOST_LOAD;
	}
	if (is_one_of(number, in_passing)) {
		return HOST_LOAD_SOFT;
	}
	return is_one_of(number, loading) ? HOST_LOAD : HOST_REFUSE;
}

void filter_name(int number, char *name, size_t size)
{
	char *text = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);

	snprintf(name, size, "%s", text ? text : "");
	free(text);
}
#else
bool filter_install(int channel, int handoff, int *listener)
{
	(void)channel;
	(void)handoff;
	*listener = -1;
	return true; /* the device says that this build has no filters */
}

void filter_name(int number, char *name, size_t size)
{
	(void)number;
	memset(name, 0, size);
}
#endif
