/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of the CPU device: anonymous memory at reserved addresses. A frame only counts: its memory
 * is new, and zero, each time it is mapped. No page is dumped in a core file or inherited by a
 * child.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <base/base.h>
#include <device/cpu/cpu.h>

#define SMALL ((uint64_t)SGPU_CPU_PAGE)
#define BIG ((uint64_t)2 << 20)
/* Of less, the kernel would make more than is written. */
#define HUGE_LEAST (2 * BIG)

static int prepare(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_frames *frames = &device->frames;
	const uint64_t total =
		sgpu_min_u64(sgpu_cpu_memory_most(&device->memory), SGPU_FRAMES_MAX * SMALL) / BIG *
		BIG;

	if (frames->small == 0 && total > 0) {
		sgpu_frames_open(frames, SMALL, BIG, total / SMALL);
	}
	return frames->small != 0 ? SGPU_OK
				  : sgpu_fail(error, SGPU_EUNAVAILABLE,
					      "the device has no memory for a page of %llu bytes",
					      (unsigned long long)BIG);
}

/* ---- spaces: the lock is held ---- */
static bool protect(const struct sgpu_space *space, int protection)
{
	uint64_t at = 0, size;

	while (sgpu_space_next_run(space, &at, &size)) {
		if (mprotect(sgpu_cpu_pointer(space->range.address + at), size, protection) != 0) {
			return false;
		}
		at += size;
	}
	return true;
}

static int fault(struct sgpu_space *space, struct sgpu_error *error)
{
	sgpu_space_fault(space);
	return sgpu_fail(error, SGPU_EDEVICE,
			 "the kernel changed a part of a space's mappings and refused the rest");
}

/* Replaces mappings by reserved addresses or, if the kernel allows no more mappings, makes them
 * inaccessible and gives their memory back. The addresses are never released: other mappings could
 * be placed there. False: the kernel would have to cut a mapping in two and allows no more; nothing
 * has changed, or the space is faulted. */
static bool reserve_again(struct sgpu_space *space, uint64_t at, uint64_t size)
{
	void *start = sgpu_cpu_pointer(space->range.address + at);

	if (mmap(start, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		 -1, 0) != MAP_FAILED) {
		return true;
	}
	if (mprotect(start, size, PROT_NONE) == 0) {
		if (madvise(start, size, MADV_DONTNEED) != 0) {
			(void)fault(space, NULL);
		}
		return true;
	}
	/* The pages before the mapping that cannot be cut may have changed. */
	if (space->reachable && !protect(space, PROT_READ | PROT_WRITE)) {
		(void)fault(space, NULL);
	}
	return false;
}

static int reserve(struct sgpu_device *device, uint64_t extent, sgpu_devptr *base,
		   struct sgpu_error *error)
{
	(void)device;
	*base = (uintptr_t)sgpu_cpu_map(extent, BIG, PROT_NONE);
	return *base ? SGPU_OK
		     : sgpu_fail(error, SGPU_ENOMEM,
				 "cannot reserve %llu bytes of addresses for the device's memory",
				 (unsigned long long)extent);
}

static bool release(struct sgpu_space *space)
{
	uint64_t at = 0, size, mapped = 0;

	for (; sgpu_space_next_run(space, &at, &size); at += size) {
		mapped += size;
	}
	if (munmap(sgpu_cpu_pointer(space->range.address), space->range.extent) != 0 &&
	    !reserve_again(space, 0, space->range.extent)) {
		return false;
	}
	sgpu_cpu_memory_return(&space->frames->device->memory, mapped);
	return true;
}

static int change_access(struct sgpu_space *space, bool on, struct sgpu_error *error)
{
	return protect(space, on ? PROT_READ | PROT_WRITE : PROT_NONE)
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot change the access to a space");
}

static int lose(struct sgpu_space *space, struct sgpu_error *error)
{
	(void)reserve_again(space, 0, space->range.extent);
	return fault(space, error);
}

/* ---- pages ---- */
/* The reserved addresses become accessible: had they been replaced, a failure could leave none. */
static int map_range(struct sgpu_space *space, uint64_t at, uint64_t size, struct sgpu_error *error)
{
	void *start = sgpu_cpu_pointer(space->range.address + at);

	if ((space->reachable && mprotect(start, size, PROT_READ | PROT_WRITE) != 0) ||
	    madvise(start, size, MADV_DONTDUMP) != 0 || madvise(start, size, MADV_DONTFORK) != 0) {
		sgpu_fail(error, SGPU_ENOMEM, "cannot map %llu bytes of pages: %s",
			  (unsigned long long)size, strerror(errno));
		sgpu_hint(error, "see vm.max_map_count: every run of pages is a mapping");
		/* This cuts no mapping in two here. */
		return reserve_again(space, at, size) ? SGPU_ENOMEM : fault(space, error);
	}
	if (size >= HUGE_LEAST) {
		(void)madvise(start, size, MADV_HUGEPAGE);
	}
	return SGPU_OK;
}

static int map(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
	       uint64_t page_size, struct sgpu_error *error)
{
	struct sgpu_cpu_memory *memory = &space->frames->device->memory;
	int rc = sgpu_cpu_memory_promise(memory, count * page_size, error);

	(void)list; /* any frame is as good as another */
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = map_range(space, at, count * page_size, error);
	if (rc != SGPU_OK) {
		sgpu_cpu_memory_return(memory, count * page_size);
	}
	return rc;
}

static int unmap(struct sgpu_space *space, uint64_t at, uint64_t size, struct sgpu_error *error)
{
	if (reserve_again(space, at, size)) {
		sgpu_cpu_memory_return(&space->frames->device->memory, size);
		return SGPU_OK;
	}
	sgpu_fail(error, SGPU_ENOMEM, "cannot unmap %llu bytes in the midst of others",
		  (unsigned long long)size);
	sgpu_hint(error, "see vm.max_map_count: a run of pages would become two mappings");
	return SGPU_ENOMEM;
}

const struct sgpu_frame_calls sgpu_cpu_frame_calls = {
	.prepare = prepare,
	.reserve = reserve,
	.release = release,
	.map = map,
	.unmap = unmap,
	.access = change_access,
	.lose = lose,
};
