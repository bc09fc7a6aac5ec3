/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory outside of pages. A caller's block is the driver's allocation, which may wait for
 * kernels: runs have pages. Blocks for the device's own use are cut from regions, and cleared and
 * reused in the order of the internal stream, without a driver call. Memory is cleared when freed.
 * All blocks in use are known, to check addresses and to free all memory.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/gpu.h>

/* Bytes of a region, of the first, and of the smallest request that is compared with free
 * memory. */
#define REGION (((uint64_t)32 << 20) - SGPU_CUDA_PAGE)
#define FIRST_REGION (((uint64_t)2 << 20) - SGPU_CUDA_PAGE)
#define ASKED_FIRST ((uint64_t)256 << 20)

/* A caller's block, or a region. */
struct sgpu_cuda_region {
	struct sgpu_range range; /* in whole pages */
	uint64_t size;		 /* as asked for */
	CUdeviceptr start;	 /* as the driver gave it */
	struct sgpu_cuda_region *next;
};

int sgpu_cuda_sync_internal(struct sgpu_device *device, struct sgpu_error *error)
{
	CUevent event = NULL;
	CUresult result = sgpu_cuda_event_after(device, device->internal, &event);
	int rc = sgpu_cuda_check(device, result, "cannot record an event", error);

	if (rc == SGPU_OK) {
		rc = sgpu_cuda_wait(device, event, error);
	}
	sgpu_cuda_event_give(device, event);
	return rc;
}

CUresult sgpu_cuda_clear(struct sgpu_device *device, CUdeviceptr address, uint64_t size)
{
	CUresult result = sgpu_cu.cuMemsetD8Async(address, 0, size, device->internal);

	return result == CUDA_SUCCESS && sgpu_cuda_sync_internal(device, NULL) != SGPU_OK
		       ? CUDA_ERROR_UNKNOWN
		       : result;
}

static uint64_t unused(void)
{
	size_t free_bytes = 0, total = 0;

	return sgpu_cu.cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS ? free_bytes : 0;
}

static uint64_t available(struct sgpu_device *device)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	uint64_t free_bytes = unused(), left;

	pthread_mutex_lock(&memory->lock);
	left = memory->limit - (memory->used < memory->limit ? memory->used : memory->limit);
	pthread_mutex_unlock(&memory->lock);
	return free_bytes < left ? free_bytes : left;
}

static int out_of_memory(struct sgpu_device *device, uint64_t size, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_ENOMEM,
			 "out of device memory: %llu bytes asked for, %llu available",
			 (unsigned long long)size, (unsigned long long)available(device));
}

int sgpu_cuda_memory_refuse(struct sgpu_device *device, CUresult result, uint64_t size,
			    struct sgpu_error *error)
{
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		return out_of_memory(device, size, error);
	}
	return sgpu_cuda_check(device, result, "cannot allocate device memory", error);
}

/* ---- memory from the driver ---- */
/* Before it refuses a request, the driver takes all free memory from other processes; so a large
 * request is first compared with that. The driver's memory may begin at any multiple of 512. */
static int obtain(struct sgpu_device *device, uint64_t size, struct sgpu_cuda_region **region,
		  struct sgpu_error *error)
{
	struct sgpu_cuda_region *new = calloc(1, sizeof(*new));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->size = size;
	new->range.extent = sgpu_arena_extent(size);
	if (size < ASKED_FIRST || size <= unused()) {
		result = sgpu_cu.cuMemAlloc(&new->start, new->range.extent + SGPU_CUDA_PAGE);
	}
	if (result != CUDA_SUCCESS) {
		free(new);
		return sgpu_cuda_memory_refuse(device, result, size, error);
	}
	new->range.address = sgpu_arena_extent(new->start);
	*region = new;
	return SGPU_OK;
}

/* Memory that cannot be cleared is not freed. */
static void release(struct sgpu_device *device, struct sgpu_cuda_region *region)
{
	CUresult result;

	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		result = sgpu_cuda_clear(device, region->start,
					 region->range.extent + SGPU_CUDA_PAGE);
		sgpu_cuda_note(device,
			       result == CUDA_SUCCESS ? sgpu_cu.cuMemFree(region->start) : result);
	}
	free(region);
}

/* ---- the device's own memory ---- */
/* Adds a cleared region, and takes a block from it unless `block` is NULL. */
static int add_region(struct sgpu_device *device, uint64_t extent, uint64_t size,
		      struct sgpu_block **block, struct sgpu_error *error)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_region *region = NULL;
	int rc = obtain(device, extent, &region, error);

	if (rc < 0) {
		return rc;
	}
	rc = sgpu_cuda_check(device,
			     sgpu_cuda_clear(device, region->range.address, region->range.extent),
			     "cannot clear device memory", error);
	pthread_mutex_lock(&memory->lock);
	region->next = memory->regions;
	memory->regions = region;
	if (rc == SGPU_OK &&
	    sgpu_arena_add(&memory->own, region->range.address, region->range.extent) != SGPU_OK) {
		rc = sgpu_fail_nomem(error); /* the region is only listed, to be freed */
	} else if (rc == SGPU_OK && block) {
		*block = sgpu_arena_take(&memory->own, size);
		rc = *block ? SGPU_OK : sgpu_fail_nomem(error);
	}
	pthread_mutex_unlock(&memory->lock);
	return rc;
}

int sgpu_cuda_memory_open(struct sgpu_device *device, uint64_t limit, struct sgpu_error *error)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	size_t total = 0;
	CUresult result = sgpu_cu.cuDeviceTotalMem(&total, device->handle);
	int rc;

	memory->limit = limit ? limit : UINT64_MAX;
	memory->total = total;
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuStreamCreate(&device->internal, CU_STREAM_NON_BLOCKING);
	}
	rc = sgpu_cuda_check(device, result, "cannot look at the device's memory", error);
	return rc ? rc : add_region(device, FIRST_REGION, 0, NULL, error);
}

/* Takes a block that is known to be clear, or returns NULL. *serial: of the clearings under way. */
static struct sgpu_block *take(struct sgpu_cuda_memory *memory, uint64_t size, uint64_t *serial)
{
	struct sgpu_block *block;

	pthread_mutex_lock(&memory->lock);
	sgpu_arena_note_cleared(&memory->own, *serial);
	while ((block = sgpu_arena_next_cleared(&memory->own))) {
		sgpu_arena_release(&memory->own, block);
	}
	block = sgpu_arena_take(&memory->own, size);
	*serial = memory->own.clearing ? memory->own.serial : 0;
	pthread_mutex_unlock(&memory->lock);
	return block;
}

int sgpu_cuda_private_alloc(struct sgpu_device *device, uint64_t size, CUdeviceptr *start,
			    struct sgpu_error *error)
{
	uint64_t serial = 0;
	struct sgpu_block *block = take(&device->memory, size, &serial);
	int rc = SGPU_OK;

	*start = 0;
	if (!block && serial > 0 && sgpu_cuda_sync_internal(device, NULL) == SGPU_OK) {
		block = take(&device->memory, size, &serial);
	}
	if (!block) {
		rc = add_region(device, size > REGION ? size : REGION, size, &block, error);
	}
	*start = block ? block->range.address : 0;
	return rc;
}

/* Memory that cannot be cleared is never given out again. */
void sgpu_cuda_private_free(struct sgpu_device *device, CUdeviceptr start)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_block *block;
	CUresult result = CUDA_SUCCESS;

	if (start == 0 || sgpu_cuda_enter(device, NULL) != SGPU_OK) {
		return;
	}
	pthread_mutex_lock(&memory->lock);
	block = sgpu_arena_find(&memory->own, start);
	if (block) {
		result = sgpu_cu.cuMemsetD8Async(block->range.address, 0, block->range.extent,
						 device->internal);
		sgpu_arena_leave(&memory->own, block);
		if (result == CUDA_SUCCESS) {
			sgpu_arena_await(&memory->own, block);
		}
	}
	pthread_mutex_unlock(&memory->lock);
	sgpu_cuda_note(device, result);
}

/* ---- the device's calls ---- */
static void set_limit(struct sgpu_device *device, uint64_t bytes)
{
	pthread_mutex_lock(&device->memory.lock);
	device->memory.limit = bytes ? bytes : UINT64_MAX;
	pthread_mutex_unlock(&device->memory.lock);
}

int sgpu_cuda_memory_count(struct sgpu_device *device, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	bool fits;

	pthread_mutex_lock(&memory->lock);
	fits = size <= memory->total && size <= memory->limit &&
	       memory->used <= memory->limit - size;
	memory->used += fits ? size : 0;
	pthread_mutex_unlock(&memory->lock);
	return fits ? SGPU_OK : out_of_memory(device, size, error);
}

void sgpu_cuda_memory_uncount(struct sgpu_device *device, uint64_t size)
{
	pthread_mutex_lock(&device->memory.lock);
	device->memory.used -= size;
	pthread_mutex_unlock(&device->memory.lock);
}

static int alloc_block(struct sgpu_device *device, uint64_t size, sgpu_devptr *address,
		       struct sgpu_error *error)
{
	const uint64_t pages = size > INT64_MAX ? UINT64_MAX : sgpu_arena_extent(size);
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_region *block = NULL;
	bool entered;
	int rc = sgpu_cuda_enter(device, error);

	if (rc == SGPU_OK && sgpu_cuda_memory_count(device, pages, NULL) != SGPU_OK) {
		rc = out_of_memory(device, size, error);
	}
	if (rc < 0) {
		return rc;
	}
	rc = obtain(device, size, &block, error);
	if (rc == SGPU_OK) {
		pthread_mutex_lock(&memory->lock);
		entered = sgpu_ranges_insert(&memory->blocks, &block->range);
		pthread_mutex_unlock(&memory->lock);
		if (!entered) {
			release(device, block);
			rc = sgpu_fail_nomem(error);
		}
	}
	if (rc < 0) {
		sgpu_cuda_memory_uncount(device, pages);
		return rc;
	}
	*address = block->range.address;
	return SGPU_OK;
}

/* The lock is held. */
static struct sgpu_cuda_region *find(struct sgpu_cuda_memory *memory, sgpu_devptr address)
{
	return (struct sgpu_cuda_region *)(void *)sgpu_ranges_find(&memory->blocks, address);
}

static void free_block(struct sgpu_device *device, sgpu_devptr address, uint64_t size)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_region *block;

	(void)size; /* the block's record has the size */
	pthread_mutex_lock(&memory->lock);
	block = find(memory, address);
	if (block && block->range.address == address) {
		sgpu_ranges_remove(&memory->blocks, &block->range);
		memory->used -= block->range.extent;
	} else {
		block = NULL;
	}
	pthread_mutex_unlock(&memory->lock);
	if (block) {
		release(device, block);
	}
}

static int check_range(struct sgpu_device *device, sgpu_devptr address, uint64_t size,
		       struct sgpu_task *task)
{
	const struct sgpu_cuda_region *block;
	const struct sgpu_range *shared;
	bool inside;

	pthread_mutex_lock(&device->memory.lock);
	block = find(&device->memory, address);
	inside = block && address - block->range.address <= block->size &&
		 size <= block->size - (address - block->range.address);
	shared = inside ? NULL : sgpu_ranges_find(&device->memory.shared, address);
	inside = inside || (shared && size <= shared->extent - (address - shared->address));
	pthread_mutex_unlock(&device->memory.lock);
	return inside || sgpu_frames_reach(&device->pages.frames, address, size)
		       ? SGPU_OK
		       : sgpu_task_refuse_range(task, address, size);
}

uint64_t sgpu_cuda_memory_spare(struct sgpu_device *device, uint64_t spare)
{
	const uint64_t free_bytes = unused(), left = free_bytes > spare ? free_bytes - spare : 0;

	return left < device->memory.limit ? left : device->memory.limit;
}

void sgpu_cuda_memory_figures(struct sgpu_device *device, uint64_t *total, uint64_t *free_bytes)
{
	struct sgpu_cuda_memory *memory = &device->memory;

	pthread_mutex_lock(&memory->lock);
	*total = memory->total < memory->limit ? memory->total : memory->limit;
	pthread_mutex_unlock(&memory->lock);
	*free_bytes = available(device);
	*free_bytes = *free_bytes < *total ? *free_bytes : *total;
}

void sgpu_cuda_clear_now(struct sgpu_device *device, CUdeviceptr address, uint64_t size)
{
	if (size > 0 && sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		sgpu_cuda_note(device, sgpu_cuda_clear(device, address, size));
	}
}

void sgpu_cuda_memory_close(struct sgpu_device *device)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_region *region;
	struct sgpu_range *range;

	while ((range = sgpu_ranges_any(&memory->blocks))) {
		sgpu_ranges_remove(&memory->blocks, range);
		release(device, (struct sgpu_cuda_region *)(void *)range);
	}
	while ((region = memory->regions)) {
		memory->regions = region->next;
		release(device, region);
	}
	sgpu_arena_clear(&memory->own);
	if (device->internal && sgpu_cuda_enter(device, NULL) == SGPU_OK &&
	    sgpu_cuda_sync_internal(device, NULL) == SGPU_OK) {
		(void)sgpu_cu.cuStreamDestroy(device->internal);
	}
}

const struct sgpu_device_memory_calls sgpu_cuda_memory_calls = {
	.alloc = alloc_block,
	.free = free_block,
	.host_alloc = sgpu_cuda_host_alloc,
	.host_free = sgpu_cuda_host_free,
	.host_register = sgpu_cuda_host_register,
	.host_unregister = sgpu_cuda_host_unregister,
	.limit = set_limit,
	.check = check_range,
	.shared_alloc = sgpu_cuda_shared_alloc,
	.shared_free = sgpu_cuda_shared_free,
};
