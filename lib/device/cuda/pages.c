/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a GPU, and where they are mapped. A space is a reservation of addresses; a page is an
 * allocation of its own, since the driver maps only whole allocations (frames.c makes and keeps
 * them). The driver needs about as long to grant or revoke access to a page of 64 MiB as of 2 MiB,
 * so there are big pages of 64 MiB, too.
 */
#include <device/cuda/gpu.h>

/* ---- addresses ---- */
static int reserve(struct sgpu_device *device, uint64_t extent, sgpu_devptr *base,
		   struct sgpu_error *error)
{
	CUdeviceptr address = 0;
	int rc = sgpu_cuda_check(
		device, sgpu_cu.cuMemAddressReserve(&address, extent, SGPU_CUDA_PAGE_SMALL, 0, 0),
		"cannot reserve addresses for a space", error);

	*base = address;
	return rc;
}

/* ---- mapping ---- */
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
	return sgpu_cuda_page_access(space->frames->device, space->range.address + at, size, on);
}

/* Gets the page at an offset: its first frame and its size. False: there is none, and the size is
 * a small page's. */
static bool page_at(const struct sgpu_space *space, uint64_t at, uint32_t *frame, uint64_t *size)
{
	uint32_t entry = space->entries[at / SGPU_CUDA_PAGE_SMALL];

	*frame = (entry & ~SGPU_ENTRY_BIG) - 1;
	*size = entry & SGPU_ENTRY_BIG ? SGPU_CUDA_PAGE_BIG : SGPU_CUDA_PAGE_SMALL;
	return entry != 0;
}

/* Whether the page at an offset is new and not cleared yet. *step: bytes to the next page. */
static bool is_raw(const struct sgpu_space *space, uint64_t at, uint64_t *step)
{
	uint32_t frame;

	return page_at(space, at, &frame, step) && space->frames->device->pages.list[frame].raw;
}

/* Clears new pages, now reachable: the driver promises nothing about their contents. */
static CUresult clear_new(const struct sgpu_space *space, uint64_t at, uint64_t size)
{
	struct sgpu_device *device = space->frames->device;
	uint64_t end = at + size, stop, step = 0;
	CUresult result = CUDA_SUCCESS;
	bool any = false;

	for (; at < end && result == CUDA_SUCCESS && device->pages.raw > 0; at = stop) {
		for (stop = at; stop < end && is_raw(space, stop, &step); stop += step) {
		}
		if (stop > at) {
			result = sgpu_cu.cuMemsetD8Async(space->range.address + at, 0, stop - at,
							 device->internal);
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
	struct sgpu_cuda_pages *pages = &space->frames->device->pages;
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

/* Unmaps the mapped pages of a range, with one call for consecutive ones. Since nobody knows what a
 * failure leaves mapped, it faults the device. */
static int unmap(struct sgpu_space *space, uint64_t at, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_device *device = space->frames->device;
	const uint64_t end = at + size;
	uint64_t run;
	int rc = sgpu_cuda_enter(device, error);

	for (; rc == SGPU_OK && at < end && sgpu_space_next_run(space, &at, &run) && at < end;
	     at += run) {
		run = run < end - at ? run : end - at;
		rc = sgpu_cuda_must(device, sgpu_cu.cuMemUnmap(space->range.address + at, run),
				    error);
	}
	return rc;
}

static int map(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
	       uint64_t page_size, struct sgpu_error *error)
{
	struct sgpu_device *device = space->frames->device;
	const CUdeviceptr start = space->range.address + at;
	CUmemGenericAllocationHandle handle;
	int rc = sgpu_cuda_enter(device, error);
	uint64_t done = 0;

	for (size_t i = 0; i < count && rc == SGPU_OK; i++) {
		rc = sgpu_cuda_frame_handle(device, list[i], page_size, &handle, error);
		rc = rc ? rc
			: sgpu_cuda_check(device,
					  sgpu_cu.cuMemMap(start + done, page_size, 0, handle, 0),
					  "cannot map pages", error);
		done += rc == SGPU_OK ? page_size : 0;
	}
	if (rc == SGPU_OK && space->reachable) {
		rc = sgpu_cuda_check(device, open_run(space, at, done), "cannot map pages", error);
	}
	if (rc < 0 && done > 0) {
		(void)!sgpu_cuda_must(device, sgpu_cu.cuMemUnmap(start, done), NULL);
	}
	return rc;
}

static int change_access(struct sgpu_space *space, bool on, struct sgpu_error *error)
{
	struct sgpu_device *device = space->frames->device;
	int rc = sgpu_cuda_enter(device, error);
	uint64_t at = 0, size;

	while (rc == SGPU_OK && sgpu_space_next_run(space, &at, &size)) {
		rc = sgpu_cuda_check(device,
				     on ? open_run(space, at, size)
					: give_access(space, at, size, false),
				     "cannot change the access to a space", error);
		at += size;
	}
	return rc;
}

static int lose(struct sgpu_space *space, struct sgpu_error *error)
{
	sgpu_cuda_fault(space->frames->device, SGPU_EDEVICE,
			"the access to a space cannot be taken away");
	return sgpu_cuda_faulted(space->frames->device, error);
}

/* A faulted device's addresses are freed with its context. */
static bool release(struct sgpu_space *space)
{
	struct sgpu_device *device = space->frames->device;

	if (unmap(space, 0, space->size, NULL) == SGPU_OK) {
		sgpu_cuda_note(device,
			       sgpu_cu.cuMemAddressFree(space->range.address, space->range.extent));
	}
	return true;
}

const struct sgpu_frame_calls sgpu_cuda_frame_calls = {
	.prepare = sgpu_cuda_frames_prepare,
	.reserve = reserve,
	.release = release,
	.map = map,
	.unmap = unmap,
	.access = change_access,
	.lose = lose,
};

void sgpu_cuda_pages_close(struct sgpu_device *device)
{
	sgpu_frames_empty(&device->pages.frames);
	sgpu_cuda_frames_close(device);
}

static int pages_info(struct sgpu_device *device, struct sgpu_pages_info *info,
		      struct sgpu_error *error)
{
	return sgpu_frames_info(&device->pages.frames, info, error);
}

static int space_create(struct sgpu_device *device, uint64_t size, struct sgpu_space **space,
			sgpu_devptr *base, struct sgpu_error *error)
{
	return sgpu_frames_space(&device->pages.frames, size, space, base, error);
}

const struct sgpu_device_page_calls sgpu_cuda_page_calls = {
	.info = pages_info,
	.space_create = space_create,
	.space_free = sgpu_frames_space_free,
	.map = sgpu_frames_map,
	.unmap = sgpu_frames_unmap,
	.access = sgpu_frames_access,
};
