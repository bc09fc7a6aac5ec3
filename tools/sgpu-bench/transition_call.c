/* SPDX-License-Identifier: Apache-2.0
 *
 * Crossings of one thread: calls of functions and of the kernel, a signal, and the exits from a
 * virtual machine and from an enclave. What the loop itself costs is in the figures.
 */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/attest.h>

#include "transition.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static __attribute__((noinline)) void callee(void)
{
	__asm__ volatile("" ::: "memory"); /* so that the call remains */
}

static void (*volatile const pointer)(void) = callee;
static struct timespec now;
static pid_t process;
static volatile sig_atomic_t handled;
static struct sgpu_platform platform;

static void handle(int number)
{
	(void)number;
	handled++;
}

void bench_leave_guest(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	__cpuid(0, a, b, c, d);
#endif
}

/* A function that does the work `count` times. */
#define LOOP(name, work)                                                          \
	static int name(void *argument, uint64_t count, struct sgpu_error *error) \
	{                                                                         \
		(void)argument;                                                   \
		(void)error;                                                      \
		for (uint64_t i = 0; i < count; i++) {                            \
			work;                                                     \
		}                                                                 \
		return SGPU_OK;                                                   \
	}

LOOP(do_nothing, )
LOOP(call_function, callee())
LOOP(call_indirect, pointer())
LOOP(call_vdso, clock_gettime(CLOCK_MONOTONIC, &now))
LOOP(call_kernel, (void)syscall(SYS_getppid))
LOOP(send_signals, (void)kill(process, SIGURG))
LOOP(run_cpuid, bench_leave_guest())
LOOP(yield, sched_yield())

/* Each call returns after the handler has. */
static int signal_itself(void *argument, uint64_t count, struct sgpu_error *error)
{
	handled = 0;
	(void)send_signals(argument, count, error);
	return (uint64_t)handled == count
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS, "a signal was not handled");
}

static int leave_guests(void *argument, uint64_t count, struct sgpu_error *error)
{
	return platform.virtual_machine
		       ? run_cpuid(argument, count, error)
		       : sgpu_fail(error, SGPU_EUNAVAILABLE,
				   "this is no virtual machine: CPUID leaves nothing");
}

static int leave_enclave(void *argument, uint64_t count, struct sgpu_error *error)
{
	return platform.kind == SGPU_PLATFORM_GRAMINE_SGX
		       ? yield(argument, count, error)
		       : sgpu_fail(error, SGPU_EUNAVAILABLE, "not in an enclave: %s, by %s",
				   sgpu_platform_name(platform.kind), platform.seen);
}

int bench_transition_call(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct {
		const char *what;
		struct crossing crossing;
	} rows[] = {
		{ "call", { "empty block", .cross = do_nothing, .single = true } },
		{ "call", { "function", .cross = call_function } },
		{ "call", { "indirect function", .cross = call_indirect } },
		{ "call", { "vdso", .cross = call_vdso } },
		{ "call", { "system call", .cross = call_kernel } },
		{ "call", { "signal", .cross = signal_itself } },
		{ "exit", { "cpuid", .cross = leave_guests } },
		{ "exit", { "enclave (Gramine)", .cross = leave_enclave } },
	};
	void (*const before)(int) = signal(SIGURG, handle);
	int rc = SGPU_OK;

	process = getpid();
	sgpu_platform_detect(&platform);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(rows); i++) {
		const struct sgpu_bench_point point = { .parameters = {
								{ "what", rows[i].what, 0 } } };

		rc = bench_cross(bench, point, &rows[i].crossing, error);
	}
	(void)signal(SIGURG, before);
	return rc;
}
