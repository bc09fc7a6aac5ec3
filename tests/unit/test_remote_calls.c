/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operation of a session over a ring costs beside the work itself: no allocation, no
 * thread, and while both sides are awake no system call. The CPU device has a thread for a stream,
 * and calls the kernel to wake it and to wait for it: of a group that is for the device, those
 * futex calls are left.
 */
#include "remote_harness.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { ROUNDS = 300 };

/* ---- allocations: the C library's own is behind these ---- */
static atomic_bool counting;
static atomic_int allocations;
static _Thread_local bool counted; /* of this thread */

#if !UNIT_SANITIZED
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

static void count(void)
{
	if (counted && atomic_load_explicit(&counting, memory_order_relaxed)) {
		atomic_fetch_add(&allocations, 1);
	}
}

void *malloc(size_t size)
{
	count();
	return __libc_malloc(size);
}

void *calloc(size_t many, size_t size)
{
	count();
	return __libc_calloc(many, size);
}

void *realloc(void *memory, size_t size)
{
	count();
	return __libc_realloc(memory, size);
}
#endif

static void count_worker(void)
{
	counted = true;
}

UNIT_TEST(a_prepared_operation_allocates_nothing)
{
	static struct adding a;
	struct sgpu_remote *remote;
	struct worker w;

	make_ends(&w);
	w.begin = count_worker;
	REQUIRE(start_service(&w));
	remote = open_remote(&w);
	REQUIRE(remote && load_adding(remote, &a) == SGPU_OK);
	for (int i = 0; i < 3; i++) {
		REQUIRE(add_once(remote, &a, i) == SGPU_OK);
	}
	counted = true;
	atomic_store(&counting, true);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(add_once(remote, &a, i) == SGPU_OK && is_added(&a, i));
	}
	atomic_store(&counting, false);
	counted = false;
	CHECK(atomic_load(&allocations) == 0);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* ---- system calls ---- */
static atomic_int calls;

static void note_call(int signal, siginfo_t *info, void *machine)
{
	(void)signal;
	(void)info;
	(void)machine;
	atomic_fetch_add(&calls, 1); /* it was not made */
}

/* From here on a system call of this thread, or of all, is counted and not made, but for giving way
 * in a spin and for the one named. */
static void trap_calls(unsigned also, unsigned flags)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, also, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = SGPU_ARRAY_LENGTH(filter), .filter = filter };

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0) {
		_exit(250);
	}
}

static _Atomic pid_t worker_thread;

static void note_thread(void)
{
	atomic_store(&worker_thread, gettid());
}

/* Whether all threads but the two of the session sleep, which those of the device do soon when it
 * has nothing to do. */
static bool others_sleep(void)
{
	DIR *threads = opendir("/proc/self/task");
	const struct dirent *one;
	bool sleep = threads != NULL;

	while (sleep && (one = readdir(threads))) {
		const pid_t thread = atoi(one->d_name);
		char path[64], state = 'S';
		FILE *file = NULL;

		if (thread > 0 && thread != gettid() && thread != atomic_load(&worker_thread)) {
			snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
			file = fopen(path, "r");
			sleep = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 &&
				state == 'S';
		}
		if (file) {
			fclose(file);
		}
	}
	if (threads) {
		closedir(threads);
	}
	return sleep;
}

/* In a process of its own, which cannot do anything else afterwards. Returns the calls of both
 * sides, 200 at most. */
static int run_trapped(bool with_work)
{
	const struct sigaction action = { .sa_sigaction = note_call, .sa_flags = SA_SIGINFO };
	static struct adding a;
	struct sgpu_remote *remote;
	struct worker w;
	bool good = true;

	if (!open_all()) {
		return 251;
	}
	make_ends(&w);
	w.near.spin_ns = w.far.spin_ns = UINT64_C(3600000000000); /* neither sleeps */
	w.begin = note_thread;
	if (!start_service(&w)) {
		return 252;
	}
	remote = open_remote(&w);
	if (!remote || load_adding(remote, &a) != SGPU_OK) {
		return 253;
	}
	for (int i = 0; i < ROUNDS; i++) { /* each of the device's workers has memory then */
		if (add_once(remote, &a, i) != SGPU_OK) {
			return 253;
		}
	}
	if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
		return 250;
	}
	while (!others_sleep()) {
		sched_yield();
	}
	trap_calls(with_work ? SYS_futex : SYS_sched_yield, SECCOMP_FILTER_FLAG_TSYNC);
	trap_calls(SYS_sched_yield, 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct sgpu_item wait = { .kind = SGPU_ITEM_KEY_FREE,
					  .object = 63 }; /* there is no such key */

		if (with_work) {
			good = good && add_once(remote, &a, i) == SGPU_OK && is_added(&a, i);
		} else {
			good = good && sgpu_remote_add(remote, &wait, NULL) == SGPU_OK &&
			       sgpu_remote_flush(remote, NULL) == SGPU_EUSAGE;
		}
	}
	(void)syscall(SYS_getppid); /* is counted */
	return !good ? 254 : atomic_load(&calls) < 200 ? atomic_load(&calls) : 200;
}

static int in_child(bool with_work)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		_exit(run_trapped(with_work));
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

UNIT_TEST(an_operation_makes_no_system_call_but_those_of_the_device)
{
	for (int with_work = 0; with_work < 2; with_work++) {
		const int status = in_child(with_work);

		if (status == 250) {
			SKIP("the kernel filters no system calls");
		}
		printf("# %s work: %d\n", with_work ? "with" : "without", status);
		CHECK(status == 1);
	}
}

int main(void)
{
	if (UNIT_SANITIZED || !on_cpu()) {
		printf("1..0 # SKIP the instrumentation calls the kernel by itself, and so does a "
		       "GPU's driver\n");
		return 0;
	}
	UNIT_RUN(an_operation_makes_no_system_call_but_those_of_the_device);
	if (!open_all()) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(a_prepared_operation_allocates_nothing);
	close_all();
	return unit_done();
}
