/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that copies are measured with.
 */
#include <sys/mman.h>

#include "memory.h"

enum { PAGE = 4096 };
#define HUGE_PAGE ((uint64_t)2 << 20)

/* Whole huge pages, with one more to start at a multiple of their size. */
static uint64_t extent_of(uint64_t size)
{
	return (size / HUGE_PAGE + 1) * HUGE_PAGE;
}

int bench_map(uint64_t size, void **memory, struct sgpu_error *error)
{
	uint64_t extent = extent_of(size);
	volatile uint8_t *at;

	at = mmap(NULL, extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	*memory = NULL;
	if (at == MAP_FAILED) {
		return sgpu_fail_nomem(error);
	}
	(void)madvise((void *)(uintptr_t)at, extent, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < size; i += PAGE) {
		at[i] = 1;
	}
	*memory = (void *)(uintptr_t)at;
	return SGPU_OK;
}

void bench_unmap(void **memory, uint64_t size)
{
	if (*memory) {
		munmap(*memory, extent_of(size));
		*memory = NULL;
	}
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
