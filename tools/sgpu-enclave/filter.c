/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of system calls, through libseccomp. A call that no runner needs is trapped: the
 * handler says which one it was and ends the process. A call that is on no list fails with ENOSYS,
 * so that libraries use another call. Modules, which could remove the handler, run in other
 * processes, under a filter with a listener.
 */
#include "harden.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "../module-host/host.h"
#include "cli.h"

#define TRAP SCMP_ACT_TRAP
#define FORBID SCMP_ACT_ERRNO(EPERM)
#define UNKNOWN SCMP_ACT_ERRNO(ENOSYS)

/* Packed by hand: one call a line would take 300 lines. Calls that this architecture lacks are left
 * out. */
/* clang-format off */
/* Calls of computing code: memory, threads, waiting, clocks, the process and its own signals,
 * reading and writing open files. Every kind of process may make these, modules no others. */
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

/* A CPU run needs these besides, for files, descriptors, memory and signals. */
static const char *const needed[] = {
	"pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "close_range", "openat", "openat2", "newfstatat",
	"statx", "statfs", "fstatfs", "faccessat", "faccessat2", "readlinkat", "getcwd", "dup", "dup3", "flock",
	"truncate", "ftruncate", "fallocate", "fadvise64", "readahead", "fsync", "fdatasync", "syncfs",
	"sync_file_range", "copy_file_range", "sendfile", "splice", "tee", "linkat", "renameat", "renameat2",
	"unlinkat", "mkdirat", "fchmod", "fchmodat", "umask", "utimensat", "getdents64", "memfd_create",
	"memfd_secret", "msync", "mincore", "mlock", "mlock2", "munlock", "mbind", "set_mempolicy", "get_mempolicy",
	"getresuid", "getresgid", "getgroups", "getpgid", "getsid", "getpriority", "pselect6", "epoll_create1",
	"epoll_ctl", "epoll_pwait", "eventfd2", "signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime",
	"pipe2", "rt_sigaction", "rt_sigtimedwait", "rt_sigsuspend", "sendmsg", "recvmsg", "recvfrom", "wait4",
	"shutdown", "open", "creat", "stat", "lstat", "access", "readlink", "dup2", "link", "rename", "unlink",
	"mkdir", "rmdir", "chmod", "getpgrp", "select", "epoll_wait", "pipe",
	NULL,
};

/* The signer needs these besides, for its socket, memory, and the files of reports. */
static const char *const signer[] = {
	"preadv2", "pwritev2", "openat", "newfstatat", "statx", "faccessat", "faccessat2", "mkdirat", "unlinkat",
	"memfd_create", "recvmsg", "sendmsg", "open", "stat", "lstat", "access", "mkdir", "rmdir",
	NULL,
};

/* No runner needs these: other programs and processes, other ways to files, control of the machine
 * and the kernel, other rights, the machine's time and name. */
static const char *const refused[] = {
	"execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise",
	"process_mrelease", "kcmp", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "open_by_handle_at", "mount",
	"umount2", "pivot_root", "chroot", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
	"mount_setattr", "fanotify_init", "quotactl", "quotactl_fd", "swapon", "swapoff", "init_module",
	"finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "bpf", "perf_event_open",
	"add_key", "request_key", "keyctl", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups",
	"capset", "unshare", "setns", "acct", "syslog", "vhangup", "sethostname", "setdomainname", "settimeofday",
	"clock_settime", "clock_adjtime", "adjtimex", "iopl", "ioperm", "modify_ldt",
	NULL,
};
/* clang-format on */

/* The action for a call whose argument compares as stated. */
struct seccomp_rule {
	uint32_t action;
	const char *name;
	struct scmp_arg_cmp argument;
};

#define BITS(index, mask, value) SCMP_CMP64(index, SCMP_CMP_MASKED_EQ, mask, value)
#define EQUAL(index, value) SCMP_CMP64(index, SCMP_CMP_EQ, (scmp_datum_t)(value), 0)
#define OTHER(index, value) SCMP_CMP64(index, SCMP_CMP_NE, (scmp_datum_t)(value), 0)
/* For an argument that is an int in the kernel: only its low 32 bits count. */
#define INT(index, value) BITS(index, 0xffffffffU, (uint32_t)(value))

/* Functions with `rc` keep the first failure, a negative errno, and then do nothing. */

/* Leaves out a call that this architecture lacks. */
static void seccomp_add(scmp_filter_ctx filter, int *rc, uint32_t action, const char *name,
			unsigned count, const struct scmp_arg_cmp *arguments)
{
	const int number = seccomp_syscall_resolve_name(name);

	if (*rc == 0 && number == __NR_SCMP_ERROR && action != SCMP_ACT_ALLOW) {
		*rc = -ENOSYS; /* this libseccomp cannot refuse the call */
	}
	if (*rc == 0 && number >= 0) {
		*rc = seccomp_rule_add_array(filter, action, number, count, arguments);
	}
}

static void seccomp_add_all(scmp_filter_ctx filter, int *rc, uint32_t action,
			    const char *const *names)
{
	for (; *names; names++) {
		seccomp_add(filter, rc, action, *names, 0, NULL);
	}
}

static void seccomp_add_rules(scmp_filter_ctx filter, int *rc, const struct seccomp_rule *rules,
			      size_t count)
{
	for (size_t i = 0; i < count; i++) {
		seccomp_add(filter, rc, rules[i].action, rules[i].name, 1, &rules[i].argument);
	}
}

/* foreign: the action for calls by the numbers of other architectures. */
static int seccomp_put_on(scmp_filter_ctx filter, int rc, uint32_t foreign)
{
	rc = rc ? rc : seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, foreign);
	rc = rc ? rc : seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return rc ? rc : seccomp_load(filter);
}

/* Allows threads, but no processes; signals to this process only; thread names; queries of
 * terminals, but no input to them; reading limits. Forbids signals to others through descriptors,
 * and memory that is both writable and executable. */
static void add_cpu_calls(scmp_filter_ctx filter, int *rc, bool sockets)
{
	const struct seccomp_rule rules[] = {
		/* Not trapped: the C library's fork() blocks signals, so a trap would kill the
		 * process without a message. */
		{ FORBID, "clone", BITS(0, CLONE_THREAD, 0) },
		{ SCMP_ACT_ALLOW, "clone", BITS(0, CLONE_THREAD, CLONE_THREAD) },
		{ SCMP_ACT_ALLOW, "tgkill", EQUAL(0, getpid()) },
		{ TRAP, "tgkill", OTHER(0, getpid()) },
		{ SCMP_ACT_ALLOW, "kill", EQUAL(0, getpid()) },
		{ TRAP, "kill", OTHER(0, getpid()) },
		{ SCMP_ACT_ALLOW, "prctl", INT(0, PR_SET_NAME) },
		{ SCMP_ACT_ALLOW, "prctl", INT(0, PR_GET_NAME) },
		{ SCMP_ACT_ALLOW, "prctl", INT(0, PR_GET_DUMPABLE) },
		{ SCMP_ACT_ALLOW, "prctl", INT(0, PR_GET_NO_NEW_PRIVS) },
		{ SCMP_ACT_ALLOW, "prctl", INT(0, PR_CAPBSET_READ) },
		{ SCMP_ACT_ALLOW, "prctl", INT(0, 0x53564d41) }, /* PR_SET_VMA: names memory */
		{ SCMP_ACT_ALLOW, "ioctl", INT(1, TCGETS) },
		{ SCMP_ACT_ALLOW, "ioctl", INT(1, 0x802c542a) }, /* TCGETS2 */
		{ SCMP_ACT_ALLOW, "ioctl", INT(1, TIOCGWINSZ) },
		{ SCMP_ACT_ALLOW, "ioctl", INT(1, FIONREAD) },
		{ SCMP_ACT_ALLOW, "ioctl", INT(1, FIONBIO) },
		{ SCMP_ACT_ALLOW, "ioctl", INT(1, TIOCOUTQ) }, /* of sockets */
		{ SCMP_ACT_ALLOW, "prlimit64", EQUAL(2, 0) },  /* no new limits */
		{ FORBID, "prlimit64", OTHER(2, 0) },
		{ SCMP_ACT_ALLOW, "mmap", BITS(2, PROT_WRITE, 0) },
		{ SCMP_ACT_ALLOW, "mmap", BITS(2, PROT_WRITE | PROT_EXEC, PROT_WRITE) },
		{ TRAP, "mmap", BITS(2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC) },
		{ SCMP_ACT_ALLOW, "mprotect", BITS(2, PROT_WRITE, 0) },
		{ SCMP_ACT_ALLOW, "mprotect", BITS(2, PROT_WRITE | PROT_EXEC, PROT_WRITE) },
		{ TRAP, "mprotect", BITS(2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC) },
	};
	/* Without F_SETOWN, F_SETSIG and F_SETOWN_EX, which can send signals to others. */
	static const int controls[] = { F_DUPFD,      F_GETFD,	    F_SETFD,	  F_GETFL,
					F_SETFL,      F_GETLK,	    F_SETLK,	  F_SETLKW,
					F_OFD_GETLK,  F_OFD_SETLK,  F_OFD_SETLKW, F_DUPFD_CLOEXEC,
					F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS,  F_GET_SEALS };
	static const char *const others[] = { "socketpair", "tkill", NULL };

	seccomp_add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(controls); i++) {
		seccomp_add(filter, rc, SCMP_ACT_ALLOW, "fcntl", 1, &INT(1, controls[i]));
	}
	seccomp_add_all(filter, rc, TRAP, others);
	seccomp_add(filter, rc, sockets ? SCMP_ACT_ALLOW : TRAP, "socket", sockets,
		    &INT(0, AF_UNIX));
	if (sockets) {
		seccomp_add(filter, rc, SCMP_ACT_ALLOW, "connect", 0, NULL);
	}
	seccomp_add_all(filter, rc, SCMP_ACT_ALLOW, computing);
	seccomp_add_all(filter, rc, SCMP_ACT_ALLOW, needed);
}

/* Allows no new threads, and no new executable memory. */
static void add_signer_calls(scmp_filter_ctx filter, int *rc)
{
	const struct seccomp_rule rules[] = {
		{ SCMP_ACT_ALLOW, "mmap", BITS(2, PROT_EXEC, 0) },
		{ TRAP, "mmap", BITS(2, PROT_EXEC, PROT_EXEC) },
		{ SCMP_ACT_ALLOW, "mprotect", BITS(2, PROT_EXEC, 0) },
		{ TRAP, "mprotect", BITS(2, PROT_EXEC, PROT_EXEC) },
	};
	static const char *const others[] = { "socket", "socketpair", "kill",
					      "tkill",	"tgkill",     NULL };

	seccomp_add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
	seccomp_add_all(filter, rc, TRAP, others);
	seccomp_add_all(filter, rc, SCMP_ACT_ALLOW, computing);
	seccomp_add_all(filter, rc, SCMP_ACT_ALLOW, signer);
}

/* Forbids signals to other processes, also to those of the same user. */
static void add_gpu_calls(scmp_filter_ctx filter, int *rc)
{
	static const unsigned long namespaces[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
						    CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
						    CLONE_NEWNET };
	const struct seccomp_rule rules[] = {
		{ FORBID, "socket", OTHER(0, AF_UNIX) },
		{ FORBID, "ioctl", INT(1, TIOCSTI) },
		{ FORBID, "ioctl", INT(1, TIOCLINUX) },
		{ FORBID, "prctl", INT(0, PR_SET_DUMPABLE) },
		{ FORBID, "prctl", INT(0, PR_SET_MM) },
		{ FORBID, "prctl", INT(0, PR_SET_PTRACER) },
		{ FORBID, "prctl", INT(0, PR_SET_KEEPCAPS) },
		{ FORBID, "prctl", INT(0, PR_CAP_AMBIENT) },
		{ FORBID, "kill", OTHER(0, getpid()) },
		{ FORBID, "tgkill", OTHER(0, getpid()) },
		{ FORBID, "rt_sigqueueinfo", OTHER(0, getpid()) },
		{ FORBID, "rt_tgsigqueueinfo", OTHER(0, getpid()) },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(namespaces); i++) {
		const struct scmp_arg_cmp flag = BITS(0, namespaces[i], namespaces[i]);

		seccomp_add(filter, rc, TRAP, "clone", 1, &flag);
	}
	seccomp_add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
	seccomp_add(filter, rc, FORBID, "tkill", 0, NULL);
	/* Its flags lie in memory, where a filter cannot look: the C library takes clone(). */
	seccomp_add(filter, rc, UNKNOWN, "clone3", 0, NULL);
}

/* Allows memory without code, threads but no processes, abort(), handlers of all signals but
 * SIGSYS, names of threads, and reading limits. A module sends no descriptors, which would count
 * against all processes of the user: WORKER_HANDOFF is closed before it is loaded. */
static void add_module_calls(scmp_filter_ctx filter, int *rc)
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
		{ SCMP_ACT_ALLOW, "sendmsg", EQUAL(0, WORKER_HANDOFF) },
	};
	const struct scmp_arg_cmp own_abort[] = { EQUAL(0, getpid()), EQUAL(2, SIGABRT) };

	seccomp_add(filter, rc, SCMP_ACT_ALLOW, "tgkill", 2, own_abort);
	seccomp_add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
	seccomp_add_all(filter, rc, SCMP_ACT_ALLOW, computing);
	seccomp_add(filter, rc, UNKNOWN, "clone3", 0, NULL); /* as above */
	/* No terminal is open. */
	seccomp_add(filter, rc, SCMP_ACT_ERRNO(ENOTTY), "ioctl", 0, NULL);
}

int harden_filter_module(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_NOTIFY);
	int rc = filter ? 0 : -ENOMEM;

	add_module_calls(filter, &rc);
	rc = seccomp_put_on(filter, rc, SCMP_ACT_KILL_PROCESS);
	return rc == 0 ? seccomp_notify_fd(filter) : -1; /* a release would close it */
}

/* Ends the process at a trapped call, which the kernel has not made, since this program's own code
 * makes none. */
static void on_refused(int signal, siginfo_t *info, void *context)
{
	const int number = info->si_syscall;
	const char *name = info->si_arch == seccomp_arch_native()
				   ? seccomp_syscall_resolve_num_arch(info->si_arch, number)
				   : NULL;
	char line[256];
	int size;

	(void)signal;
	(void)context;
	size = snprintf(line, sizeof(line),
			cli_json ? "{\"error\":{\"code\":\"%s\",\"text\":\"system call %d (%s) "
				   "refused: no runner needs it\","
				   "\"tool\":\"%s\"}}\n"
				 : "%s: error: system call %d (%s) refused: no runner needs it\n",
			cli_json ? sgpu_error_name(SGPU_EPOLICY) : cli_tool_name(), number,
			name ? name : "not one of this architecture", cli_tool_name());
	if (size > 0) {
		(void)!write(cli_error_fd, line, (size_t)size);
	}
	_exit(sgpu_exit_status(SGPU_EPOLICY));
}

int harden_filter(enum harden_kind kind, struct sgpu_error *error)
{
	const struct sigaction action = { .sa_sigaction = on_refused, .sa_flags = SA_SIGINFO };
	scmp_filter_ctx filter;
	int rc;

	if (cli_harden_off()) {
		return SGPU_OK;
	}
	filter = seccomp_init(kind == HARDEN_GPU ? SCMP_ACT_ALLOW : UNKNOWN);
	rc = !filter ? -ENOMEM : sigaction(SIGSYS, &action, NULL) != 0 ? -errno : 0;
	if (kind == HARDEN_GPU) {
		add_gpu_calls(filter, &rc);
	} else if (kind == HARDEN_SIGNER) {
		add_signer_calls(filter, &rc);
	} else {
		add_cpu_calls(filter, &rc, kind == HARDEN_TPM_SIGNER);
	}
	seccomp_add_all(filter, &rc, TRAP, refused);
	rc = rc ? rc : seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	rc = seccomp_put_on(filter, rc, TRAP);
	seccomp_release(filter);
	errno = -rc;
	return rc == 0 ? SGPU_OK
	       : rc != -ECANCELED && rc != -ESRCH
		       ? sgpu_fail_errno(error, "system calls are not filtered")
		       : sgpu_fail(error, SGPU_EUNAVAILABLE,
				   "system calls are not filtered: the kernel has no seccomp or "
				   "forbids it, or a thread has a filter of its own");
}
