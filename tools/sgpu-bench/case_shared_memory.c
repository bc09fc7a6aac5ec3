/* SPDX-License-Identifier: Apache-2.0
 *
 * shared-memory: what it costs a kernel to read a word of each page of the host's memory: after a
 * copy to the device, in place over the bus, and by page faults, if the GPU reads ordinary memory
 * (HMM, ATS).
 */
#include <string.h>

#include "cases.h"
#include "setup.h"

enum { PAGE = 4096, THREADS = 512 };
static const struct bench_sizes sizes = { 4 << 10 | 64 << 10 | 2 << 20, UINT64_MAX, 2, 1, 0 };

/* One block of threads that read at the same time, each its own pages. */
static const char kernel[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry touch(.param .u64 memory, .param .u64 pages, .param .u64 result)\n"
	"{\n\t.reg .pred %end;\n\t.reg .b32 %thread;\n\t.reg .b64 %memory, %pages, %result, %page, "
	"%at, %word, %sum;\n"
	"\tld.param.u64 %memory, [memory];\n\tld.param.u64 %pages, [pages];\n\tld.param.u64 "
	"%result, [result];\n"
	"\tmov.u32 %thread, %tid.x;\n\tcvt.u64.u32 %page, %thread;\n\tmov.u64 %sum, 0;\n"
	"next:\n\tsetp.ge.u64 %end, %page, %pages;\n\t@%end bra done;\n"
	"\tshl.b64 %at, %page, 12;\n\tadd.u64 %at, %at, %memory;\n\tld.u64 %word, "
	"[%at];\n\tadd.u64 %sum, %sum, %word;\n"
	"\tadd.u64 %page, %page, 512;\n\tbra next;\n"
	"done:\n\tred.global.add.u64 [%result], %sum;\n\tret;\n}\n";

struct shared {
	struct sgpu_bench *bench;
	struct sgpu_stream *stream;
	struct sgpu_device_module *module;
	sgpu_devptr copy, result;
	void *pinned, *pageable;
	uint64_t size, seed;
};

enum { COPIED, IN_PLACE, FAULTS, VARIANTS };

/* The host's memory that is read. */
static void *memory_of(const struct shared *s)
{
	return s->bench->variant == FAULTS ? s->pageable : s->pinned;
}

static int read_pages(void *argument, struct sgpu_error *error)
{
	static const struct sgpu_module_shape shape = { { 1, 1, 1 }, { THREADS, 1, 1 }, 0 };
	static const size_t arg_sizes[] = { 8, 8, 8 };
	struct shared *s = argument;
	const bool copied = s->bench->variant == COPIED;
	uint64_t memory = copied ? s->copy : (uintptr_t)memory_of(s), pages = s->size / PAGE;
	void *const args[] = { &memory, &pages, &s->result };
	struct sgpu_task tasks[2] = { { .untimed = true }, { .untimed = true } };
	int rc = SGPU_OK;

	if (copied) {
		rc = sgpu_copy_in(s->stream, s->copy, memory_of(s), s->size, &tasks[0]);
	}
	rc = rc ? rc
		: sgpu_device_module_launch_on(s->stream, s->module, "touch", &shape, args,
					       arg_sizes, 3, NULL, &tasks[1]);
	return bench_finish(s->stream, rc, tasks, 2, "read the pages", error);
}

/* The CPU writes all pages, so that those that migrated to the device come back. */
static int prepare(void *argument, struct sgpu_error *error)
{
	struct shared *s = argument;

	sgpu_bench_fill(memory_of(s), s->size, ++s->seed);
	return bench_clear(s->stream, s->result, sizeof(uint64_t), error);
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct shared *s = argument;
	uint64_t expected = 0, sum = 0;
	int rc = bench_from_device(s->stream, &sum, s->result, sizeof(sum), error);

	for (uint64_t at = 0; at < s->size; at += PAGE) {
		uint64_t word;

		memcpy(&word, (const uint8_t *)memory_of(s) + at, sizeof(word));
		expected += word;
	}
	return rc == SGPU_OK && sum != expected
		       ? sgpu_fail(error, SGPU_EDIFFERS, "the kernel read other words")
		       : rc;
}

static int measure(void *argument, uint64_t size, struct sgpu_error *error)
{
	struct shared *s = argument;
	/* No `bytes`: a rate would mean whole pages, but only one word of each is read. */
	const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL, size } },
						.operations = size / PAGE };
	struct sgpu_bench_variant variants[VARIANTS] = {
		BENCH_VARIANT("pinned, copied", prepare, read_pages, verify, s),
		BENCH_VARIANT("pinned, in place", prepare, read_pages, verify, s),
		BENCH_VARIANT("page faults", prepare, read_pages, verify, s),
	};
	struct sgpu_bench *bench = s->bench;
	int rc = sgpu_bench_new_device_memory(bench, size, &s->copy, error);

	s->size = size;
	rc = rc ? rc : sgpu_bench_new_pinned(bench, size, &s->pinned, error);
	rc = rc ? rc : bench_new_pages(bench, size, BENCH_PAGES_SMALL, -1, &s->pageable, error);
	if (!bench->info.reads_pageable) {
		variants[FAULTS].why =
			"the GPU does not read ordinary memory by itself (neither HMM "
			"nor ATS)";
	}
	return rc ? rc : sgpu_bench_measure(bench, &point, variants, VARIANTS, error);
}

int bench_shared_memory(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct shared s = { .bench = bench };
	int rc = sgpu_bench_new_stream(bench, bench->device, &s.stream, error);

	rc = rc ? rc : bench_new_module(bench, kernel, &s.module, error);
	rc = rc ? rc : sgpu_bench_new_device_memory(bench, sizeof(uint64_t), &s.result, error);
	return rc ? rc : bench_each_size(bench, &sizes, measure, &s, error);
}
