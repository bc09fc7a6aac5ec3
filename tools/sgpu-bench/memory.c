/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that copies are measured with.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include <sgpu/stage.h>

#include "memory.h"

enum { PAGE = 4096 };
#define HUGE_PAGE ((uint64_t)2 << 20)

/* Bytes of the mapping that are on transparent huge pages. */
static uint64_t huge_bytes(const void *memory)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	uint64_t begin, end, kib, found = 0;
	bool inside = false;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2) {
			inside = begin <= (uintptr_t)memory && (uintptr_t)memory < end;
		} else if (inside && sscanf(line, "AnonHugePages: %" SCNu64, &kib) == 1) {
			found = kib << 10;
		}
	}
	if (file) {
		fclose(file);
	}
	return found;
}

static void end_pages(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	(void)bench;
	munmap((void *)what, size);
}

int bench_new_pages(struct sgpu_bench *bench, uint64_t size, enum bench_pages pages, int node,
		    void **memory, struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(bench);
	const bool reserved = pages == BENCH_PAGES_HUGE;
	/* Whole huge pages. Only where all are huge does the mapping begin at the beginning of one.
	 */
	const uint64_t extent = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE,
		       room = extent + (reserved ? 0 : HUGE_PAGE);
	void *mapped =
		mmap(NULL, room, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | (reserved ? MAP_HUGETLB : MAP_NORESERVE), -1, 0);
	volatile uint8_t *at =
		(uint8_t *)(((uintptr_t)mapped + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
	int rc;

	if (mapped == MAP_FAILED) {
		return reserved ? sgpu_fail(error, SGPU_EUNAVAILABLE,
					    "too few huge pages are reserved (vm.nr_hugepages)")
				: sgpu_fail_nomem(error);
	}
	*memory = (void *)(uintptr_t)at;
	if (!reserved) {
		(void)madvise(*memory, extent,
			      pages == BENCH_PAGES_SMALL ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	}
	rc = sgpu_bench_keep(bench, end_pages, (uintptr_t)mapped, room, error);
	if (rc == SGPU_OK && node >= 0) {
		rc = sgpu_numa_bind(*memory, extent, node, error);
	}
	for (uint64_t i = 0; rc == SGPU_OK && i < size; i += PAGE) {
		at[i] = 1;
	}
	if (rc == SGPU_OK && pages == BENCH_PAGES_TRANSPARENT &&
	    huge_bytes(*memory) < size / 10 * 9) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE,
			       "the kernel gave no transparent huge pages");
	}
	if (rc != SGPU_OK) {
		sgpu_bench_release(bench, mark);
	}
	return rc;
}

int bench_new_source(struct sgpu_bench *bench, enum bench_way way, enum bench_pages pages, int node,
		     uint64_t size, uint64_t seed, void **memory, struct sgpu_error *error)
{
	int rc;

	if (way == BENCH_PINNED ? !bench->info.pins_host_memory
				: way == BENCH_REGISTERED && !bench->info.registers) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "not to be had with device '%s'",
				 bench->info.selector);
	}
	rc = way == BENCH_PINNED ? sgpu_bench_new_pinned(bench, size, memory, error)
				 : bench_new_pages(bench, size, pages, node, memory, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(*memory, size, seed);
	}
	return rc || way != BENCH_REGISTERED ? rc
					     : sgpu_bench_register(bench, *memory, size, error);
}

void bench_spoil(void *memory, uint64_t size)
{
	uint8_t *at = memory;

	for (uint64_t i = 0; i < size; i += PAGE) {
		at[i] ^= 0x5a;
	}
}

int bench_verify(const void *memory, uint64_t size, uint64_t seed, struct sgpu_error *error)
{
	uint64_t at = sgpu_bench_check(memory, size, seed);

	return at == size ? SGPU_OK
			  : sgpu_fail(error, SGPU_EDIFFERS, "byte %llu of %llu did not arrive",
				      (unsigned long long)at, (unsigned long long)size);
}

int bench_finish(struct sgpu_stream *stream, int rc, const struct sgpu_task *tasks, int count,
		 const char *what, struct sgpu_error *error)
{
	const int waited = sgpu_stream_sync(stream, error);

	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "cannot %s: %s", what, sgpu_strerror(rc));
	}
	return waited == SGPU_OK ? sgpu_bench_tasks(tasks, count, error) : waited;
}

int bench_to_device(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
		    struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	const int rc = sgpu_copy_in(stream, to, from, size, &task);

	return bench_finish(stream, rc, &task, 1, "copy to the device", error);
}

int bench_from_device(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size,
		      struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	const int rc = sgpu_copy_out(stream, to, from, size, &task);

	return bench_finish(stream, rc, &task, 1, "copy from the device", error);
}

int bench_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
		struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	const int rc = sgpu_device_clear(stream, memory, size, &task);

	return bench_finish(stream, rc, &task, 1, "clear device memory", error);
}

int bench_verify_device(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
			uint64_t seed, void *scratch, struct sgpu_error *error)
{
	int rc;

	bench_spoil(scratch, size);
	rc = bench_from_device(stream, scratch, memory, size, error);
	return rc ? rc : bench_verify(scratch, size, seed, error);
}
