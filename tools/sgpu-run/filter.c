/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of system calls, through libseccomp. A call that no runner needs is trapped: the
 * handler says which one it was and ends the process. One that is merely not on a list of what is
 * allowed fails with ENOSYS, for which libraries have another way. Modules, which could take the
 * handler away, are not in this process.
 */
#include "harden.h"

#include <errno.h>

#include <sgpu/base.h>

#include "cli.h"

#if SGPU_SECCOMP
#include <asm/ioctls.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRAP SCMP_ACT_TRAP
#define FORBID SCMP_ACT_ERRNO(EPERM)
#define UNKNOWN SCMP_ACT_ERRNO(ENOSYS)

/* From 424 on a number is the same on every architecture. */
enum { CLONE3 = 435 };

/* A call, and what is done about it when one of its arguments is so. */
struct rule {
	uint32_t action;
	unsigned number;
	struct scmp_arg_cmp argument;
};

/* Of an argument that the kernel takes as an int it sees the low half, and so does this. */
#define INT(index, value)                                                 \
	{                                                                 \
		index, SCMP_CMP_MASKED_EQ, 0xffffffffU, (uint32_t)(value) \
	}
#define BITS(index, mask, value)                       \
	{                                              \
		index, SCMP_CMP_MASKED_EQ, mask, value \
	}
#define OTHER(index, value)                                  \
	{                                                    \
		index, SCMP_CMP_NE, (scmp_datum_t)(value), 0 \
	}
#define EQUAL(index, value)                                  \
	{                                                    \
		index, SCMP_CMP_EQ, (scmp_datum_t)(value), 0 \
	}

/* The first failure stays. */
static void add(scmp_filter_ctx filter, int *rc, uint32_t action, unsigned number,
		const struct scmp_arg_cmp *argument)
{
	if (*rc == 0) {
		*rc = seccomp_rule_add_array(filter, action, (int)number, argument ? 1 : 0,
					     argument);
	}
}

static void add_all(scmp_filter_ctx filter, int *rc, uint32_t action,
		    const struct filter_call *calls)
{
	for (; calls->name; calls++) {
		add(filter, rc, action, calls->number, NULL);
	}
}

static void add_rules(scmp_filter_ctx filter, int *rc, const struct rule *rules, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		add(filter, rc, rules[i].action, rules[i].number, &rules[i].argument);
	}
}

/* Threads, but no processes; signals to itself; names of threads; what a terminal is, but nothing
 * typed into it; limits may be read; no signal for others by way of a descriptor, no memory that is
 * code and can be written. */
static void add_cpu_calls(scmp_filter_ctx filter, int *rc, bool sockets)
{
	const struct rule rules[] = {
		/* Not trapped: the C library blocks signals around these, and the trap would kill
		   without a word. */
		{ FORBID, SYS_clone, BITS(0, CLONE_THREAD, 0) },
		{ SCMP_ACT_ALLOW, SYS_clone, BITS(0, CLONE_THREAD, CLONE_THREAD) },
		{ SCMP_ACT_ALLOW, SYS_tgkill, EQUAL(0, getpid()) },
		{ TRAP, SYS_tgkill, OTHER(0, getpid()) },
		{ SCMP_ACT_ALLOW, SYS_kill, EQUAL(0, getpid()) },
		{ TRAP, SYS_kill, OTHER(0, getpid()) },
		{ SCMP_ACT_ALLOW, SYS_prctl, INT(0, PR_SET_NAME) },
		{ SCMP_ACT_ALLOW, SYS_prctl, INT(0, PR_GET_NAME) },
		{ SCMP_ACT_ALLOW, SYS_prctl, INT(0, PR_GET_DUMPABLE) },
		{ SCMP_ACT_ALLOW, SYS_prctl, INT(0, PR_GET_NO_NEW_PRIVS) },
		{ SCMP_ACT_ALLOW, SYS_prctl, INT(0, PR_CAPBSET_READ) },
		{ SCMP_ACT_ALLOW, SYS_prctl, INT(0, 0x53564d41) }, /* PR_SET_VMA: names memory */
		{ SCMP_ACT_ALLOW, SYS_ioctl, INT(1, TCGETS) },
		{ SCMP_ACT_ALLOW, SYS_ioctl, INT(1, 0x802c542a) }, /* TCGETS2 */
		{ SCMP_ACT_ALLOW, SYS_ioctl, INT(1, TIOCGWINSZ) },
		{ SCMP_ACT_ALLOW, SYS_ioctl, INT(1, FIONREAD) },
		{ SCMP_ACT_ALLOW, SYS_ioctl, INT(1, FIONBIO) },
		{ SCMP_ACT_ALLOW, SYS_prlimit64, EQUAL(2, 0) }, /* no new limits */
		{ FORBID, SYS_prlimit64, OTHER(2, 0) },
		{ SCMP_ACT_ALLOW, SYS_mmap, BITS(2, PROT_WRITE, 0) },
		{ SCMP_ACT_ALLOW, SYS_mmap, BITS(2, PROT_WRITE | PROT_EXEC, PROT_WRITE) },
		{ TRAP, SYS_mmap, BITS(2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC) },
		{ SCMP_ACT_ALLOW, SYS_mprotect, BITS(2, PROT_WRITE, 0) },
		{ SCMP_ACT_ALLOW, SYS_mprotect, BITS(2, PROT_WRITE | PROT_EXEC, PROT_WRITE) },
		{ TRAP, SYS_mprotect, BITS(2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC) },
	};
	/* F_DUPFD to F_SETLKW, F_DUPFD_CLOEXEC, pipes, seals; none of F_SETOWN, F_SETSIG,
	 * F_SETOWN_EX. */
	static const int controls[] = { F_DUPFD,      F_GETFD,	    F_SETFD,	  F_GETFL,
					F_SETFL,      F_GETLK,	    F_SETLK,	  F_SETLKW,
					F_OFD_GETLK,  F_OFD_SETLK,  F_OFD_SETLKW, F_DUPFD_CLOEXEC,
					F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS,  F_GET_SEALS,
					F_SETLEASE };
	static const unsigned others[] = { SYS_socketpair, SYS_tkill };
	static const struct scmp_arg_cmp unix_only = INT(0, AF_UNIX);

	add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(controls); i++) {
		const struct scmp_arg_cmp command = INT(1, controls[i]);

		add(filter, rc, SCMP_ACT_ALLOW, SYS_fcntl, &command);
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(others); i++) {
		add(filter, rc, TRAP, others[i], NULL);
	}
	add(filter, rc, sockets ? SCMP_ACT_ALLOW : TRAP, SYS_socket, sockets ? &unix_only : NULL);
	if (sockets) {
		add(filter, rc, SCMP_ACT_ALLOW, SYS_connect, NULL);
	}
#ifdef SYS_fork
	add(filter, rc, FORBID, SYS_fork, NULL);
	add(filter, rc, FORBID, SYS_vfork, NULL);
#endif
	add_all(filter, rc, SCMP_ACT_ALLOW, filter_needed);
}

/* No threads, no code but its own. */
static void add_signer_calls(scmp_filter_ctx filter, int *rc)
{
	static const struct rule rules[] = {
		{ SCMP_ACT_ALLOW, SYS_mmap, BITS(2, PROT_EXEC, 0) },
		{ TRAP, SYS_mmap, BITS(2, PROT_EXEC, PROT_EXEC) },
		{ SCMP_ACT_ALLOW, SYS_mprotect, BITS(2, PROT_EXEC, 0) },
		{ TRAP, SYS_mprotect, BITS(2, PROT_EXEC, PROT_EXEC) },
	};
	static const unsigned others[] = { SYS_socket, SYS_socketpair, SYS_kill, SYS_tkill,
					   SYS_tgkill };

	add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(others); i++) {
		add(filter, rc, TRAP, others[i], NULL);
	}
	add_all(filter, rc, SCMP_ACT_ALLOW, filter_signer);
}

static void add_gpu_calls(scmp_filter_ctx filter, int *rc)
{
	static const unsigned long namespaces[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
						    CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
						    CLONE_NEWNET };
	static const struct rule rules[] = {
		{ FORBID, SYS_socket, OTHER(0, AF_UNIX) },
		{ FORBID, SYS_ioctl, INT(1, TIOCSTI) },
		{ FORBID, SYS_ioctl, INT(1, TIOCLINUX) },
		{ FORBID, SYS_prctl, INT(0, PR_SET_DUMPABLE) },
		{ FORBID, SYS_prctl, INT(0, PR_SET_MM) },
		{ FORBID, SYS_prctl, INT(0, PR_SET_PTRACER) },
		{ FORBID, SYS_prctl, INT(0, PR_SET_KEEPCAPS) },
		{ FORBID, SYS_prctl, INT(0, PR_CAP_AMBIENT) },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(namespaces); i++) {
		const struct scmp_arg_cmp flag = BITS(0, namespaces[i], namespaces[i]);

		add(filter, rc, TRAP, SYS_clone, &flag);
	}
	add_rules(filter, rc, rules, SGPU_ARRAY_LENGTH(rules));
}

/* What libseccomp said, as a negative errno; the filter is on when it is 0. */
static int load(enum harden_kind kind)
{
	scmp_filter_ctx filter = seccomp_init(kind == HARDEN_GPU ? SCMP_ACT_ALLOW : UNKNOWN);
	int rc = filter ? 0 : -ENOMEM;

	if (kind == HARDEN_GPU) {
		/* Its flags lie in memory, where a filter cannot look: clone() does the same, and
		 * is what the C library takes then. For the others it is unknown as all else is. */
		add(filter, &rc, UNKNOWN, CLONE3, NULL);
		add_gpu_calls(filter, &rc);
	} else if (kind == HARDEN_SIGNER) {
		add_signer_calls(filter, &rc);
	} else {
		add_cpu_calls(filter, &rc, kind == HARDEN_TPM_SIGNER);
	}
	add_all(filter, &rc, TRAP, filter_refused);
	rc = rc ? rc : seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, TRAP);
	rc = rc ? rc : seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (rc == 0) {
		(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE,
				       2); /* of libseccomp 2.5 on */
		rc = seccomp_load(filter);
	}
	seccomp_release(filter);
	return rc;
}

/* ---- what was refused ---- */
static uint32_t native; /* the architecture */

static const char *name_of(unsigned number)
{
	static const struct filter_call others[] = {
		{ "clone", SYS_clone },
		{ "socket", SYS_socket },
		{ "socketpair", SYS_socketpair },
		{ "kill", SYS_kill },
		{ "tkill", SYS_tkill },
		{ "tgkill", SYS_tgkill },
		{ "mmap", SYS_mmap },
		{ "mprotect", SYS_mprotect },
		{ NULL, 0 },
	};
	const struct filter_call *const tables[] = { filter_refused, others };

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		for (const struct filter_call *call = tables[i]; call->name; call++) {
			if (call->number == number) {
				return call->name;
			}
		}
	}
	return "not one of this architecture";
}

/* The call was not made. There is no going on: what asked for it is not what this program is. */
static void on_refused(int signal, siginfo_t *info, void *context)
{
	const unsigned number = (unsigned)info->si_syscall;
	char line[256];
	int size;

	(void)signal;
	(void)context;
	size = snprintf(line, sizeof(line),
			cli_json ? "{\"error\":{\"code\":\"%s\",\"text\":\"system call %u (%s) "
				   "refused: no runner needs it\","
				   "\"tool\":\"sgpu-run\"}}\n"
				 : "%ssystem call %u (%s) refused: no runner needs it\n",
			cli_json ? sgpu_error_name(SGPU_EPOLICY) : "sgpu-run: error: ", number,
			info->si_arch == native ? name_of(number) : "not one of this architecture");
	if (size > 0) {
		(void)!write(cli_error_fd, line, (size_t)size);
	}
	_exit(sgpu_exit_status(SGPU_EPOLICY));
}

static int install(enum harden_kind kind, struct sgpu_error *error)
{
	const struct sigaction action = { .sa_sigaction = on_refused, .sa_flags = SA_SIGINFO };
	int rc;

	native = seccomp_arch_native();
	if (sigaction(SIGSYS, &action, NULL) != 0) {
		return sgpu_fail_errno(error, "system calls are not filtered");
	}
	rc = load(kind);
	if (rc == 0) {
		return SGPU_OK;
	}
	if (rc != -ECANCELED && rc != -ESRCH) {
		return sgpu_fail(error, SGPU_ENOMEM, "system calls are not filtered: %s",
				 sgpu_strerror(SGPU_ENOMEM));
	}
	return sgpu_fail(error, SGPU_EUNAVAILABLE,
			 "system calls are not filtered: the kernel has no seccomp, forbids it, or "
			 "a thread has a filter of its "
			 "own");
}
#else
static int install(enum harden_kind kind, struct sgpu_error *error)
{
	(void)kind;
	return sgpu_fail(error, SGPU_EUNAVAILABLE,
			 "system calls are not filtered: this build has no libseccomp");
}
#endif

bool harden_filters(void)
{
#if SGPU_SECCOMP
	return !cli_harden_off();
#else
	return false;
#endif
}

int harden_filter(enum harden_kind kind, struct sgpu_error *error)
{
	return cli_harden_off() ? SGPU_OK : install(kind, error);
}
