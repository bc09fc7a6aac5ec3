/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a GPU. A space is a reservation of addresses; a page is an allocation, since the driver
 * maps only whole ones. To grant or revoke access takes the driver about as long for 64 MiB as for
 * 2 MiB, so there are big pages of 64 MiB, too.
 *
 * A page gets memory when first mapped, and keeps it. The memory is cleared, through a mapping at a
 * separate address, when it is made, since the driver promises nothing about its contents, and
 * before it is returned to the driver.
 */
#include <stdlib.h>

#include <device/cuda/gpu.h>

#define PAGE_SMALL ((uint64_t)2 << 20)
#define PAGE_BIG ((uint64_t)64 << 20)
/* Bytes left for the driver, libraries and memory outside pages. */
#define SPARE ((uint64_t)256 << 20)

enum { PER_BIG = PAGE_BIG / PAGE_SMALL };

/* ---- memory ---- */
static CUmemAllocationProp properties(const struct sgpu_device *device)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal },
	};
}

CUresult sgpu_cuda_handle_make(struct sgpu_device *device, uint64_t size,
			       CUmemGenericAllocationHandle *handle)
{
	const CUmemAllocationProp prop = properties(device);

	return sgpu_cu.cuMemCreate(handle, size, &prop, 0);
}

static int look(struct sgpu_device *device, struct sgpu_error *error)
{
	CUmemAllocationProp prop = properties(device);
	size_t granularity = 0;
	CUresult result = sgpu_cu.cuMemGetAllocationGranularity(&granularity, &prop,
								CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (result == CUDA_SUCCESS && (granularity == 0 || PAGE_SMALL % granularity != 0)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the GPU '%s' maps pages of %zu bytes, not of %llu",
				 device->info.name, granularity, (unsigned long long)PAGE_SMALL);
	}
	return sgpu_cuda_check(device, result, "cannot tell the size of the device's pages", error);
}

/* Makes the context current and, on the first call, divides the memory into frames. */
static int prepare(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cuda_pages *pages = &device->pages;
	uint64_t all, left, total;
	int rc = sgpu_cuda_enter(device, error);

	if (pages->frames.small != 0) {
		return rc;
	}
	rc = rc ? rc : look(device, error);
	if (rc < 0) {
		return rc;
	}
	total = sgpu_cuda_memory_spare(device, SPARE) / PAGE_BIG * PAGE_BIG;
	if (total == 0) {
		sgpu_cuda_memory_figures(device, &all, &left);
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the device has no memory for a page of %llu bytes: %llu are left",
				 (unsigned long long)PAGE_BIG, (unsigned long long)left);
	}
	pages->list = calloc(total / PAGE_SMALL, sizeof(*pages->list));
	if (!pages->list) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_cuda_check(
		device, sgpu_cu.cuMemAddressReserve(&pages->scratch, PAGE_BIG, PAGE_SMALL, 0, 0),
		"cannot reserve addresses", error);
	if (rc < 0) {
		free(pages->list);
		return rc;
	}
	sgpu_frames_open(&pages->frames, PAGE_SMALL, PAGE_BIG, total / PAGE_SMALL);
	return SGPU_OK;
}

CUresult sgpu_cuda_page_access(struct sgpu_device *device, CUdeviceptr at, uint64_t size, bool on)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal },
		.flags = on ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE,
	};

	return sgpu_cu.cuMemSetAccess(at, size, &access, 1);
}

static CUresult clear_handle(struct sgpu_device *device, const struct sgpu_cuda_frame *frame,
			     uint64_t size)
{
	CUdeviceptr at = device->pages.scratch;
	CUresult result = sgpu_cu.cuMemMap(at, size, 0, frame->handle, 0), unmapped;

	if (result != CUDA_SUCCESS) {
		return result;
	}
	result = sgpu_cuda_page_access(device, at, size, true);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cuda_clear(device, at, size);
	}
	unmapped = sgpu_cu.cuMemUnmap(at, size);
	return result == CUDA_SUCCESS ? unmapped : result;
}

/* Clears and returns a page's memory to the driver. Memory that cannot be cleared stays counted. */
static CUresult give_back(struct sgpu_device *device, struct sgpu_cuda_frame *frame)
{
	uint64_t size = frame->big ? PAGE_BIG : PAGE_SMALL;
	CUresult result = clear_handle(device, frame, size);

	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemRelease(frame->handle);
	}
	if (result == CUDA_SUCCESS) {
		sgpu_cuda_memory_uncount(device, size);
		*frame = (struct sgpu_cuda_frame){ 0 };
	}
	return result;
}

/* Gives back these frames' memory for pages of the size other than `big` says. */
static CUresult give_back_others(struct sgpu_device *device, uint32_t frame, bool big)
{
	struct sgpu_cuda_frame *list = device->pages.list,
			       *first = &list[frame / PER_BIG * PER_BIG];
	CUresult result = CUDA_SUCCESS;
	int i;

	if (!big) {
		return first->made && first->big ? give_back(device, first) : CUDA_SUCCESS;
	}
	for (i = 0; i < PER_BIG && result == CUDA_SUCCESS && !first->big; i++) {
		result = first[i].made ? give_back(device, &first[i]) : CUDA_SUCCESS;
	}
	return result;
}

/* If need be, makes a page's memory, and first gives back that of the other page size. */
static int make_frame(struct sgpu_device *device, uint32_t number, uint64_t page_size,
		      struct sgpu_error *error)
{
	struct sgpu_cuda_frame *frame = &device->pages.list[number];
	bool big = page_size == PAGE_BIG;
	int rc = sgpu_cuda_check(device, give_back_others(device, number, big),
				 "cannot give pages back", error);
	CUresult result;

	if (rc == SGPU_OK && !frame->made) {
		rc = sgpu_cuda_memory_count(device, page_size, error);
		if (rc < 0) {
			return rc;
		}
		result = sgpu_cuda_handle_make(device, page_size, &frame->handle);
		if (result == CUDA_SUCCESS) {
			result = clear_handle(device, frame, page_size);
			if (result != CUDA_SUCCESS) {
				(void)sgpu_cu.cuMemRelease(frame->handle);
			}
		}
		if (result != CUDA_SUCCESS) {
			sgpu_cuda_memory_uncount(device, page_size);
			return sgpu_cuda_memory_refuse(device, result, page_size, error);
		}
		frame->made = true;
		frame->big = big;
	}
	return rc;
}

/* ---- mapping ---- */
static int reserve(struct sgpu_device *device, uint64_t extent, sgpu_devptr *base,
		   struct sgpu_error *error)
{
	CUdeviceptr address = 0;
	int rc = sgpu_cuda_check(device,
				 sgpu_cu.cuMemAddressReserve(&address, extent, PAGE_SMALL, 0, 0),
				 "cannot reserve addresses for a space", error);

	*base = address;
	return rc;
}

/* Unmaps a range's mapped pages, with one call for consecutive ones. Since nobody knows what a
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
	int rc = sgpu_cuda_enter(device, error);
	uint64_t done = 0;

	for (size_t i = 0; i < count && rc == SGPU_OK; i++) {
		rc = make_frame(device, list[i], page_size, error);
		if (rc == SGPU_OK) {
			rc = sgpu_cuda_check(device,
					     sgpu_cu.cuMemMap(start + done, page_size, 0,
							      device->pages.list[list[i]].handle,
							      0),
					     "cannot map pages", error);
		}
		done += rc == SGPU_OK ? page_size : 0;
	}
	if (rc == SGPU_OK && space->reachable) {
		rc = sgpu_cuda_check(device, sgpu_cuda_page_access(device, start, done, true),
				     "cannot map pages", error);
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
		rc = sgpu_cuda_check(
			device, sgpu_cuda_page_access(device, space->range.address + at, size, on),
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

	if (unmap(space, 0, space->range.extent, NULL) == SGPU_OK) {
		sgpu_cuda_note(device,
			       sgpu_cu.cuMemAddressFree(space->range.address, space->range.extent));
	}
	return true;
}

const struct sgpu_frame_calls sgpu_cuda_frame_calls = {
	.prepare = prepare,
	.reserve = reserve,
	.release = release,
	.map = map,
	.unmap = unmap,
	.access = change_access,
	.lose = lose,
};

/* A faulted device's pages are freed with its context. */
void sgpu_cuda_pages_close(struct sgpu_device *device)
{
	struct sgpu_cuda_pages *pages = &device->pages;
	uint32_t i;

	sgpu_frames_empty(&pages->frames);
	if (pages->frames.small == 0) {
		return;
	}
	for (i = 0; i < pages->frames.count; i++) {
		if (pages->list[i].made && sgpu_cuda_enter(device, NULL) == SGPU_OK) {
			sgpu_cuda_note(device, give_back(device, &pages->list[i]));
		}
	}
	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		sgpu_cuda_note(device, sgpu_cu.cuMemAddressFree(pages->scratch, PAGE_BIG));
	}
	free(pages->list);
}
