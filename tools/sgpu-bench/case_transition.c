/* SPDX-License-Identifier: Apache-2.0
 *
 * transition: what it costs to enter a function, the kernel, the hypervisor or a GPU, and to come
 * back. The figures include the cost of the loop.
 */
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/attest.h>

#include "base/base.h"
#include "cases.h"

/* Crosses and comes back `count` times, for some microseconds, so that reading the clock is less
 * than a hundredth. */
struct block {
	void (*cross)(uint64_t count);
	uint64_t count;
};

static int run_block(void *argument, struct sgpu_error *error)
{
	const struct block *b = argument;

	(void)error;
	b->cross(b->count);
	return SGPU_OK;
}

/* ---- calls of functions and of the kernel, exits from a guest and an enclave ---- */
static __attribute__((noinline)) void callee(void)
{
	__asm__ volatile("" ::: "memory"); /* or the call is optimised away */
}

#define LOOP(name, work)                               \
	static void name(uint64_t count)               \
	{                                              \
		for (uint64_t i = 0; i < count; i++) { \
			work;                          \
		}                                      \
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
		struct block block;
	} rows[] = {
		{ "call", "empty block", { do_nothing, 1 } },
		{ "call", "function", { call_function, 4096 } },
		{ "call", "system call", { call_kernel, 64 } },
		{ "exit", "cpuid", { leave_guest, 4 } },
		{ "exit", "enclave (Gramine)", { leave_enclave, 1 } },
	};
	struct sgpu_platform platform;
	int rc = SGPU_OK;

	sgpu_platform_detect(&platform);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(rows); i++) {
		struct block block = rows[i].block;
		const struct sgpu_bench_point point = {
			.parameters = { { "what", rows[i].what, 0 } },
			.operations = block.count,
		};
		const struct sgpu_bench_variant variant = { rows[i].name, NULL, run_block, NULL,
							    &block };

		if (block.cross == leave_guest && !platform.virtual_machine) {
			sgpu_bench_waive(bench, &point, rows[i].name,
					 "this is no virtual machine: CPUID leaves nothing");
		} else if (block.cross == leave_enclave &&
			   platform.kind != SGPU_PLATFORM_GRAMINE_SGX) {
			sgpu_bench_waive(bench, &point, rows[i].name,
					 "not in an enclave: %s, by %s",
					 sgpu_platform_name(platform.kind), platform.seen);
		} else {
			rc = sgpu_bench_measure(bench, &point, &variant, 1, error);
		}
	}
	return rc;
}

/* ---- from the host to a kernel that runs on a GPU, and back ---- */
enum { LINE = 64, WORDS = LINE / 4 };
/* A GPU that works answers sooner. */
#define PATIENCE_NS ((uint64_t)1000000000)

/* Announces itself, waits for the host's word, and writes another. */
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

SGPU_BENCH_ENDING(end_module, struct sgpu_device_module, sgpu_device_module_free)

static int measure_gpu(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "what", "gpu", 0 } } };
	struct gpu g = { .stream = bench->stream };
	const struct sgpu_bench_variant variant = { "word to a kernel and back", start_answer, ask,
						    NULL, &g };
	void *words;
	int rc, ended;

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
	rc = sgpu_device_module_load(bench->device, kernel, sizeof(kernel), &g.module, error);
	rc = rc ? rc : sgpu_bench_keep(bench, end_module, (uintptr_t)g.module, 0, error);
	rc = rc ? rc : sgpu_bench_measure(bench, &point, &variant, 1, error);
	g.words[0] = g.turn; /* ends a waiting kernel, whose task is here */
	ended = sgpu_stream_sync(g.stream, rc ? NULL : error);
	return rc ? rc : ended;
}

int bench_transition(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const int rc = measure_calls(bench, error);

	return rc ? rc : measure_gpu(bench, error);
}
