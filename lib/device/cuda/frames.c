/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a GPU's pages: a driver allocation for each page, made when the page is first mapped,
 * and kept. It is cleared when it is made, since the driver promises nothing about its contents,
 * and before it is returned to the driver, each time through a mapping at a separate address.
 */
#include <stdlib.h>

#include <device/cuda/gpu.h>

/* Bytes left for the driver, libraries and memory outside pages. */
#define SPARE ((uint64_t)256 << 20)

enum { PER_BIG = SGPU_CUDA_PAGE_BIG / SGPU_CUDA_PAGE_SMALL };

static CUmemAllocationProp properties(const struct sgpu_device *device)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal },
	};
}

static int look(struct sgpu_device *device, struct sgpu_error *error)
{
	CUmemAllocationProp prop = properties(device);
	size_t granularity = 0;
	int supported = 0;
	CUresult result;

	result = sgpu_cu.cuDeviceGetAttribute(
		&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		device->handle);
	if (result == CUDA_SUCCESS && !supported) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the GPU '%s' maps no pages: it has no virtual memory management",
				 device->info.name);
	}
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemGetAllocationGranularity(&granularity, &prop,
							       CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	}
	if (result == CUDA_SUCCESS &&
	    (granularity == 0 || SGPU_CUDA_PAGE_SMALL % granularity != 0)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the GPU '%s' maps pages of %zu bytes, not of %llu",
				 device->info.name, granularity,
				 (unsigned long long)SGPU_CUDA_PAGE_SMALL);
	}
	return sgpu_cuda_check(device, result, "cannot tell the size of the device's pages", error);
}

int sgpu_cuda_frames_prepare(struct sgpu_device *device, struct sgpu_error *error)
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
	total = sgpu_cuda_memory_spare(device, SPARE) / SGPU_CUDA_PAGE_BIG * SGPU_CUDA_PAGE_BIG;
	if (total == 0) {
		sgpu_cuda_memory_figures(device, &all, &left);
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the device has no memory for a page of %llu bytes: %llu are left",
				 (unsigned long long)SGPU_CUDA_PAGE_BIG, (unsigned long long)left);
	}
	pages->list = calloc(total / SGPU_CUDA_PAGE_SMALL, sizeof(*pages->list));
	if (!pages->list) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_cuda_check(device,
			     sgpu_cu.cuMemAddressReserve(&pages->scratch, SGPU_CUDA_PAGE_BIG,
							 SGPU_CUDA_PAGE_SMALL, 0, 0),
			     "cannot reserve addresses", error);
	if (rc == SGPU_OK) {
		rc = sgpu_frames_open(&pages->frames, SGPU_CUDA_PAGE_SMALL, SGPU_CUDA_PAGE_BIG,
				      total / SGPU_CUDA_PAGE_SMALL, error);
		if (rc < 0) {
			(void)sgpu_cu.cuMemAddressFree(pages->scratch, SGPU_CUDA_PAGE_BIG);
		}
	}
	if (rc < 0) {
		free(pages->list);
		pages->list = NULL;
	}
	return rc;
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

/* Clears a page's memory and returns it to the driver. If it cannot be cleared, the frame keeps the
 * memory, which stays counted. */
static CUresult give_back(struct sgpu_device *device, struct sgpu_cuda_frame *frame)
{
	uint64_t size = frame->big ? SGPU_CUDA_PAGE_BIG : SGPU_CUDA_PAGE_SMALL;
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

CUresult sgpu_cuda_handle_make(struct sgpu_device *device, uint64_t size,
			       CUmemGenericAllocationHandle *handle)
{
	const CUmemAllocationProp prop = properties(device);

	return sgpu_cu.cuMemCreate(handle, size, &prop, 0);
}

int sgpu_cuda_frame_handle(struct sgpu_device *device, uint32_t number, uint64_t page_size,
			   CUmemGenericAllocationHandle *handle, struct sgpu_error *error)
{
	struct sgpu_cuda_frame *frame = &device->pages.list[number];
	bool big = page_size == SGPU_CUDA_PAGE_BIG;
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
	*handle = frame->handle;
	return rc;
}

void sgpu_cuda_frames_close(struct sgpu_device *device)
{
	struct sgpu_cuda_pages *pages = &device->pages;
	uint32_t i;

	if (pages->frames.small == 0) {
		return;
	}
	for (i = 0; i < pages->frames.count; i++) {
		if (pages->list[i].made && sgpu_cuda_enter(device, NULL) == SGPU_OK) {
			sgpu_cuda_note(device, give_back(device, &pages->list[i]));
		}
	}
	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		sgpu_cuda_note(device,
			       sgpu_cu.cuMemAddressFree(pages->scratch, SGPU_CUDA_PAGE_BIG));
	}
	sgpu_frames_close(&pages->frames);
	free(pages->list);
}
