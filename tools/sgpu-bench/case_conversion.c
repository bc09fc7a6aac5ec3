/* SPDX-License-Identifier: Apache-2.0
 *
 * conversion: the time to convert pages between private and shared, by the hardware or by a model
 * (no figure mixes the two), and what conversions cost a stream of copies. The model adds up the
 * published steps from terms that every sample measures anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cases.h"

enum { SEED = 12, SMALL = 4 << 10, HUGE = 2 << 20, BATCHES = 4, WAYS_MAX = 5 };
static const uint64_t batches[BATCHES] = { 1, 8, 64, 512 }; /* pages of a call */

struct call {
	bool to_private;
	uint64_t pages, page_bytes;
};

/* ---- the ways ---- */
/* Entries of Linux's page-state change (VMGEXIT_PSC_MAX_ENTRY), of 4 KiB or 2 MiB each. A TDX
 * guest's call to its hypervisor goes through the TDX module both ways. */
enum { SNP_ENTRIES = 64, TDX_EXITS = 2 };

/* The terms: an exit with the entry after it; the change of the call's page-table entries, with the
 * TLB shootdown; a fault for, and clearing, one page. */
struct costs {
	double exit_ns, flip_ns, fault_ns, clear_ns;
};

/* A variant. The pool stays shared; data to fill it are first copied there. The heaps and models
 * convert.
 *
 * A model's time is the sum of its terms, without what only the hardware can time: SNP's PVALIDATE
 * and RMPUPDATE, and all of TDG.MEM.PAGE.ACCEPT but the clearing. In SNP and TDX the host maps each
 * page anew; the TDX module also clears each accepted page. */
struct way {
	const char *name;
	enum { POOL, POOL_FILLED, SHARED_HEAP, PRIVATE_HEAP, MODEL } by;
	bool flips;
	bool faults, clears;	 /* for each page; clears: only to private */
	unsigned exits, entries; /* exits of a call; pages for which it has another one, or 0 */
};

static const struct way flows[] = {
	{ "snp, exit-free", MODEL, true, false, false, 0, 0 },
	{ "snp", MODEL, true, true, false, 0, SNP_ENTRIES },
	{ "tdx", MODEL, true, true, true, TDX_EXITS, 0 },
};

static double sum_of(const struct way *way, const struct call *call, const struct costs *costs)
{
	const uint64_t exits =
		way->exits + (way->entries ? (call->pages + way->entries - 1) / way->entries : 0);
	const double page_ns = (way->faults ? costs->fault_ns : 0) +
			       (way->clears && call->to_private ? costs->clear_ns : 0);

	return (way->flips ? costs->flip_ns : 0) + (double)exits * costs->exit_ns +
	       (double)call->pages * page_ns;
}

/* ---- what is timed ---- */
struct conversion {
	struct sgpu_bench *bench;
	bool has_exits;	    /* in a virtual machine, exits can be timed */
	int heaps[2];	    /* shared; ordinary, or -1 */
	void *huge, *small; /* a huge page, and as much in small pages */
	sgpu_devptr device_memory;
	void *pool, *private; /* pinned where the device can; ordinary */
	uint64_t room;	      /* bytes of the three above */
	/* of the point */
	const struct way *ways;
	struct call call;
	uint64_t copied; /* bytes that a sample also copies to the device */
};

/* Converts as a TDX or SNP guest does: the heap of shared dma-bufs converts a buffer's pages at its
 * allocation, and back at its end. The ordinary heap does all but convert. */
static int by_heap(int heap, const struct call *call, double *ns, struct sgpu_error *error)
{
	struct dma_heap_allocation_data buffer = { .len = call->pages * call->page_bytes,
						   .fd_flags = O_RDWR | O_CLOEXEC };
	uint64_t begin = sgpu_now_ns();

	if (ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &buffer) != 0) {
		return sgpu_fail_errno(error, "cannot allocate %llu bytes of a heap",
				       (unsigned long long)buffer.len);
	}
	*ns = (double)(sgpu_now_ns() - begin);
	begin = sgpu_now_ns();
	close((int)buffer.fd);
	*ns = call->to_private ? (double)(sgpu_now_ns() - begin) : *ns;
	return SGPU_OK;
}

enum { EXITS = 16, FAULTS = 64, FLIPS = 512 };

/* Times the change of page-table entries. Those of small pages stand for any size. */
static double time_flip(struct conversion *c, uint64_t pages)
{
	const uint64_t entries = pages < FLIPS ? pages : FLIPS, size = entries * SMALL;
	uint8_t *memory = c->small;
	uint64_t begin, ns;

	for (uint64_t i = 0; i < size; i += SMALL) {
		((volatile uint8_t *)memory)[i] = 1;
	}
	begin = sgpu_now_ns();
	(void)!mprotect(memory, size, PROT_READ);
	ns = sgpu_now_ns() - begin;
	(void)!mprotect(memory, size, PROT_READ | PROT_WRITE);
	return (double)ns * (double)pages / (double)entries;
}

static void time_pages(struct conversion *c, uint64_t page_bytes, struct costs *costs)
{
	const uint64_t count = page_bytes == SMALL ? FAULTS : 1, size = count * page_bytes;
	uint8_t *memory = page_bytes == SMALL ? c->small : c->huge;
	uint64_t begin, touched;

	(void)madvise(memory, size, MADV_DONTNEED);
	begin = sgpu_now_ns();
	for (uint64_t i = 0; i < size; i += SMALL) {
		((volatile uint8_t *)memory)[i] = 1;
	}
	touched = sgpu_now_ns();
	explicit_bzero(memory, size);
	costs->fault_ns = (double)(touched - begin) / (double)count;
	costs->clear_ns = (double)(sgpu_now_ns() - touched) / (double)count;
}

static double by_model(struct conversion *c, const struct way *way, const struct call *call)
{
	struct costs costs = { .flip_ns = time_flip(c, call->pages) };
	const uint64_t begin = sgpu_now_ns();

	for (int i = 0; c->has_exits && i < EXITS; i++) {
		sgpu_bench_leave_guest();
	}
	costs.exit_ns = c->has_exits ? (double)(sgpu_now_ns() - begin) / EXITS : 0;
	time_pages(c, call->page_bytes, &costs);
	return sum_of(way, call, &costs);
}

/* Makes a call; with bytes to copy, a copy and two calls, which make the buffer shared and private
 * again. */
static int run_way(void *argument, struct sgpu_error *error)
{
	struct conversion *c = argument;
	const struct way *way = &c->ways[c->bench->variant];
	const uint64_t begin = sgpu_now_ns();
	struct call call = c->call;
	double total = 0, part = 0;
	int rc = SGPU_OK;

	if (c->copied > 0) {
		if (way->by == POOL_FILLED) {
			memcpy(c->pool, c->private, c->copied);
		}
		rc = bench_to_device(c->bench->stream, c->device_memory, c->pool, c->copied, error);
		total = (double)(sgpu_now_ns() - begin);
	}
	for (int i = c->copied ? 0 : 1; rc == SGPU_OK && way->by > POOL_FILLED && i < 2; i++) {
		if (way->by == MODEL) {
			part = by_model(c, way, &call);
		} else {
			rc = by_heap(c->heaps[way->by == PRIVATE_HEAP], &call, &part, error);
		}
		total += part;
		call.to_private = !call.to_private;
	}
	c->bench->ns = (uint64_t)(total + 0.5);
	return rc;
}

static int spoil_copy(void *argument, struct sgpu_error *error)
{
	const struct conversion *c = argument;

	return bench_clear(c->bench->stream, c->device_memory, c->copied, error);
}

static int verify_copy(void *argument, struct sgpu_error *error)
{
	const struct conversion *c = argument;
	int rc = bench_from_device(c->bench->stream, c->pool, c->device_memory, c->copied, error);

	return rc ? rc : sgpu_bench_check(c->pool, c->copied, SEED, error);
}

/* ---- points ---- */
/* The ways all make the same call. */
static int measure(struct conversion *c, const char *what, const char *source, struct call call,
		   uint64_t copied, const struct way *ways, int count, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = {
		.parameters = { { "what", what, 0 },
				{ "source", source, 0 },
				{ copied ? "size_bytes" : NULL, NULL, copied },
				{ "page_bytes", NULL, call.page_bytes },
				{ copied ? NULL : "pages", NULL, call.pages },
				{ strcmp(what, "conversion") == 0 ? "direction" : NULL,
				  call.to_private ? "to private" : "to shared", 0 } },
		.bytes = copied,
		.operations = copied ? 1 : call.pages,
	};
	struct sgpu_bench_variant variants[WAYS_MAX];

	c->ways = ways;
	c->call = call;
	c->copied = copied;
	for (int i = 0; i < count; i++) {
		variants[i] =
			(struct sgpu_bench_variant){ ways[i].name, copied ? spoil_copy : NULL,
						     run_way, copied ? verify_copy : NULL, c };
	}
	return sgpu_bench_measure(c->bench, &point, variants, count, error);
}

/* Compares copies through a shared pool with copies that convert each buffer by two calls. */
static int measure_stream(struct conversion *c, const char *source, uint64_t page_bytes,
			  const struct way *ways, int count, struct sgpu_error *error)
{
	static const uint64_t sizes[] = { HUGE, (uint64_t)64 << 20 };
	int rc = SGPU_OK;

	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(sizes); i++) {
		if (sizes[i] <= c->room && sgpu_bench_wants(c->bench, sizes[i])) {
			rc = measure(c, "stream", source,
				     (struct call){ false, sizes[i] / page_bytes, page_bytes },
				     sizes[i], ways, count, error);
		}
	}
	return rc;
}

static int measure_heap(struct conversion *c, struct sgpu_error *error)
{
	static const char heap[] = "/dev/dma_heap/system_cc_shared";
	static const struct way ways[] = { { .name = "pool", .by = POOL },
					   { .name = "pool, filled", .by = POOL_FILLED },
					   { .name = "shared heap", .by = SHARED_HEAP },
					   { .name = "private heap", .by = PRIVATE_HEAP } };
	const struct sgpu_bench_point point = { .parameters = { { "source", "hardware", 0 } } };
	int rc = SGPU_OK;

	c->heaps[0] = open(heap, O_RDONLY | O_CLOEXEC);
	if (c->heaps[0] < 0) {
		sgpu_bench_waive(c->bench, &point, NULL,
				 "%s: %s: TDX and SNP guests have it, from Linux 7 on", heap,
				 strerror(errno));
		return SGPU_OK;
	}
	c->heaps[1] = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	for (int i = 0; rc == SGPU_OK && i < 2 * BATCHES; i++) {
		rc = measure(c, "conversion", "hardware",
			     (struct call){ i % 2, batches[i / 2], SMALL }, 0, ways + 2,
			     c->heaps[1] < 0 ? 1 : 2, error);
	}
	rc = rc ? rc : measure_stream(c, "hardware", SMALL, ways, 3, error);
	close(c->heaps[0]);
	close(c->heaps[1]); /* or -1 */
	return rc;
}

/* Measures the terms alone, all batches both ways, and streaming. Variants that need exits come
 * last. */
static int measure_model(struct conversion *c, uint64_t page_bytes, struct sgpu_error *error)
{
	static const struct way terms[] = { { "flip", MODEL, true, false, false, 0, 0 },
					    { "fault", MODEL, false, true, false, 0, 0 },
					    { "clear", MODEL, false, false, true, 0, 0 },
					    { "exit", MODEL, false, false, false, 0, 1 } };
	static const struct way streams[] = {
		{ .name = "pool", .by = POOL },
		{ .name = "pool, filled", .by = POOL_FILLED },
		{ "converted, snp, exit-free", MODEL, true, false, false, 0, 0 },
		{ "converted, snp", MODEL, true, true, false, 0, SNP_ENTRIES },
		{ "converted, tdx", MODEL, true, true, true, TDX_EXITS, 0 },
	};
	const int most = c->bench->options.quick ? 1 : BATCHES;
	int rc = measure(c, "terms", "primitives", (struct call){ true, FAULTS, page_bytes }, 0,
			 terms, c->has_exits ? 4 : 3, error);

	for (int i = 0; rc == SGPU_OK && i < 2 * most; i++) {
		rc = measure(c, "conversion", "model",
			     (struct call){ i % 2, batches[i / 2], page_bytes }, 0, flows,
			     c->has_exits ? 3 : 1, error);
	}
	return rc ? rc
		  : measure_stream(c, "model", page_bytes, streams, c->has_exits ? 5 : 3, error);
}

static int make(struct conversion *c, struct sgpu_error *error)
{
	struct sgpu_bench *bench = c->bench;
	int rc = sgpu_bench_fits(bench, 2 * c->room, c->room, error);

	rc = rc ? rc : bench_new_pages(bench, HUGE, &c->huge, error);
	rc = rc ? rc : bench_new_pages(bench, HUGE, &c->small, error);
	rc = rc ? rc : bench_new_pages(bench, c->room, &c->private, error);
	rc = rc ? rc : sgpu_bench_new_pinned(bench, c->room, &c->pool, error);
	rc = rc ? rc : sgpu_bench_new_device_memory(bench, c->room, &c->device_memory, error);
	if (rc == SGPU_OK) {
		(void)madvise(c->small, HUGE, MADV_NOHUGEPAGE);
		(void)madvise(c->small, HUGE, MADV_DONTNEED);
		sgpu_bench_fill(c->pool, c->room, SEED);
		sgpu_bench_fill(c->private, c->room, SEED);
	}
	return rc;
}

int bench_conversion(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "source", "model", 0 } } };
	struct conversion c = { .bench = bench,
				.room = (uint64_t)(bench->options.quick ? 2 : 64) << 20 };
	int rc = make(&c, error);

	c.has_exits = sgpu_bench_measure_exit().guest_exit_cycles > 0;
	rc = rc ? rc : measure_heap(&c, error);
	if (rc == SGPU_OK && !c.has_exits) {
		sgpu_bench_waive(bench, &point, "exits",
				 "this is no virtual machine whose exits can be timed");
	}
	rc = rc ? rc : measure_model(&c, SMALL, error);
	return rc ? rc : measure_model(&c, HUGE, error);
}
