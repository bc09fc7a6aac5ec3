/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a GPU, and where they are mapped. A space is a reservation of addresses; a page is an
 * allocation of its own, since the driver maps only whole allocations (frames.c makes and keeps
 * them). The driver needs about as long to grant or revoke access to a page of 64 MiB as of 2 MiB,
 * so there are big pages of 64 MiB, too.
 */
#include <stdlib.h>

#include <device/cuda/gpu.h>

struct sgpu_space {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	struct sgpu_space_table table;
};

static int pages_info(struct sgpu_device *device, struct sgpu_pages_info *info,
		      struct sgpu_error *error)
{
	struct sgpu_frames *frames = &device->pages.frames;
	int rc = sgpu_cuda_enter(device, error);

	if (rc < 0) {
		return rc;
	}
	pthread_mutex_lock(&frames->lock);
	rc = sgpu_cuda_frames_prepare(device, error);
	if (rc == SGPU_OK) {
		*info = (struct sgpu_pages_info){ .small = frames->small,
						  .big = frames->big,
						  .total = frames->count * frames->small };
	}
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

/* ---- spaces ---- */
static uint64_t span_of(uint64_t size)
{
	return (size + SGPU_CUDA_PAGE_BIG - 1) / SGPU_CUDA_PAGE_BIG * SGPU_CUDA_PAGE_BIG;
}

/* The lock is held. */
static int reserve(struct sgpu_device *device, uint64_t size, struct sgpu_space *space,
		   struct sgpu_error *error)
{
	struct sgpu_frames *frames = &device->pages.frames;
	int rc = sgpu_cuda_frames_prepare(device, error);
	CUdeviceptr base = 0;

	if (rc == SGPU_OK) {
		rc = sgpu_space_check_size(frames, size, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_cuda_check(device,
				     sgpu_cu.cuMemAddressReserve(&base, span_of(size),
								 SGPU_CUDA_PAGE_SMALL, 0, 0),
				     "cannot reserve addresses for a space", error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_space_table_open(frames, &space->table, base, size, error);
		if (rc < 0) {
			(void)sgpu_cu.cuMemAddressFree(base, span_of(size));
		}
	}
	return rc;
}

static int space_create(struct sgpu_device *device, uint64_t size, struct sgpu_space **space,
			sgpu_devptr *base, struct sgpu_error *error)
{
	struct sgpu_cuda_pages *pages = &device->pages;
	int rc = sgpu_cuda_enter(device, error);
	struct sgpu_space *new;

	if (rc < 0) {
		return rc;
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = &sgpu_cuda_backend;
	new->device = device;
	pthread_mutex_lock(&pages->frames.lock);
	rc = reserve(device, size, new, error);
	if (rc == SGPU_OK) {
		*space = new;
		*base = new->table.range.address;
	}
	pthread_mutex_unlock(&pages->frames.lock);
	if (rc < 0) {
		free(new);
	}
	return rc;
}

/* ---- mapping: the lock is held, the context is current ---- */
CUresult sgpu_cuda_page_access(struct sgpu_device *device, CUdeviceptr at, uint64_t size, bool on)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal },
		.flags = on ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE,
	};

	return sgpu_cu.cuMemSetAccess(at, size, &access, 1);
}

static CUresult give_access(const struct sgpu_space *space, uint64_t at, uint64_t size, bool on)
{
	return sgpu_cuda_page_access(space->device, space->table.range.address + at, size, on);
}

/* Gets the page at an offset: its first frame and its size. False: there is none, and the size is
 * a small page's. */
static bool page_at(const struct sgpu_space *space, uint64_t at, uint32_t *frame, uint64_t *size)
{
	uint32_t entry = space->table.entries[at / SGPU_CUDA_PAGE_SMALL];

	*frame = (entry & ~SGPU_ENTRY_BIG) - 1;
	*size = entry & SGPU_ENTRY_BIG ? SGPU_CUDA_PAGE_BIG : SGPU_CUDA_PAGE_SMALL;
	return entry != 0;
}

/* Whether the page at an offset is new and not cleared yet. *step: bytes to the next page. */
static bool is_raw(const struct sgpu_space *space, uint64_t at, uint64_t *step)
{
	uint32_t frame;

	return page_at(space, at, &frame, step) && space->device->pages.list[frame].raw;
}

/* Clears new pages, now reachable: the driver promises nothing about their contents. */
static CUresult clear_new(const struct sgpu_space *space, uint64_t at, uint64_t size)
{
	struct sgpu_device *device = space->device;
	uint64_t end = at + size, stop, step = 0;
	CUresult result = CUDA_SUCCESS;
	bool any = false;

	for (; at < end && result == CUDA_SUCCESS && device->pages.raw > 0; at = stop) {
		for (stop = at; stop < end && is_raw(space, stop, &step); stop += step) {
		}
		if (stop > at) {
			result = sgpu_cu.cuMemsetD8Async(space->table.range.address + at, 0,
							 stop - at, device->internal);
			any = true;
		} else {
			stop += step;
		}
	}
	if (result == CUDA_SUCCESS && any && sgpu_cuda_sync_internal(device, NULL) != SGPU_OK) {
		result = CUDA_ERROR_UNKNOWN;
	}
	return result;
}

/* Notes that the pages of a range can be reached and that new ones are clear. */
static void note_used(const struct sgpu_space *space, uint64_t at, uint64_t size)
{
	struct sgpu_cuda_pages *pages = &space->device->pages;
	uint64_t end = at + size, step;
	uint32_t frame;

	for (; at < end && pages->raw > 0; at += step) {
		if (page_at(space, at, &frame, &step)) {
			pages->raw -= pages->list[frame].raw;
			pages->list[frame].raw = false;
		}
	}
}

static CUresult open_run(const struct sgpu_space *space, uint64_t at, uint64_t size)
{
	CUresult result = give_access(space, at, size, true);

	if (result == CUDA_SUCCESS) {
		result = clear_new(space, at, size);
		if (result == CUDA_SUCCESS) {
			note_used(space, at, size);
		}
	}
	return result;
}

/* Unmaps page by page. A page that cannot be unmapped stays in the table. */
static CUresult unmap_pages(struct sgpu_space *space, uint64_t at, uint64_t size)
{
	CUresult result = CUDA_SUCCESS, last;
	uint64_t end = at + size, step;
	uint32_t frame;

	for (; at < end; at += step) {
		if (!page_at(space, at, &frame, &step)) {
			continue;
		}
		last = sgpu_cu.cuMemUnmap(space->table.range.address + at, step);
		if (last == CUDA_SUCCESS) {
			sgpu_space_leave(&space->device->pages.frames, &space->table, at, step);
		} else {
			result = last;
		}
	}
	return result;
}

/* Unmaps the mapped pages of a range, with one call for consecutive ones. */
static CUresult unmap_run(struct sgpu_space *space, uint64_t at, uint64_t size)
{
	struct sgpu_frames *frames = &space->device->pages.frames;
	CUresult result = CUDA_SUCCESS, last;
	uint64_t end = at + size, run;

	for (; at < end && sgpu_space_next_run(frames, &space->table, &at, &run) && at < end;
	     at += run) {
		run = run < end - at ? run : end - at;
		last = sgpu_cu.cuMemUnmap(space->table.range.address + at, run);
		if (last == CUDA_SUCCESS) {
			sgpu_space_leave(frames, &space->table, at, run);
		} else {
			last = unmap_pages(space, at, run);
		}
		result = last == CUDA_SUCCESS ? result : last;
	}
	return result;
}

/* Maps pages that are already in the table. After a failure none is mapped or in the table.
 */
static int map_pages(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
		     uint64_t page_size, struct sgpu_error *error)
{
	struct sgpu_device *device = space->device;
	CUmemGenericAllocationHandle handle;
	CUresult result = CUDA_SUCCESS;
	int rc = SGPU_OK;
	size_t i, done = 0;

	for (i = 0; i < count && rc == SGPU_OK && result == CUDA_SUCCESS; i++) {
		rc = sgpu_cuda_frame_handle(device, list[i], page_size, &handle, error);
		if (rc == SGPU_OK) {
			result = sgpu_cu.cuMemMap(space->table.range.address + at + i * page_size,
						  page_size, 0, handle, 0);
			done += result == CUDA_SUCCESS;
		}
	}
	if (rc == SGPU_OK && result == CUDA_SUCCESS && space->table.reachable) {
		result = open_run(space, at, count * page_size);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_cuda_check(device, result, "cannot map pages", error);
	}
	if (rc < 0) {
		sgpu_space_leave(&device->pages.frames, &space->table, at + done * page_size,
				 (count - done) * page_size);
		sgpu_cuda_note(device, unmap_run(space, at, done * page_size));
	}
	return rc;
}

static int page_map(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
		    uint64_t page_size, struct sgpu_error *error)
{
	struct sgpu_frames *frames = &space->device->pages.frames;
	int rc = sgpu_cuda_enter(space->device, error);

	if (rc < 0) {
		return rc;
	}
	pthread_mutex_lock(&frames->lock);
	rc = sgpu_space_enter(frames, &space->table, at, list, count, page_size, error);
	if (rc == SGPU_OK) {
		rc = map_pages(space, at, list, count, page_size, error);
	}
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

/* Waits for all work if the space is reachable, since the work may use it. */
static int wait_idle(struct sgpu_space *space, struct sgpu_error *error)
{
	struct sgpu_frames *frames = &space->device->pages.frames;
	bool reachable;

	pthread_mutex_lock(&frames->lock);
	reachable = space->table.reachable;
	pthread_mutex_unlock(&frames->lock);
	return reachable ? sgpu_cuda_synchronize(space->device, error)
			 : sgpu_cuda_enter(space->device, error);
}

static int page_unmap(struct sgpu_space *space, uint64_t at, uint64_t size,
		      struct sgpu_error *error)
{
	struct sgpu_frames *frames = &space->device->pages.frames;
	int rc = wait_idle(space, error);

	if (rc < 0) {
		return rc;
	}
	pthread_mutex_lock(&frames->lock);
	rc = sgpu_space_check_range(frames, &space->table, at, size, error);
	if (rc == SGPU_OK) {
		rc = sgpu_cuda_check(space->device, unmap_run(space, at, size),
				     "cannot unmap pages", error);
	}
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

/* Grants or revokes access to all mapped pages; the lock is held. */
static CUresult change_access(struct sgpu_space *space, bool on)
{
	const struct sgpu_frames *frames = &space->device->pages.frames;
	CUresult result = CUDA_SUCCESS;
	uint64_t at = 0, size;

	while (result == CUDA_SUCCESS && sgpu_space_next_run(frames, &space->table, &at, &size)) {
		result = on ? open_run(space, at, size) : give_access(space, at, size, false);
		at += size;
	}
	return result;
}

static int space_access(struct sgpu_space *space, bool on, struct sgpu_error *error)
{
	struct sgpu_device *device = space->device;
	struct sgpu_frames *frames = &device->pages.frames;
	int rc = sgpu_cuda_enter(device, error);
	CUresult result = CUDA_SUCCESS;
	bool before;

	if (rc < 0) {
		return rc;
	}
	pthread_mutex_lock(&frames->lock);
	before = space->table.reachable;
	/* Work enqueued from now on is refused; wait for earlier work before access is revoked. */
	space->table.reachable = false;
	if (before && !on) {
		pthread_mutex_unlock(&frames->lock);
		rc = sgpu_cuda_synchronize(device, error);
		pthread_mutex_lock(&frames->lock);
	}
	if (rc == SGPU_OK && before != on) {
		result = change_access(space, on);
		rc = sgpu_cuda_check(device, result, "cannot change the access to a space", error);
		if (rc < 0 && sgpu_cuda_faulted(device, NULL) == 0 &&
		    (!on || change_access(space, false) != CUDA_SUCCESS)) {
			/* If the space stayed reachable, other contexts could read its memory. */
			sgpu_cuda_fault(device, SGPU_EDEVICE,
					"the access to a space cannot be taken away");
		}
	}
	space->table.reachable = rc == SGPU_OK && on;
	pthread_mutex_unlock(&frames->lock);
	return rc;
}

/* Unmaps and frees a space; the lock is held. A faulted device's addresses are freed with its
 * context. */
static void remove_space(struct sgpu_space *space)
{
	struct sgpu_device *device = space->device;
	CUresult result;

	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		result = unmap_run(space, 0, space->table.size);
		if (result == CUDA_SUCCESS) {
			sgpu_cuda_note(device,
				       sgpu_cu.cuMemAddressFree(space->table.range.address,
								span_of(space->table.size)));
		} else if (sgpu_cuda_check(device, result, "", NULL) != SGPU_OK) {
			/* The frames are free from now on, so others' later pages could be reached
			 * through this space. */
			sgpu_cuda_fault(device, SGPU_EDEVICE, "a space cannot be unmapped");
		}
	}
	sgpu_space_table_close(&device->pages.frames, &space->table);
	free(space);
}

static void space_free(struct sgpu_space *space)
{
	struct sgpu_device *device = space->device;

	if (sgpu_cuda_synchronize(device, NULL) != SGPU_OK) {
		/* The device is lost: nothing runs on it any more. */
	}
	pthread_mutex_lock(&device->pages.frames.lock);
	remove_space(space);
	pthread_mutex_unlock(&device->pages.frames.lock);
}

void sgpu_cuda_pages_close(struct sgpu_device *device)
{
	struct sgpu_range *range;

	while ((range = sgpu_ranges_any(&device->pages.frames.spaces))) {
		remove_space(
			(struct sgpu_space *)(void *)((char *)range -
						      offsetof(struct sgpu_space, table.range)));
	}
	sgpu_cuda_frames_close(device);
}

const struct sgpu_device_page_calls sgpu_cuda_page_calls = {
	.info = pages_info,
	.space_create = space_create,
	.space_free = space_free,
	.map = page_map,
	.unmap = page_unmap,
	.access = space_access,
};
