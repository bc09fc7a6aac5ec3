/* SPDX-License-Identifier: Apache-2.0
 *
 * The model: its terms are measured anew in every sample.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include <base/spin.h>
#include <sgpu/rpc.h>

#include "cli.h"
#include "conversion.h"
#include "transition.h"

enum { EXITS = 16, FAULTS = 64, FLIPS = 512, FLOWS = 3 };
#define GIANT_PAGE ((uint64_t)1 << 30)

/* Of this machine if it is a virtual one, else of the guest; 0: of neither. */
static double time_exit(struct conversion *c)
{
	struct sgpu_rpc_costs machine = { 0 };
	uint64_t ns = 0;

	if (sgpu_rpc_measure(&machine, NULL) == SGPU_OK && machine.guest_exit_cycles > 0) {
		const uint64_t begin = sgpu_now_ns();

		for (int i = 0; i < EXITS; i++) {
			bench_leave_guest();
		}
		ns = sgpu_now_ns() - begin;
	} else if (c->has_guest && !c->is_emulated &&
		   kvm_guest_run(&c->guest, KVM_GUEST_CPUID, EXITS, &ns, NULL) != SGPU_OK) {
		ns = 0;
	}
	return (double)ns / EXITS;
}

/* Entries of small pages stand for those of any size. */
static double time_flip(struct conversion *c, uint64_t pages)
{
	const uint64_t entries = pages < FLIPS ? pages : FLIPS, size = entries * CONVERSION_SMALL;
	uint8_t *memory = c->small;
	uint64_t begin, ns;

	for (uint64_t i = 0; i < size; i += CONVERSION_SMALL) {
		((volatile uint8_t *)memory)[i] = 1;
	}
	begin = sgpu_now_ns();
	(void)!mprotect(memory, size, PROT_READ);
	ns = sgpu_now_ns() - begin;
	(void)!mprotect(memory, size, PROT_READ | PROT_WRITE);
	return (double)ns * (double)pages / (double)entries;
}

/* Touches new pages, then clears them. A larger page counts as huge ones. */
static void time_pages(struct conversion *c, uint64_t page_bytes, struct conversion_costs *costs)
{
	const bool is_small = page_bytes == CONVERSION_SMALL;
	const uint64_t size = is_small ? FAULTS * CONVERSION_SMALL : CONVERSION_HUGE;
	uint8_t *memory = is_small ? c->small : c->huge;
	uint64_t begin, touched;

	(void)madvise(memory, size, MADV_DONTNEED);
	begin = sgpu_now_ns();
	for (uint64_t i = 0; i < size; i += CONVERSION_SMALL) {
		((volatile uint8_t *)memory)[i] = 1;
	}
	touched = sgpu_now_ns();
	explicit_bzero(memory, size);
	costs->fault_ns = (double)(touched - begin) * (double)page_bytes / (double)size;
	costs->clear_ns = (double)(sgpu_now_ns() - touched) * (double)page_bytes / (double)size;
}

/* detail: the terms. */
static int by_model(const struct conversion_way *w, const struct conversion_call *call, double *ns,
		    struct sgpu_error *error)
{
	const unsigned terms = (unsigned)w->detail;
	struct conversion_costs costs = { .exit_ns = time_exit(w->c),
					  .flip_ns = time_flip(w->c, call->pages) };

	if (costs.exit_ns <= 0 && conversion_exits(terms, call) > 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "no exit can be timed any more");
	}
	time_pages(w->c, call->page_bytes, &costs);
	*ns = conversion_model(terms, call, &costs);
	return SGPU_OK;
}

/* Both directions of all batches, and lines of the table for each batch. */
static int measure_sweep(struct conversion *c, unsigned threads, uint64_t page_bytes,
			 struct sgpu_error *error)
{
	struct conversion_way ways[] = {
		{ .name = "snp, exit-free", .convert = by_model, .detail = CONVERSION_SNP_PAPER },
		{ .name = "snp", .convert = by_model, .detail = CONVERSION_SNP },
		{ .name = "tdx", .convert = by_model, .detail = CONVERSION_TDX },
		{ .name = "snp, exits alone", .convert = by_model, .detail = CONVERSION_SNP_EXITS },
		{ .name = "tdx, exits alone", .convert = by_model, .detail = CONVERSION_TDX_EXITS },
	};
	const bool is_giant = page_bytes == GIANT_PAGE, has_exits = time_exit(c) > 0;
	const int batches = is_giant || c->bench->options.quick ? 1 : CONVERSION_BATCHES;
	int rc = SGPU_OK;

	for (int i = is_giant; rc == SGPU_OK && i < 2 * batches; i++) {
		const struct conversion_call call = { i % 2, conversion_batches[i / 2],
						      page_bytes };
		const bool is_told = has_exits && call.to_private && threads == 1;

		rc = conversion_measure(c, "conversion", "model", &call, threads, ways,
					is_told	    ? SGPU_ARRAY_LENGTH(ways)
					: has_exits ? FLOWS
						    : 1,
					error);
		for (int flow = 0; rc == SGPU_OK && is_told && flow < FLOWS; flow++) {
			const double exits =
				flow ? ways[FLOWS - 1 + flow].least_ns / ways[flow].least_ns : 0;

			cli_note("conversion: model, to private, pages of %7llu KiB, %3llu a call: "
				 "%8.0f ns a page, "
				 "exits %4.1f %%%s: %s",
				 (unsigned long long)page_bytes >> 10,
				 (unsigned long long)call.pages,
				 ways[flow].least_ns / (double)call.pages, 100 * exits,
				 exits < 0.05 ? ", under 5 %" : "", ways[flow].name);
		}
	}
	return rc;
}

static int measure_terms(struct conversion *c, unsigned threads, uint64_t page_bytes,
			 struct sgpu_error *error)
{
	struct conversion_way ways[] = {
		{ .name = "flip", .convert = by_model, .detail = CONVERSION_FLIP },
		{ .name = "fault", .convert = by_model, .detail = CONVERSION_FAULT },
		{ .name = "clear", .convert = by_model, .detail = CONVERSION_CLEAR },
		{ .name = "exit", .convert = by_model, .detail = CONVERSION_EXIT },
	};
	const struct conversion_call call = { false, FAULTS, page_bytes };

	return conversion_measure(c, "terms", "primitives", &call, threads, ways,
				  time_exit(c) > 0 ? 4 : 3, error);
}

static atomic_bool is_over;

static void *keep_busy(void *argument)
{
	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		sgpu_pause();
	}
	return argument;
}

/* Small pages, while other threads run, whose processors a shootdown has to reach. */
static int measure_threads(struct conversion *c, unsigned threads, struct sgpu_error *error)
{
	pthread_t busy[SGPU_POOL_JOBS_MAX];
	unsigned started = 1;
	int rc;

	atomic_store(&is_over, false);
	while (started < threads && pthread_create(&busy[started], NULL, keep_busy, NULL) == 0) {
		started++;
	}
	rc = started < threads ? sgpu_fail(error, SGPU_ENOMEM, "cannot start %u threads", threads)
			       : measure_terms(c, threads, CONVERSION_SMALL, error);
	rc = rc ? rc : measure_sweep(c, threads, CONVERSION_SMALL, error);
	atomic_store(&is_over, true);
	while (started > 1) {
		pthread_join(busy[--started], NULL);
	}
	return rc;
}

int conversion_by_model(struct conversion *c, struct sgpu_error *error)
{
	const struct conversion_way ways[] = {
		{ .name = "converted, snp, exit-free",
		  .convert = by_model,
		  .detail = CONVERSION_SNP_PAPER },
		{ .name = "converted, snp", .convert = by_model, .detail = CONVERSION_SNP },
		{ .name = "converted, tdx", .convert = by_model, .detail = CONVERSION_TDX },
	};
	const struct sgpu_bench_point point = { .parameters = { { "source", "model", 0 } } };
	const int count = time_exit(c) > 0 ? FLOWS : 1;
	int rc = measure_threads(c, 1, error);

	if (count == 1) {
		sgpu_bench_waive(c->bench, &point, "exits",
				 "this is no virtual machine whose exits can be timed; %s",
				 c->why.text);
	}
	rc = rc ? rc : measure_terms(c, 1, CONVERSION_HUGE, error);
	rc = rc ? rc : measure_sweep(c, 1, CONVERSION_HUGE, error);
	rc = rc ? rc : measure_sweep(c, 1, GIANT_PAGE, error);
	if (rc == SGPU_OK && c->bench->options.jobs > 1) {
		rc = measure_threads(c, c->bench->options.jobs, error);
	}
	rc = rc ? rc : conversion_stream(c, "model", CONVERSION_SMALL, ways, count, error);
	return rc ? rc : conversion_stream(c, "model", CONVERSION_HUGE, ways, count, error);
}
