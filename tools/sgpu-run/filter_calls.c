/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and numbers, by what the calls are for. Those whose arguments matter are in filter.c.
 */
#include "harden.h"

#include <stddef.h>
#include <sys/syscall.h>

#define CALL(name)                \
	{                         \
#name, SYS_##name \
	}
/* From 424 on, a call has the same number on every architecture; the headers that this is built
 * with may be older. */
#define NEW(name, number)     \
	{                     \
#name, number \
	}

/* Packed by hand: one call a line would take 300 lines. */
/* clang-format off */
/* Files, memory, threads, itself, clocks, waiting, signals. */
const struct filter_call filter_needed[] = {
	CALL(read), CALL(write), CALL(readv), CALL(writev), CALL(pread64), CALL(pwrite64), CALL(preadv),
	CALL(pwritev), CALL(preadv2), CALL(pwritev2), CALL(lseek), CALL(close), NEW(close_range, 436),
	CALL(openat), NEW(openat2, 437), CALL(fstat), CALL(newfstatat), CALL(statx), CALL(statfs),
	CALL(fstatfs), CALL(faccessat), NEW(faccessat2, 439), CALL(readlinkat), CALL(getcwd), CALL(dup),
	CALL(dup3), CALL(flock), CALL(truncate), CALL(ftruncate), CALL(fallocate),
	CALL(fadvise64), CALL(readahead), CALL(fsync), CALL(fdatasync), CALL(syncfs), CALL(sync_file_range),
	CALL(copy_file_range), CALL(sendfile), CALL(splice), CALL(tee), CALL(linkat), CALL(renameat),
	CALL(renameat2), CALL(unlinkat), CALL(mkdirat), CALL(fchmod), CALL(fchmodat), CALL(umask),
	CALL(utimensat), CALL(getdents64), CALL(memfd_create), NEW(memfd_secret, 447), 
	CALL(munmap), CALL(mremap), CALL(madvise), CALL(msync), CALL(mincore), CALL(brk),
	CALL(mlock), CALL(mlock2), CALL(munlock), CALL(membarrier), CALL(mbind), CALL(set_mempolicy),
	CALL(get_mempolicy), CALL(futex), NEW(futex_waitv, 449), CALL(set_robust_list),
	CALL(get_robust_list), CALL(rseq), CALL(set_tid_address), CALL(exit), CALL(exit_group),
	CALL(restart_syscall), CALL(gettid), CALL(getpid), CALL(getppid), CALL(getuid), CALL(geteuid),
	CALL(getgid), CALL(getegid), CALL(getresuid), CALL(getresgid), CALL(getgroups), CALL(getpgid),
	CALL(getsid), CALL(uname), CALL(sysinfo), CALL(getrandom), CALL(getrusage), CALL(getrlimit),
	CALL(getpriority), CALL(times), CALL(sched_yield), CALL(sched_getaffinity),
	CALL(sched_getparam), CALL(sched_getscheduler), CALL(sched_get_priority_max),
	CALL(sched_get_priority_min), CALL(getcpu), CALL(clock_gettime), CALL(clock_getres),
	CALL(clock_nanosleep), CALL(nanosleep), CALL(gettimeofday), CALL(ppoll), CALL(pselect6),
	CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_pwait), CALL(eventfd2), CALL(signalfd4),
	CALL(timerfd_create), CALL(timerfd_settime), CALL(timerfd_gettime), CALL(pipe2), CALL(rt_sigaction),
	CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(rt_sigpending), CALL(rt_sigtimedwait),
	CALL(rt_sigsuspend), CALL(sigaltstack),
	CALL(sendmsg), CALL(recvmsg), CALL(recvfrom), CALL(wait4), /* to the process that modules run in, which it has started */
	CALL(shutdown), /* of a session's connection */
#ifdef SYS_open /* what only older architectures have, x86 among them */
	CALL(open), CALL(creat), CALL(stat), CALL(lstat), CALL(access), CALL(readlink), CALL(dup2),
	CALL(link), CALL(rename), CALL(unlink), CALL(mkdir), CALL(rmdir), CALL(chmod), CALL(arch_prctl),
	CALL(getpgrp), CALL(time), CALL(poll), CALL(select), CALL(epoll_wait), CALL(pipe),
#endif
	{ NULL, 0 },
};

/* Its socket, memory, clocks, and the files of the platform's reports. */
const struct filter_call filter_signer[] = {
	CALL(read), CALL(write), CALL(readv), CALL(writev), CALL(preadv2), CALL(pwritev2), CALL(pread64), CALL(lseek),
	CALL(close), CALL(openat), CALL(fstat), CALL(newfstatat), CALL(statx), CALL(faccessat), NEW(faccessat2, 439),
	CALL(mkdirat), CALL(unlinkat), CALL(memfd_create), CALL(ppoll), CALL(recvmsg), CALL(sendmsg), CALL(brk),
	CALL(munmap), CALL(mremap), CALL(madvise), CALL(futex), CALL(getrandom), CALL(clock_gettime),
	CALL(clock_nanosleep), CALL(gettimeofday), CALL(getpid), CALL(gettid), CALL(rt_sigprocmask), CALL(rt_sigreturn),
	CALL(restart_syscall), CALL(exit), CALL(exit_group),
#ifdef SYS_open
	CALL(open), CALL(stat), CALL(lstat), CALL(access), CALL(mkdir), CALL(rmdir), CALL(poll), CALL(time),
#endif
	{ NULL, 0 },
};

/* Other programs and processes, other ways to files, the machine, the kernel's inside, other rights, its time and name. */
const struct filter_call filter_refused[] = {
	CALL(execve), CALL(execveat), CALL(ptrace), CALL(process_vm_readv), CALL(process_vm_writev),
	NEW(process_madvise, 440), NEW(process_mrelease, 448), CALL(kcmp), NEW(pidfd_open, 434),
	NEW(pidfd_getfd, 438), NEW(pidfd_send_signal, 424), CALL(open_by_handle_at), CALL(mount),
	CALL(umount2), CALL(pivot_root), CALL(chroot), NEW(move_mount, 429), NEW(fsopen, 430), NEW(fsconfig,
	431), NEW(fsmount, 432), NEW(fspick, 433), NEW(open_tree, 428), NEW(mount_setattr, 442),
	CALL(fanotify_init), CALL(quotactl), NEW(quotactl_fd, 443), CALL(swapon), CALL(swapoff),
	CALL(init_module), CALL(finit_module), CALL(delete_module), CALL(kexec_load), CALL(kexec_file_load),
	CALL(reboot), CALL(bpf), CALL(perf_event_open), CALL(add_key), CALL(request_key), CALL(keyctl),
	CALL(userfaultfd), NEW(io_uring_setup, 425), NEW(io_uring_enter, 426), NEW(io_uring_register, 427),
	CALL(setuid), CALL(setgid), CALL(setreuid), CALL(setregid), CALL(setresuid), CALL(setresgid),
	CALL(setfsuid), CALL(setfsgid), CALL(setgroups), CALL(capset), CALL(unshare), CALL(setns),
	CALL(acct), CALL(syslog), CALL(vhangup), CALL(sethostname), CALL(setdomainname), CALL(settimeofday),
	CALL(clock_settime), CALL(clock_adjtime), CALL(adjtimex),
#ifdef SYS_iopl
	CALL(iopl), CALL(ioperm), CALL(modify_ldt),
#endif
	{ NULL, 0 },
};
/* clang-format on */
