/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of system calls, as classic BPF. A call that no runner needs is trapped: the handler says which one it was and
 * ends the process. One that is merely not known on the CPU device fails with ENOSYS, for which libraries have another way.
 */

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "filter_calls.h"
#include "harden.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE
/* Calls by the numbers of x32 have this bit; no program here makes them. */
enum { X32 = 0x40000000, CLONE3 = 435, INSTRUCTIONS_MAX = 1024 };

struct code {
	struct sock_filter instructions[INSTRUCTIONS_MAX];
	unsigned short count;
	bool overflow;
};

static void add(struct code *code, unsigned short operation, unsigned char yes, unsigned char no, unsigned value)
{
	if (code->count == INSTRUCTIONS_MAX) {
		code->overflow = true;
		return;
	}
	code->instructions[code->count++] = (struct sock_filter){ operation, yes, no, value };
}

static void load(struct code *code, size_t offset)
{
	add(code, BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offset);
}

static void answer(struct code *code, unsigned action)
{
	add(code, BPF_RET | BPF_K, 0, 0, action);
}

/* What follows, up to `count` instructions, is for this number alone. */
static void only_for(struct code *code, unsigned number, unsigned char count)
{
	add(code, BPF_JMP | BPF_JEQ | BPF_K, 0, count, number);
}

static void answer_for(struct code *code, unsigned number, unsigned action)
{
	only_for(code, number, 1);
	answer(code, action);
}

static void answer_all(struct code *code, const struct filter_call *calls, unsigned action)
{
	for (; calls->name; calls++) {
		answer_for(code, calls->number, action);
	}
}

/* Half of an argument: the low one is all there is of an int. */
enum half { LOW, HIGH };

static size_t argument(int index, enum half half)
{
	const bool second = (half == HIGH) == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

	return offsetof(struct seccomp_data, args) + (size_t)index * sizeof(uint64_t) + (second ? sizeof(uint32_t) : 0);
}

/* `yes` when the argument is one of the values, else `no`. */
static void choose(struct code *code, unsigned number, int index, const unsigned *values, unsigned char count,
		   unsigned yes, unsigned no)
{
	only_for(code, number, (unsigned char)(count + 3));
	load(code, argument(index, LOW));
	for (unsigned char i = 0; i < count; i++) {
		add(code, BPF_JMP | BPF_JEQ | BPF_K, (unsigned char)(count - i), 0, values[i]);
	}
	answer(code, no);
	answer(code, yes);
}

/* `yes` when the argument has any of the bits, else `no`. */
static void choose_bits(struct code *code, unsigned number, int index, unsigned bits, unsigned yes, unsigned no)
{
	only_for(code, number, 4);
	load(code, argument(index, LOW));
	add(code, BPF_JMP | BPF_JSET | BPF_K, 1, 0, bits);
	answer(code, no);
	answer(code, yes);
}

/* `yes` when the argument is a NULL pointer, else `no`. */
static void choose_null(struct code *code, unsigned number, int index, unsigned yes, unsigned no)
{
	only_for(code, number, 6);
	load(code, argument(index, LOW));
	add(code, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0);
	load(code, argument(index, HIGH));
	add(code, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
	answer(code, yes);
	answer(code, no);
}

#define CHOOSE(code, number, index, values, yes, no) \
	choose(code, number, index, values, sizeof(values) / sizeof(*(values)), yes, no)

enum {
	ALLOW = SECCOMP_RET_ALLOW,
	TRAP = SECCOMP_RET_TRAP,
	FORBID = SECCOMP_RET_ERRNO | EPERM,
	UNKNOWN = SECCOMP_RET_ERRNO | ENOSYS,
	NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
		     CLONE_NEWNET,
};

/* Threads, but no processes; signals to itself; names of threads; what a terminal is, but nothing typed into it; limits may
 * be read. */
static void add_cpu_calls(struct code *code)
{
	const unsigned self[] = { (unsigned)getpid() };
	static const unsigned names[] = { PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS, PR_CAPBSET_READ,
					  0x53564d41 /* PR_SET_VMA: names memory */ };
	static const unsigned terminal[] = { TCGETS, 0x802c542a /* TCGETS2 */, TIOCGWINSZ, FIONREAD, FIONBIO };

	/* Not trapped: the C library blocks signals around these, and the trap would kill without a word. */
	choose_bits(code, SYS_clone, 0, CLONE_THREAD, ALLOW, FORBID);
#ifdef SYS_fork
	answer_for(code, SYS_fork, FORBID);
	answer_for(code, SYS_vfork, FORBID);
#endif
	answer_for(code, SYS_socket, TRAP);
	answer_for(code, SYS_socketpair, TRAP);
	CHOOSE(code, SYS_tgkill, 0, self, ALLOW, TRAP);
	CHOOSE(code, SYS_kill, 0, self, ALLOW, TRAP);
	answer_for(code, SYS_tkill, TRAP);
	CHOOSE(code, SYS_prctl, 0, names, ALLOW, FORBID);
	CHOOSE(code, SYS_ioctl, 1, terminal, ALLOW, FORBID);
	choose_null(code, SYS_prlimit64, 2, ALLOW, FORBID); /* the new limits */
	answer_all(code, filter_needed, ALLOW);
	answer(code, UNKNOWN);
}

static void add_gpu_calls(struct code *code)
{
	static const unsigned local[] = { AF_UNIX };
	static const unsigned typing[] = { TIOCSTI, TIOCLINUX };
	static const unsigned opening[] = { PR_SET_DUMPABLE, PR_SET_MM, PR_SET_PTRACER, PR_SET_KEEPCAPS, PR_CAP_AMBIENT };

	choose_bits(code, SYS_clone, 0, NAMESPACES, TRAP, ALLOW);
	CHOOSE(code, SYS_socket, 0, local, ALLOW, FORBID);
	CHOOSE(code, SYS_ioctl, 1, typing, FORBID, ALLOW);
	CHOOSE(code, SYS_prctl, 0, opening, FORBID, ALLOW);
	answer(code, ALLOW);
}

static void build(struct code *code, bool gpu)
{
	load(code, offsetof(struct seccomp_data, arch));
	add(code, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCHITECTURE);
	answer(code, TRAP);
	load(code, offsetof(struct seccomp_data, nr));
	add(code, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32);
	answer(code, TRAP);
	/* Its flags lie in memory, where a filter cannot look: clone() does the same, and is what the C library takes then. */
	answer_for(code, CLONE3, UNKNOWN);
	answer_all(code, filter_refused, TRAP);
	if (gpu) {
		add_gpu_calls(code);
	} else {
		add_cpu_calls(code);
	}
}

/* ---- what was refused ---- */
static const char *name_of(unsigned number)
{
	static const struct filter_call others[] = {
		{ "clone", SYS_clone }, { "socket", SYS_socket }, { "socketpair", SYS_socketpair }, { "kill", SYS_kill },
		{ "tkill", SYS_tkill }, { "tgkill", SYS_tgkill },
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
			cli_json ? "{\"error\":{\"code\":\"%s\",\"text\":\"system call %u (%s) refused: no runner needs it\","
				   "\"tool\":\"sgpu-run\"}}\n" :
				   "%ssystem call %u (%s) refused: no runner needs it\n",
			cli_json ? sgpu_error_name(SGPU_EPOLICY) : "sgpu-run: error: ", number,
			info->si_arch == ARCHITECTURE ? name_of(number) : "not one of this architecture");
	if (size > 0) {
		(void)!write(STDERR_FILENO, line, (size_t)size);
	}
	_exit(sgpu_exit_status(SGPU_EPOLICY));
}

static int install(bool gpu, struct sgpu_error *error)
{
	static struct code code;
	const struct sigaction action = { .sa_sigaction = on_refused, .sa_flags = SA_SIGINFO };
	struct sock_fprog program = { .filter = code.instructions };
	long rc;

	code.count = 0;
	build(&code, gpu);
	program.len = code.count;
	if (code.overflow || sigaction(SIGSYS, &action, NULL) != 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "system calls are not filtered: the filter is too long");
	}
	rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
	if (rc != 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, rc > 0 ? "system calls are not filtered: a thread has a filter of "
				 "its own" : "system calls are not filtered: the kernel has no seccomp, or forbids it");
	}
	return SGPU_OK;
}
#else
static int install(bool gpu, struct sgpu_error *error)
{
	(void)gpu;
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "system calls are not filtered: not on this architecture");
}
#endif

bool harden_filters(void)
{
#ifdef ARCHITECTURE
	return !cli_harden_off();
#else
	return false;
#endif
}

int harden_filter(bool gpu, struct sgpu_error *error)
{
	return cli_harden_off() ? SGPU_OK : install(gpu, error);
}
