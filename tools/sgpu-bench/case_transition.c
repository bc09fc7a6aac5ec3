/* SPDX-License-Identifier: Apache-2.0
 *
 * transition: what it costs to cross a border and to come back: between functions, processes, the
 * kernel, and what lies beneath it. What the loop itself costs is in the figures.
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/attest.h>

#include "bare.h"
#include "base/cores.h"
#include "cases.h"
#include "pair.h"
#include "setup.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Crosses and comes back `count` times, and verifies that it did, if that takes no time.
 * SGPU_EUNAVAILABLE waives the point, with the error's text. */
typedef int cross_fn(void *argument, uint64_t count, struct sgpu_error *error);

/* The clock takes some tens of nanoseconds: less than a hundredth of a block. */
enum { BLOCK_NS = 5000, BLOCK_MAX = 1 << 16, TRIES = 5 };

struct block {
	cross_fn *cross;
	void *argument;
	uint64_t count;
};

static int run_block(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct block *b = argument;
	const uint64_t begin = sgpu_now_ns();
	const int rc = b->cross(b->argument, b->count, error);

	*ns = sgpu_now_ns() - begin;
	return rc;
}

/* By the shortest of some tries, so that no interrupt makes the blocks shorter. */
static int size_block(struct block *b, struct sgpu_error *error)
{
	uint64_t least = 0, ns;
	int rc = SGPU_OK;

	for (b->count = 1; rc == SGPU_OK && b->count < BLOCK_MAX; b->count *= 2) {
		least = UINT64_MAX;
		for (int i = 0; rc == SGPU_OK && i < TRIES; i++) {
			rc = run_block(b, &ns, error);
			least = ns < least ? ns : least;
		}
		if (least >= BLOCK_NS) {
			break;
		}
	}
	return rc;
}

/* The only variant of a point, whose `operations` are the fewest, of the powers of two, that take 5
 * us together; or one. */
static int measure(struct sgpu_bench *bench, struct sgpu_bench_point point, const char *name,
		   struct block block, bool single, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variant = BENCH_RUN(name, NULL, run_block, NULL, &block);
	int rc;

	block.count = 1;
	rc = single ? SGPU_OK : size_block(&block, error);
	point.operations = block.count;
	return rc == SGPU_OK ? sgpu_bench_measure(bench, &point, &variant, 1, error)
			     : bench_or_waive(bench, &point, name, rc, error);
}

/* ---- calls of functions and of the kernel, a signal, exits from a guest and an enclave ---- */
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

static int measure_calls(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const struct {
		const char *what, *name;
		cross_fn *cross;
	} rows[] = {
		{ "call", "empty block", do_nothing }, /* of one, however short */
		{ "call", "function", call_function },
		{ "call", "indirect function", call_indirect },
		{ "call", "vdso", call_vdso },
		{ "call", "system call", call_kernel },
		{ "call", "signal", signal_itself },
		{ "exit", "cpuid", leave_guests },
		{ "exit", "enclave (Gramine)", leave_enclave },
	};
	void (*const before)(int) = signal(SIGURG, handle);
	sigset_t own;
	int rc = SGPU_OK;

	sigemptyset(&own); /* which a parent may have blocked */
	sigaddset(&own, SIGURG);
	(void)pthread_sigmask(SIG_UNBLOCK, &own, NULL);
	process = getpid();
	sgpu_platform_detect(&platform);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(rows); i++) {
		const struct sgpu_bench_point point = { .parameters = {
								{ "what", rows[i].what, 0 } } };

		rc = measure(bench, point, rows[i].name, (struct block){ .cross = rows[i].cross },
			     i == 0, error);
	}
	(void)signal(SIGURG, before);
	return rc;
}

/* ---- round trips to another process, which does nothing but answer ---- */
static int go_there_and_back(void *argument, uint64_t count, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (uint64_t i = 0; rc == SGPU_OK && i < count; i++) {
		rc = pair_trip(argument, error);
	}
	return rc;
}

/* On one processor, who spins waits for the end of its time slice: that is no figure of a crossing.
 */
static int measure_trips(struct sgpu_bench *bench, struct sgpu_error *error)
{
	int cores[2] = { 0, 0 }, count = sgpu_find_cores(cores), rc = SGPU_OK;

	for (int w = 0; rc == SGPU_OK && w < 2 * PAIR_WAYS; w++) {
		const struct pair_way *way = &pair_ways[w % PAIR_WAYS];
		const bool two = w >= PAIR_WAYS;
		const int cpus[] = { cores[0], cores[two] };
		const struct sgpu_bench_point point = {
			.parameters = { { "what", "round trip", 0 },
					{ "placement", two ? "two cores" : "one core", 0 } }
		};
		struct pair pair;

		if (way->spins && !two) {
			continue;
		}
		if (two && count < 2) {
			sgpu_bench_waive(bench, &point, way->name, "one processor only");
			continue;
		}
		rc = pair_start(&pair, way, cpus, error);
		rc = rc == SGPU_OK
			     ? measure(bench, point, way->name,
				       (struct block){ go_there_and_back, &pair, 1 }, false, error)
			     : bench_or_waive(bench, &point, way->name, rc, error);
		pair_end(&pair);
	}
	return rc;
}

/* ---- from the host to a GPU and back: every sample is one of these ---- */
enum { ELEMENTS = 256, BYTES = ELEMENTS * 4, LINE = 64, WORDS = LINE / 4 };
/* A GPU that answers, answers sooner. */
#define PATIENCE_NS ((uint64_t)1000000000)

/* Says that it is there, waits for the host's word, and writes another. */
static const char kernel[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry answer(.param .u64 words, .param .u32 turn)\n"
	"{\n\t.reg .pred %other;\n\t.reg .b32 %turn, %word;\n\t.reg .b64 %words;\n"
	"\tld.param.u64 %words, [words];\n\tld.param.u32 %turn, [turn];\n"
	"\tst.volatile.u32 [%words+128], %turn;\n"
	"next:\n\tld.volatile.u32 %word, [%words];\n\tsetp.ne.u32 %other, %word, %turn;\n"
	"\t@%other bra next;\n\tst.volatile.u32 [%words+64], %turn;\n\tret;\n}\n";

struct gpu {
	struct sgpu_bench *bench;
	struct sgpu_stream *stream;
	struct bare *bare;   /* adds vectors of 1 and 2 */
	float sum[ELEMENTS]; /* what comes out */
	struct sgpu_recording *recording;
	struct sgpu_device_module *module;
	volatile uint32_t *words; /* in lines of their own: the host's, and two of the kernel's */
	uint32_t turn;
	struct sgpu_task task;
};

BENCH_ENDING(end_recording, struct sgpu_recording, sgpu_recording_free)
BENCH_ENDING(end_module, struct sgpu_device_module, sgpu_device_module_free)

static int clear_sum(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;

	g->task = (struct sgpu_task){ .untimed = true };
	return bare_prepare(g->bare, error);
}

static int verify_sum(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;
	int rc = bench_finish(g->stream, SGPU_OK, &g->task, 1, "launch", error);

	return rc ? rc : bare_verify(g->bare, error);
}

static int launch_on(struct sgpu_stream *stream, void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;

	return sgpu_bench_launch(g->bench, stream, &g->bare->call, &g->task, error);
}

/* What runs on is waited for before the result is verified. */
static int launch(void *argument, struct sgpu_error *error)
{
	return launch_on(((struct gpu *)argument)->stream, argument, error);
}

static int launch_and_wait(void *argument, struct sgpu_error *error)
{
	int rc = launch(argument, error);

	return rc == SGPU_OK ? sgpu_stream_sync(((struct gpu *)argument)->stream, error) : rc;
}

static int graph_and_wait(void *argument, struct sgpu_error *error)
{
	struct gpu *g = argument;
	int rc = sgpu_recording_launch(g->stream, g->recording, &g->task);

	return rc == SGPU_OK ? sgpu_stream_sync(g->stream, error)
			     : sgpu_fail(error, rc, "%s", sgpu_strerror(rc));
}

static int synchronize(void *argument, struct sgpu_error *error)
{
	return sgpu_device_synchronize(((struct gpu *)argument)->bench->device, error);
}

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

/* The kernel waits for the host's word already, when that is written. */
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

static int open_gpu(struct gpu *g, struct sgpu_error *error)
{
	struct sgpu_bench *bench = g->bench;
	void *words = NULL;
	int rc = bare_new(bench, "vector_add", BYTES, &g->bare, error);

	rc = rc ? rc : sgpu_bench_new_pinned(bench, (uint64_t)3 * LINE, &words, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	g->stream = g->bare->stream;
	g->words = words;
	memset(words, 0, (size_t)3 * LINE);
	g->bare->wanted = g->sum;
	for (int i = 0; i < ELEMENTS; i++) {
		g->bare->host[0][i] = 1;
		g->bare->host[1][i] = 2;
		g->sum[i] = 3;
	}
	rc = sgpu_device_record(bench->device, launch_on, g, &g->recording, error);
	rc = rc ? rc : sgpu_bench_keep(bench, end_recording, (uintptr_t)g->recording, 0, error);
	rc = rc ? rc
		: sgpu_device_module_load(bench->device, kernel, sizeof(kernel), &g->module, error);
	return rc ? rc : sgpu_bench_keep(bench, end_module, (uintptr_t)g->module, 0, error);
}

static int measure_gpu(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "what", "gpu", 0 } } };
	const size_t mark = sgpu_bench_mark(bench);
	struct gpu g = { .bench = bench };
	const struct sgpu_bench_variant variants[] = {
		BENCH_WORK("launch", clear_sum, launch, verify_sum, &g),
		BENCH_WORK("launch and wait", clear_sum, launch_and_wait, verify_sum, &g),
		BENCH_WORK("graph launch and wait", clear_sum, graph_and_wait, verify_sum, &g),
		BENCH_WORK("synchronise, idle", NULL, synchronize, NULL, &g),
		BENCH_WORK("word to a kernel and back", start_answer, ask, NULL, &g),
	};
	int rc = SGPU_OK;

	if (strcmp(bench->info.selector, "cpu") == 0) {
		sgpu_bench_waive(bench, &point, NULL, "no GPU: the device is '%s'",
				 bench->info.selector);
		return SGPU_OK;
	}
	rc = open_gpu(&g, error);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(variants); i++) {
		rc = sgpu_bench_measure(bench, &point, &variants[i], 1, error);
	}
	if (g.words) {
		g.words[0] = g.turn; /* nothing waits any more */
	}
	sgpu_bench_release(bench, mark);
	return rc;
}

int bench_transition(struct sgpu_bench *bench, struct sgpu_error *error)
{
	int rc = measure_calls(bench, error);

	rc = rc ? rc : measure_trips(bench, error);
	return rc ? rc : measure_gpu(bench, error);
}
