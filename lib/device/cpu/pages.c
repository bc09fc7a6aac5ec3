/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of the CPU device. Physical memory is a memory file as long as the device's memory, empty
 * at first. A space is a range of reserved addresses, over which parts of the file are mapped page
 * by page. No page is dumped in a core file or inherited by a child.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <base/base.h>
#include <device/cpu/cpu.h>

#define SMALL ((uint64_t)SGPU_CPU_PAGE)
#define BIG ((uint64_t)2 << 20)
/* The file is cleared by blocks of this size, each from its first page with data. */
#define BLOCK ((uint64_t)64 << 10)

/* ---- the file ---- */
/* The file is as long as what the device may ever give out, within the limit on file sizes. */
static uint64_t total_size(struct sgpu_device *device)
{
	uint64_t total = sgpu_cpu_memory_most(&device->memory), most = SGPU_FRAMES_MAX * SMALL;
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    limit.rlim_cur < total) {
		total = limit.rlim_cur;
	}
	return (total < most ? total : most) / BIG * BIG;
}

static int prepare(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cpu_pages *pages = &device->pages;
	uint64_t total;
	int rc;

	if (pages->frames.small != 0) {
		return SGPU_OK;
	}
	total = total_size(device);
	if (total == 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the device has no memory for a page of %llu bytes",
				 (unsigned long long)BIG);
	}
	pages->made = calloc(total / SMALL / 64 + 1, sizeof(uint64_t));
	if (!pages->made) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_memory_file_create("sgpu-pages", total, false, &pages->fd, error);
	if (rc < 0) {
		free(pages->made);
		return rc;
	}
	sgpu_frames_open(&pages->frames, SMALL, BIG, total / SMALL);
	return SGPU_OK;
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
 * inaccessible. The addresses are never released: other mappings could be placed there. False: the
 * kernel would have to cut a mapping in two and allows no more; nothing has changed, or the space
 * is faulted. */
static bool reserve_again(struct sgpu_space *space, uint64_t at, uint64_t size)
{
	void *start = sgpu_cpu_pointer(space->range.address + at);

	if (mmap(start, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		 -1, 0) != MAP_FAILED ||
	    mprotect(start, size, PROT_NONE) == 0) {
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
	return munmap(sgpu_cpu_pointer(space->range.address), space->range.extent) == 0 ||
	       reserve_again(space, 0, space->range.extent);
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
static bool is_made(const struct sgpu_cpu_pages *pages, uint32_t frame)
{
	return pages->made[frame / 64] >> (frame % 64) & 1;
}

/* Counts frames as memory in use when they are first mapped. */
static int promise(struct sgpu_device *device, const uint32_t *list, size_t count, uint32_t each,
		   struct sgpu_error *error)
{
	struct sgpu_cpu_pages *pages = &device->pages;
	uint64_t missing = 0;
	uint32_t k;
	size_t i;
	int rc;

	for (i = 0; i < count; i++) {
		for (k = 0; k < each; k++) {
			missing += !is_made(pages, list[i] + k);
		}
	}
	rc = missing ? sgpu_cpu_memory_promise(&device->memory, missing * SMALL, error) : SGPU_OK;
	for (i = 0; i < count && missing && rc == SGPU_OK; i++) {
		for (k = 0; k < each; k++) {
			pages->made[(list[i] + k) / 64] |= (uint64_t)1 << ((list[i] + k) % 64);
		}
	}
	return rc;
}

/* Maps consecutive frames with one call. *done: bytes that are mapped, also on failure. */
static int map_frames(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
		      uint64_t page_size, uint64_t *done, struct sgpu_error *error)
{
	const int fd = space->frames->device->pages.fd;
	int protection = space->reachable ? PROT_READ | PROT_WRITE : PROT_NONE;
	uint32_t each = (uint32_t)(page_size / SMALL);
	void *start = sgpu_cpu_pointer(space->range.address + at);
	size_t i, run;

	for (i = 0; i < count; i += run) {
		*done = i * page_size;
		for (run = 1; i + run < count && list[i + run] == list[i] + run * each; run++) {
		}
		if (mmap((char *)start + i * page_size, run * page_size, protection,
			 MAP_SHARED | MAP_FIXED, fd, (off_t)(list[i] * SMALL)) == MAP_FAILED) {
			sgpu_fail(error, SGPU_ENOMEM, "cannot map %zu pages of %llu bytes: %s",
				  count, (unsigned long long)page_size, strerror(errno));
			sgpu_hint(error, "see vm.max_map_count: every run of pages is a mapping");
			return SGPU_ENOMEM;
		}
	}
	*done = count * page_size;
	if (madvise(start, count * page_size, MADV_DONTDUMP) != 0 ||
	    madvise(start, count * page_size, MADV_DONTFORK) != 0) {
		return sgpu_fail_errno(
			error, "cannot keep %zu pages out of core dumps and children", count);
	}
	if (page_size == BIG) {
		(void)madvise(start, count * page_size, MADV_HUGEPAGE);
	}
	return SGPU_OK;
}

static int map(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
	       uint64_t page_size, struct sgpu_error *error)
{
	uint64_t done = 0;
	int rc = promise(space->frames->device, list, count, (uint32_t)(page_size / SMALL), error);

	rc = rc ? rc : map_frames(space, at, list, count, page_size, &done, error);
	/* This cuts no mapping in two here. If it still fails, the frames stay mapped, and the
	 * fault keeps them from being mapped elsewhere. */
	return rc < 0 && done > 0 && !reserve_again(space, at, done) ? fault(space, error) : rc;
}

static int unmap(struct sgpu_space *space, uint64_t at, uint64_t size, struct sgpu_error *error)
{
	if (reserve_again(space, at, size)) {
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

/* ---- clearing ---- */
/* Moves *at to the next bytes before `end` that could be non-zero. *size: their number, in a space
 * up to the end of a BLOCK. Holes of the file are zeros; memory outside spaces may hold anything.
 * The kernel is not asked where data end: it would search all data. */
static bool next_written(struct sgpu_cpu_pages *pages, uint64_t *at, uint64_t end, uint64_t *size)
{
	uint64_t place, skipped, rest;
	off_t data;

	for (; *at < end; *at += *size) {
		if (!sgpu_frames_place(&pages->frames, *at, end - *at, &place, size)) {
			*size = end - *at;
			return true;
		}
		data = lseek(pages->fd, (off_t)place, SEEK_DATA);
		if (data < 0 && errno != ENXIO) {
			return true;
		}
		skipped = data < 0 ? *size : (uint64_t)data - place;
		if (skipped < *size) {
			rest = BLOCK - (uint64_t)data % BLOCK;
			*at += skipped;
			*size = *size - skipped < rest ? *size - skipped : rest;
			return true;
		}
	}
	return false;
}

void sgpu_cpu_pages_clear(struct sgpu_device *device, sgpu_devptr memory, uint64_t size)
{
	uint64_t at = memory, part;

	while (next_written(&device->pages, &at, memory + size, &part)) {
		memset(sgpu_cpu_pointer(at), 0, part);
		at += part;
	}
}

/* ---- closing ---- */
void sgpu_cpu_pages_close(struct sgpu_device *device)
{
	struct sgpu_cpu_pages *pages = &device->pages;

	sgpu_frames_empty(&pages->frames);
	if (pages->frames.small != 0) {
		close(pages->fd);
		free(pages->made);
	}
}

static struct sgpu_frames *frames_of(struct sgpu_device *device)
{
	return &device->pages.frames;
}

const struct sgpu_device_page_calls sgpu_cpu_page_calls = {
	.frames = frames_of,
	.access = sgpu_frames_access,
};
