/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of system calls, through libseccomp. A call that no runner needs is trapped: the
 * handler says which one it was and ends the process. A call that is on no list fails with ENOSYS,
 * so that libraries use another call. Modules, which could remove the handler, run in other
 * processes.
 */
#include "harden.h"

#include <errno.h>

#include <sgpu/base.h>

#include "cli.h"

#if SGPU_SECCOMP
#include <asm/ioctls.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "seccomp_filter.h"

#define TRAP SCMP_ACT_TRAP
#define FORBID SCMP_ACT_ERRNO(EPERM)
#define UNKNOWN SCMP_ACT_ERRNO(ENOSYS)

/* Packed by hand: one call a line would take 300 lines. Calls that this architecture lacks are left
 * out. */
/* clang-format off */
/* Calls that a CPU run needs: files, memory, threads, the process itself, clocks, waiting,
 * signals. */
static const char *const needed[] = {
	"read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2",
	"lseek", "close", "close_range", "openat", "openat2", "fstat", "newfstatat", "statx", "statfs", "fstatfs",
	"faccessat", "faccessat2", "readlinkat", "getcwd", "dup", "dup3", "flock", "truncate", "ftruncate",
	"fallocate", "fadvise64", "readahead", "fsync", "fdatasync", "syncfs", "sync_file_range", "copy_file_range",
	"sendfile", "splice", "tee", "linkat", "renameat", "renameat2", "unlinkat", "mkdirat", "fchmod", "fchmodat",
	"umask", "utimensat", "getdents64", "memfd_create", "memfd_secret", "munmap", "mremap", "madvise", "msync",
	"mincore", "brk", "mlock", "mlock2", "munlock", "membarrier", "mbind", "set_mempolicy", "get_mempolicy",
	"futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "exit",
	"exit_group", "restart_syscall", "gettid", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid",
	"getresuid", "getresgid", "getgroups", "getpgid", "getsid", "uname", "sysinfo", "getrandom", "getrusage",
	"getrlimit", "getpriority", "times", "sched_yield", "sched_getaffinity", "sched_getparam",
	"sched_getscheduler", "sched_get_priority_max", "sched_get_priority_min", "getcpu", "clock_gettime",
	"clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "ppoll", "pselect6", "epoll_create1",
	"epoll_ctl", "epoll_pwait", "eventfd2", "signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime",
	"pipe2", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
	"rt_sigsuspend", "sigaltstack", "sendmsg", "recvmsg", "recvfrom", "wait4", "shutdown", "open", "creat",
	"stat", "lstat", "access", "readlink", "dup2", "link", "rename", "unlink", "mkdir", "rmdir", "chmod",
	"arch_prctl", "getpgrp", "time", "poll", "select", "epoll_wait", "pipe",
	NULL,
};

/* Calls that the signer needs, for its socket, memory, clocks, and the files of reports. */
static const char *const signer[] = {
	"read", "write", "readv", "writev", "preadv2", "pwritev2", "pread64", "lseek", "close", "openat", "fstat",
	"newfstatat", "statx", "faccessat", "faccessat2", "mkdirat", "unlinkat", "memfd_create", "ppoll", "recvmsg",
	"sendmsg", "brk", "munmap", "mremap", "madvise", "futex", "getrandom", "clock_gettime", "clock_nanosleep",
	"gettimeofday", "getpid", "gettid", "rt_sigprocmask", "rt_sigreturn", "restart_syscall", "exit",
	"exit_group", "open", "stat", "lstat", "access", "mkdir", "rmdir", "poll", "time",
	NULL,
};

/* Calls that no runner needs: for other programs and processes, other ways to files, control of the
 * machine and the kernel, other rights, the machine's time and name. */
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

/* Compares an argument that the kernel takes as an int: only its low 32 bits count. */
#define INT(index, value)                                                 \
	{                                                                 \
		index, SCMP_CMP_MASKED_EQ, 0xffffffffU, (uint32_t)(value) \
	}

/* Allows new threads, but no processes; signals to this process only; thread names; queries of
 * terminals, but no input to them; reading limits. Forbids signals to other processes through
 * descriptors, and memory that is both writable and executable. */
static void add_cpu_calls(scmp_filter_ctx filter, int *rc, bool sockets)
{
	const struct seccomp_rule rules[] = {
		/* Not trapped: the C library blocks signals around fork(), so a trap would kill the
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
		{ SCMP_ACT_ALLOW, "prlimit64", EQUAL(2, 0) }, /* no new limits */
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
					F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS,  F_GET_SEALS,
					F_SETLEASE };
	static const char *const others[] = { "socketpair", "tkill", NULL };
	static const struct scmp_arg_cmp unix_only = INT(0, AF_UNIX);

	seccomp_add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(controls); i++) {
		const struct scmp_arg_cmp command = INT(1, controls[i]);

		seccomp_add(filter, rc, SCMP_ACT_ALLOW, "fcntl", 1, &command);
	}
	seccomp_add_all(filter, rc, TRAP, others);
	seccomp_add(filter, rc, sockets ? SCMP_ACT_ALLOW : TRAP, "socket", sockets, &unix_only);
	if (sockets) {
		seccomp_add(filter, rc, SCMP_ACT_ALLOW, "connect", 0, NULL);
	}
	seccomp_add_all(filter, rc, SCMP_ACT_ALLOW, needed);
}

/* Allows no new threads, and no new executable memory. */
static void add_signer_calls(scmp_filter_ctx filter, int *rc)
{
	static const struct seccomp_rule rules[] = {
		{ SCMP_ACT_ALLOW, "mmap", BITS(2, PROT_EXEC, 0) },
		{ TRAP, "mmap", BITS(2, PROT_EXEC, PROT_EXEC) },
		{ SCMP_ACT_ALLOW, "mprotect", BITS(2, PROT_EXEC, 0) },
		{ TRAP, "mprotect", BITS(2, PROT_EXEC, PROT_EXEC) },
	};
	static const char *const others[] = { "socket", "socketpair", "kill",
					      "tkill",	"tgkill",     NULL };

	seccomp_add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
	seccomp_add_all(filter, rc, TRAP, others);
	seccomp_add_all(filter, rc, SCMP_ACT_ALLOW, signer);
}

static void add_gpu_calls(scmp_filter_ctx filter, int *rc)
{
	static const unsigned long namespaces[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
						    CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
						    CLONE_NEWNET };
	static const struct seccomp_rule rules[] = {
		{ FORBID, "socket", OTHER(0, AF_UNIX) },
		{ FORBID, "ioctl", INT(1, TIOCSTI) },
		{ FORBID, "ioctl", INT(1, TIOCLINUX) },
		{ FORBID, "prctl", INT(0, PR_SET_DUMPABLE) },
		{ FORBID, "prctl", INT(0, PR_SET_MM) },
		{ FORBID, "prctl", INT(0, PR_SET_PTRACER) },
		{ FORBID, "prctl", INT(0, PR_SET_KEEPCAPS) },
		{ FORBID, "prctl", INT(0, PR_CAP_AMBIENT) },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(namespaces); i++) {
		const struct scmp_arg_cmp flag = BITS(0, namespaces[i], namespaces[i]);

		seccomp_add(filter, rc, TRAP, "clone", 1, &flag);
	}
	seccomp_add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
}

/* The handler of a trapped call, which the kernel has not made. Ends the process, since this
 * program's own code makes no such call. */
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

/* Installs the filter and the handler. Returns 0, or a negative errno. */
static int load(enum harden_kind kind)
{
	const struct sigaction action = { .sa_sigaction = on_refused, .sa_flags = SA_SIGINFO };
	scmp_filter_ctx filter = seccomp_init(kind == HARDEN_GPU ? SCMP_ACT_ALLOW : UNKNOWN);
	int rc = !filter ? -ENOMEM : sigaction(SIGSYS, &action, NULL) != 0 ? -errno : 0;

	if (kind == HARDEN_GPU) {
		/* The flags of clone3() lie in memory, where a filter cannot look. The C library
		 * falls back to clone(). Under the other kinds of filter, clone3() is unknown
		 * anyway. */
		seccomp_add(filter, &rc, UNKNOWN, "clone3", 0, NULL);
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
	return rc;
}

#else
static int load(enum harden_kind kind)
{
	(void)kind;
	return -ECANCELED;
}
#endif

bool harden_filters(void)
{
	return SGPU_SECCOMP && !cli_harden_off();
}

int harden_filter(enum harden_kind kind, struct sgpu_error *error)
{
	const int rc = cli_harden_off() ? 0 : load(kind);

	errno = -rc;
	return rc == 0 ? SGPU_OK
	       : rc != -ECANCELED && rc != -ESRCH
		       ? sgpu_fail_errno(error, "system calls are not filtered")
		       : sgpu_fail(error, SGPU_EUNAVAILABLE,
				   "system calls are not filtered: this build has no libseccomp, "
				   "the kernel has no seccomp or forbids it, or a thread has a "
				   "filter of its own");
}
