/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls a function in every thread, by the signal with which the C library changes the user id of
 * all threads. Threads of libraries may block all signals but this one, which the C library lets no
 * thread block. The signal is free for use, since nothing here changes the user id. The handler is
 * set only during the call. */
#include "harden.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	SETXID = 33,
	THREADS_MAX = 8192,
	LOOKS = 20,
	MOMENT_MIN_NS = 20000,
	MOMENT_MAX_NS = 1000000
};
#define PATIENCE_NS ((uint64_t)10000000000)

/* The kernel's struct sigaction, which differs from the C library's. */
struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
#if defined(__x86_64__)
	void (*restorer)(void);
#endif
	uint64_t mask;
};

#if defined(__x86_64__)
enum { RESTORER = 0x04000000 };
void every_thread_return(void);
__asm__(".text\n"
	".type every_thread_return, @function\n"
	"every_thread_return:\n"
	"	movq $15, %rax\n" /* rt_sigreturn */
	"	syscall\n"
	".size every_thread_return, . - every_thread_return\n");
#endif

/* Threads that were signalled. outcome: 0 until the thread has made the call, then 1, or -1 if it
 * failed. */
static struct called {
	pid_t thread;
	atomic_int outcome;
} called[THREADS_MAX];
static atomic_int called_count; /* grows while handlers run; a thread's entry precedes its signal */
static bool (*to_call)(void);

static void on_call(int signal)
{
	const int saved = errno;
	const pid_t self = (pid_t)syscall(SYS_gettid);

	(void)signal;
	for (int i = 0; i < called_count; i++) {
		if (called[i].thread == self) {
			atomic_store(&called[i].outcome, to_call() ? 1 : -1);
		}
	}
	errno = saved;
}

/* Waits until the thread has made the call. Most threads do so immediately, so this function first
 * yields, then sleeps for growing times. Returns whether the call succeeded or the thread has
 * ended. */
static bool wait_for(const struct called *one)
{
	struct timespec moment = { 0, MOMENT_MIN_NS };
	uint64_t waited = 0;

	for (int i = 1; atomic_load(&one->outcome) == 0 && waited < PATIENCE_NS; i++) {
		if (i % LOOKS != 0) {
			sched_yield();
			continue;
		}
		if (syscall(SYS_tgkill, getpid(), one->thread, 0) != 0 && errno == ESRCH) {
			return true; /* the thread has ended */
		}
		nanosleep(&moment, NULL);
		waited += (uint64_t)moment.tv_nsec;
		moment.tv_nsec =
			moment.tv_nsec < MOMENT_MAX_NS ? 2 * moment.tv_nsec : MOMENT_MAX_NS;
	}
	return atomic_load(&one->outcome) > 0;
}

/* Signals all new threads, and waits for their calls. *any: there were new threads. *failure: an
 * errno if threads cannot be listed, else 0. */
static bool call_new_ones(bool *any, int *failure)
{
	const pid_t self = (pid_t)syscall(SYS_gettid);
	const int first = called_count;
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	bool good = tasks != NULL;

	*failure = good ? 0 : errno;
	while (good && (entry = readdir(tasks))) {
		pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

		int i = 0;

		while (i < called_count && called[i].thread != thread) {
			i++;
		}
		if (thread <= 0 || thread == self || i < called_count) {
			continue;
		}
		good = i < THREADS_MAX;
		if (good) {
			called[i].thread = thread;
			atomic_store(&called[i].outcome, 0);
			atomic_fetch_add(&called_count, 1);
			if (syscall(SYS_tgkill, getpid(), thread, SETXID) != 0) {
				/* A thread that has ended meanwhile needs no call. */
				atomic_store(&called[i].outcome, errno == ESRCH ? 1 : -1);
			}
		}
	}
	if (tasks) {
		closedir(tasks);
	}
	for (int i = first; good && i < called_count; i++) {
		good = wait_for(&called[i]);
	}
	*any = called_count > first;
	return good;
}

int every_thread(bool (*body)(void), struct sgpu_error *error)
{
	struct kernel_action action, before;
	bool good = true, any = true;
	int failure = 0;

	memset(&action, 0, sizeof(action));
	memset(&before, 0, sizeof(before));
	action.handler = on_call;
	action.flags = SA_RESTART | SA_ONSTACK;
#if defined(__x86_64__)
	action.flags |= RESTORER;
	action.restorer = every_thread_return;
#endif
	atomic_store(&called_count, 0);
	to_call = body;
	if (syscall(SYS_rt_sigaction, SETXID, &action, &before, sizeof(uint64_t)) != 0) {
		return sgpu_fail(error, SGPU_ESYSTEM,
				 "threads of this process cannot be told what they may open");
	}
	while (good && any) {
		good = call_new_ones(&any, &failure);
	}
	(void)syscall(SYS_rt_sigaction, SETXID, &before, NULL, sizeof(uint64_t));
	if (failure != 0) {
		errno = failure;
		sgpu_fail_errno(
			error,
			"files are not confined: the threads of this process cannot be listed");
		return failure == ENOENT ? sgpu_hint(error, "mount /proc") : SGPU_ESYSTEM;
	}
	if (!good || !body()) {
		return sgpu_fail(
			error, SGPU_ESYSTEM,
			"files are not confined: not every thread of this process follows");
	}
	return SGPU_OK;
}
