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

/* Whole huge pages. */
static uint64_t extent_of(uint64_t size)
{
	return (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* Memory that starts at a multiple of a huge page: the mapping is larger at first. */
static uint8_t *map_aligned(uint64_t extent)
{
	uint8_t *at = mmap(NULL, extent + HUGE_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before;

	if (at == MAP_FAILED) {
		return NULL;
	}
	before = (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
	if (before > 0) {
		munmap(at, before);
	}
	munmap(at + before + extent, HUGE_PAGE - before);
	return at + before;
}

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

/* NULL: there are no such pages. */
static volatile uint8_t *map_pages(uint64_t extent, enum bench_pages pages)
{
	uint8_t *at;

	if (pages == BENCH_PAGES_HUGE) {
		at = mmap(NULL, extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
		return at == MAP_FAILED ? NULL : at;
	}
	at = map_aligned(extent);
	if (at) {
		(void)madvise(at, extent, pages == BENCH_PAGES_SMALL ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	}
	return at;
}

static void end_pages(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	(void)bench;
	munmap((void *)what, extent_of(size));
}

int bench_new_pages(struct sgpu_bench *bench, uint64_t size, enum bench_pages pages, int node, void **memory,
		    struct sgpu_error *error)
{
	const size_t mark = sgpu_bench_mark(bench);
	volatile uint8_t *at = map_pages(extent_of(size), pages);
	int rc;

	if (!at) {
		return pages == BENCH_PAGES_HUGE ?
			       sgpu_fail(error, SGPU_EUNAVAILABLE, "too few huge pages are reserved (vm.nr_hugepages)") :
			       sgpu_fail_nomem(error);
	}
	*memory = (void *)(uintptr_t)at;
	rc = sgpu_bench_keep(bench, end_pages, (uintptr_t)at, size, error);
	if (rc == SGPU_OK && node >= 0) {
		rc = sgpu_numa_bind(*memory, extent_of(size), node, error);
	}
	for (uint64_t i = 0; rc == SGPU_OK && i < size; i += PAGE) {
		at[i] = 1;
	}
	if (rc == SGPU_OK && pages == BENCH_PAGES_TRANSPARENT && huge_bytes(*memory) < size / 10 * 9) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE, "the kernel gave no transparent huge pages");
	}
	if (rc != SGPU_OK) {
		sgpu_bench_release(bench, mark);
	}
	return rc;
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

	return at == size ? SGPU_OK : sgpu_fail(error, SGPU_EDIFFERS, "byte %llu of %llu did not arrive",
						(unsigned long long)at, (unsigned long long)size);
}

int bench_finish(struct sgpu_stream *stream, int rc, const struct sgpu_task *tasks, int count, const char *what,
		 struct sgpu_error *error)
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

int bench_from_device(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	const int rc = sgpu_copy_out(stream, to, from, size, &task);

	return bench_finish(stream, rc, &task, 1, "copy from the device", error);
}

int bench_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	const int rc = sgpu_device_clear(stream, memory, size, &task);

	return bench_finish(stream, rc, &task, 1, "clear device memory", error);
}
