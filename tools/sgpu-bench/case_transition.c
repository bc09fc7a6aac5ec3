/* SPDX-License-Identifier: Apache-2.0
 *
 * transition: what it costs to enter a function, another process, the kernel, the hypervisor or a
 * GPU, and to come back. The figures include the cost of the loop.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/attest.h>

#include "base/base.h"
#include "cases.h"
#include "setup.h"

/* Crosses and comes back `count` times, and verifies that it did, if that takes no time. */
typedef int cross_fn(void *argument, uint64_t count, struct sgpu_error *error);

enum { SPINS = 1 << 16 };

/* A block takes some microseconds, so that reading the clock is less than a hundredth of it. */
struct block {
	cross_fn *cross;
	void *argument;
	uint64_t count;
};

static int run_block(void *argument, struct sgpu_error *error)
{
	const struct block *b = argument;

	return b->cross(b->argument, b->count, error);
}

static int measure(struct sgpu_bench *bench, struct sgpu_bench_point point, const char *name,
		   struct block block, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variant =
		BENCH_VARIANT(name, NULL, run_block, NULL, &block);

	point.operations = block.count;
	return sgpu_bench_measure(bench, &point, &variant, 1, error);
}

/* ---- calls of functions and of the kernel, exits from a guest and an enclave ---- */
static __attribute__((noinline)) void callee(void)
{
	__asm__ volatile("" ::: "memory"); /* keeps the call from being optimised away */
}

static struct sgpu_platform platform;

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
LOOP(call_kernel, (void)syscall(SYS_getppid))
LOOP(leave_guest, sgpu_bench_leave_guest())
LOOP(leave_enclave, sched_yield())

static int measure_calls(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct {
		const char *what, *name;
		cross_fn *cross;
		uint64_t count;
	} rows[] = {
		{ "call", "empty block", do_nothing, 1 },
		{ "call", "function", call_function, 4096 },
		{ "call", "system call", call_kernel, 64 },
		{ "exit", "cpuid", leave_guest, 4 },
		{ "exit", "enclave (Gramine)", leave_enclave, 1 },
	};
	int rc = SGPU_OK;

	sgpu_platform_detect(&platform);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(rows); i++) {
		const struct sgpu_bench_point point = { .parameters = {
								{ "what", rows[i].what, 0 } } };

		if (rows[i].cross == leave_guest && !platform.virtual_machine) {
			sgpu_bench_waive(bench, &point, rows[i].name,
					 "this is no virtual machine: CPUID leaves nothing");
		} else if (rows[i].cross == leave_enclave &&
			   platform.kind != SGPU_PLATFORM_GRAMINE_SGX) {
			sgpu_bench_waive(bench, &point, rows[i].name,
					 "not in an enclave: %s, by %s",
					 sgpu_platform_name(platform.kind), platform.seen);
		} else {
			rc = measure(bench, point, rows[i].name,
				     (struct block){ rows[i].cross, NULL, rows[i].count }, error);
		}
	}
	return rc;
}

/* ---- round trips to another process, which does nothing but answer ---- */
/* Finds the first and the last processor of a set, which are of different cores unless it has one
 * core's alone. Returns how many there are; with one, both entries name it. */
static int find_cores(const cpu_set_t *set, int cpus[2])
{
	int count = 0;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, set)) {
			cpus[0] = count++ ? cpus[0] : cpu;
			cpus[1] = cpu;
		}
	}
	return count;
}

static bool bind_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* Round trips to a forked process, which shares pipes and memory. */
struct trip {
	bool spins; /* on words in shared memory; else both sleep in pipes */
	/* The number that each side sent last, in a cache line of its own. */
	struct {
		_Alignas(128) _Atomic uint32_t turn;
	} * words;
	uint32_t turn;
	int there[2], back[2];
	pid_t child;
};

static _Noreturn void answer(const struct trip *t, int cpu, pid_t parent)
{
	sigset_t all;
	char byte;

	sigfillset(&all); /* only the parent ends this process */
	if (sigprocmask(SIG_BLOCK, &all, NULL) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
	    getppid() != parent || !bind_to_cpu(cpu)) {
		_exit(1);
	}
	for (uint32_t turn = 1; t->spins; turn++) {
		while (atomic_load(&t->words[0].turn) != turn) {
			sgpu_pause();
		}
		atomic_store(&t->words[1].turn, turn);
	}
	while (read(t->there[0], &byte, 1) == 1 && write(t->back[1], &byte, 1) == 1) {
	}
	_exit(1);
}

/* When the other process dies, the pipe that only it writes to ends. */
static int go_there_and_back(void *argument, uint64_t count, struct sgpu_error *error)
{
	struct trip *t = argument;
	siginfo_t dead = { .si_pid = 0 };
	bool came = true;
	char byte = 0;

	for (uint64_t i = 0; came && i < count; i++) {
		if (!t->spins) {
			ssize_t got = write(t->there[1], &byte, 1);

			while (got == 1 && (got = read(t->back[0], &byte, 1)) < 0 &&
			       errno == EINTR) {
				got = 1;
			}
			came = got == 1;
			continue;
		}
		atomic_store(&t->words[0].turn, ++t->turn);
		for (unsigned n = 1; came && atomic_load(&t->words[1].turn) != t->turn; n++) {
			sgpu_pause();
			came = n % SPINS != 0 ||
			       waitid(P_PID, (id_t)t->child, &dead, WEXITED | WNOHANG | WNOWAIT) ||
			       !dead.si_pid;
		}
	}
	return came ? SGPU_OK : sgpu_fail(error, SGPU_ESYSTEM, "no answer of the other process");
}

static int start_trips(struct trip *t, const int cpus[2], struct sgpu_error *error)
{
	const pid_t parent = getpid();

	t->words = mmap(NULL, 2 * sizeof(*t->words), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t->words == MAP_FAILED || pipe(t->there) != 0 || pipe(t->back) != 0) {
		return sgpu_fail_errno(error, "cannot make a pipe");
	}
	t->child = fork();
	if (t->child == 0) {
		answer(t, cpus[1], parent);
	}
	close(t->back[1]);
	t->back[1] = -1;
	return t->child > 0 && bind_to_cpu(cpus[0])
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot start another process");
}

static void end_trips(struct trip *t)
{
	if (t->child > 0) {
		kill(t->child, SIGKILL);
		(void)waitpid(t->child, NULL, 0);
	}
	for (int i = 0; i < 2; i++) {
		close(t->there[i]); /* or -1 */
		close(t->back[i]);
	}
	if (t->words && t->words != MAP_FAILED) {
		munmap(t->words, 2 * sizeof(*t->words));
	}
}

/* On one processor, a spinning side would wait for the end of its time slice, so that is not
 * measured. */
static int measure_trips(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct {
		const char *placement, *name;
		bool two, spins;
	} rows[] = { { "one core", "pipe", false, false },
		     { "two cores", "pipe", true, false },
		     { "two cores", "spin", true, true } };
	cpu_set_t before;
	const bool known = sched_getaffinity(0, sizeof(before), &before) == 0;
	int cores[2] = { 0, 0 }, count = known ? find_cores(&before, cores) : 0, rc = SGPU_OK;

	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(rows); i++) {
		const int cpus[] = { cores[0], cores[rows[i].two] };
		const char *why = rows[i].two && count < 2 ? "one processor only"
				  : platform.kind == SGPU_PLATFORM_GRAMINE_SGX ||
						  platform.kind == SGPU_PLATFORM_GRAMINE_DIRECT
					  ? "two processes share no memory under Gramine"
					  : NULL;
		const struct sgpu_bench_point point = {
			.parameters = { { "what", "round trip", 0 },
					{ "placement", rows[i].placement, 0 } }
		};
		struct trip trip = { .spins = rows[i].spins,
				     .there = { -1, -1 },
				     .back = { -1, -1 } };

		if (why) {
			sgpu_bench_waive(bench, &point, rows[i].name, "%s", why);
			continue;
		}
		rc = start_trips(&trip, cpus, error);
		rc = rc ? rc
			: measure(bench, point, rows[i].name,
				  (struct block){ go_there_and_back, &trip, trip.spins ? 32 : 1 },
				  error);
		end_trips(&trip);
	}
	if (known) {
		(void)sched_setaffinity(0, sizeof(before), &before);
	}
	return rc;
}

/* ---- from the host to a kernel that runs on a GPU, and back ---- */
enum { LINE = 64, WORDS = LINE / 4 };
/* A GPU that works answers sooner. */
#define PATIENCE_NS ((uint64_t)1000000000)

/* A kernel that announces itself, waits for the host's word, and writes another. */
static const char kernel[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry answer(.param .u64 words, .param .u32 turn)\n"
	"{\n\t.reg .pred %other;\n\t.reg .b32 %turn, %word;\n\t.reg .b64 %words;\n"
	"\tld.param.u64 %words, [words];\n\tld.param.u32 %turn, [turn];\n"
	"\tst.volatile.u32 [%words+128], %turn;\n"
	"next:\n\tld.volatile.u32 %word, [%words];\n\tsetp.ne.u32 %other, %word, %turn;\n"
	"\t@%other bra next;\n\tst.volatile.u32 [%words+64], %turn;\n\tret;\n}\n";

struct gpu {
	struct sgpu_stream *stream;
	struct sgpu_device_module *module;
	volatile uint32_t *words; /* the host's and the kernel's two, a line each */
	uint32_t turn;
	struct sgpu_task task;
};

static int see_word(const struct gpu *g, int line, struct sgpu_error *error)
{
	const uint64_t begin = sgpu_now_ns();

	while (g->words[line * WORDS] != g->turn) {
		if (sgpu_now_ns() - begin > PATIENCE_NS) {
			return sgpu_fail(error, SGPU_EDEVICE, "the GPU did not write a word");
		}
	}
	return SGPU_OK;
}

/* Starts the kernel, which then waits for the host's word. */
static int start_answer(void *argument, struct sgpu_error *error)
{
	static const struct sgpu_module_shape shape = { { 1, 1, 1 }, { 1, 1, 1 }, 0 };
	struct gpu *g = argument;
	uint64_t words = (uintptr_t)g->words;
	void *const args[] = { &words, &g->turn };
	const size_t sizes[] = { sizeof(words), sizeof(g->turn) };
	int rc = sgpu_stream_sync(g->stream, error);

	if (rc == SGPU_OK) {
		g->turn++;
		g->task = (struct sgpu_task){ .untimed = true };
		rc = sgpu_device_module_launch_on(g->stream, g->module, "answer", &shape, args,
						  sizes, 2, NULL, &g->task);
		rc = rc ? sgpu_fail(error, rc, "cannot launch: %s", sgpu_strerror(rc))
			: see_word(g, 2, error);
	}
	return rc;
}

static int ask(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;

	g->words[0] = g->turn;
	return see_word(g, 1, error);
}

static int measure_gpu(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "what", "gpu", 0 } } };
	const size_t mark = sgpu_bench_mark(bench);
	struct gpu g = { .turn = 0 };
	const struct sgpu_bench_variant variant =
		BENCH_VARIANT("word to a kernel and back", start_answer, ask, NULL, &g);
	void *words;
	int rc;

	if (strcmp(bench->info.selector, "cpu") == 0) {
		sgpu_bench_waive(bench, &point, NULL, "no GPU: the device is '%s'",
				 bench->info.selector);
		return SGPU_OK;
	}
	rc = sgpu_bench_new_pinned(bench, (uint64_t)3 * LINE, &words, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	g.words = memset(words, 0, (size_t)3 * LINE);
	rc = sgpu_bench_new_stream(bench, bench->device, &g.stream, error);
	rc = rc ? rc : bench_new_module(bench, kernel, &g.module, error);
	rc = rc ? rc : sgpu_bench_measure(bench, &point, &variant, 1, error);
	g.words[0] = g.turn; /* ends a kernel that still waits */
	sgpu_bench_release(bench, mark);
	return rc;
}

int bench_transition(struct sgpu_bench *bench, struct sgpu_error *error)
{
	int rc = measure_calls(bench, error);

	rc = rc ? rc : measure_trips(bench, error);
	return rc ? rc : measure_gpu(bench, error);
}
