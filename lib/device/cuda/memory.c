/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory: regions from the device's pool, which keeps freed memory, allocated and freed in
 * the order of the internal stream. A host thread waits for that stream before it gets a region, so
 * every stream may use it. A large block is a region; small ones are cut from regions, without a
 * driver call. Memory is cleared when it is freed. The arena knows all blocks in use, to check
 * addresses and to free all memory.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/gpu.h>

/* Bytes: of the largest small block; of a region for these; of the first region for the device's
 * own use; of the smallest request that obtain() compares with free memory. */
#define SMALL_MAX ((uint64_t)1 << 20)
#define REGION ((uint64_t)32 << 20)
#define FIRST_OWN ((uint64_t)2 << 20)
#define ASKED_FIRST ((uint64_t)256 << 20)

struct sgpu_cuda_region {
	CUdeviceptr start; /* as the driver gave it */
	uint64_t extent;
	bool of_pool;
	struct sgpu_cuda_region *next;
};

static uint64_t whole_pages(uint64_t size)
{
	return (size + SGPU_CUDA_PAGE - 1) / SGPU_CUDA_PAGE * SGPU_CUDA_PAGE;
}

/* Lists a region and adds it to the arena; the lock is held. Returns false if out of host memory:
 * the region is then only listed, to be freed. */
static bool enter_region(struct sgpu_cuda_cuts *cuts, struct sgpu_cuda_region *region)
{
	const uint64_t first = whole_pages(region->start), end = region->start + region->extent;

	region->next = cuts->regions;
	cuts->regions = region;
	return sgpu_arena_add(&cuts->arena, first,
			      (end - first) / SGPU_CUDA_PAGE * SGPU_CUDA_PAGE) == SGPU_OK;
}

/* Adds the first region for the device's own use: by cuMemAlloc, since the pool's first memory
 * takes much longer, and now, since cuMemAlloc may wait for kernels and none run yet. */
static CUresult add_first_own(struct sgpu_device *device)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_region *region = calloc(1, sizeof(*region));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (region) {
		region->extent = FIRST_OWN;
		result = sgpu_cu.cuMemAlloc(&region->start, region->extent);
	}
	if (result == CUDA_SUCCESS) {
		result = sgpu_cuda_clear(device, region->start, region->extent);
	}
	if (result != CUDA_SUCCESS) {
		free(region);
		return result;
	}
	return enter_region(&memory->own, region) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

int sgpu_cuda_memory_open(struct sgpu_device *device, uint64_t limit, struct sgpu_error *error)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_NONE,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal },
	};
	cuuint64_t keep = UINT64_MAX;
	size_t total = 0;
	CUresult result;

	memory->limit = limit ? limit : UINT64_MAX;
	result = sgpu_cu.cuDeviceTotalMem(&total, device->handle);
	memory->total = total;
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuStreamCreate(&device->internal, CU_STREAM_NON_BLOCKING);
	}
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemPoolCreate(&memory->pool, &properties);
	}
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemPoolSetAttribute(memory->pool,
						       CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
	}
	if (result == CUDA_SUCCESS) {
		result = add_first_own(device);
	}
	return sgpu_cuda_check(device, result, "cannot make a pool of device memory", error);
}

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

/* How many bytes of the GPU's memory are free. */
static uint64_t unused(struct sgpu_device *device)
{
	CUmemoryPool pool = device->memory.pool;
	cuuint64_t reserved = 0, used = 0;
	size_t free_bytes = 0, total = 0;

	if (sgpu_cu.cuMemGetInfo(&free_bytes, &total) != CUDA_SUCCESS) {
		return 0;
	}
	/* Memory that the pool keeps is free for this process. */
	if (sgpu_cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ==
		    CUDA_SUCCESS &&
	    sgpu_cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) ==
		    CUDA_SUCCESS &&
	    reserved > used) {
		free_bytes += reserved - used;
	}
	return free_bytes;
}

static uint64_t available(struct sgpu_device *device)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	uint64_t free_bytes = unused(device), left;

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

/* Allocates from the pool; if out of memory, trims the pool and tries once more. A driver that
 * cannot serve a request first takes all free memory, which other processes then lack. So a large
 * request is first compared with what is free. */
static CUresult obtain(struct sgpu_device *device, uint64_t size, CUdeviceptr *start)
{
	CUmemoryPool pool = device->memory.pool;
	CUresult result;

	if (size >= ASKED_FIRST && size > unused(device) &&
	    (sgpu_cuda_sync_internal(device, NULL) != SGPU_OK || size > unused(device))) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = sgpu_cu.cuMemAllocFromPoolAsync(start, size, pool, device->internal);
	if (result == CUDA_ERROR_OUT_OF_MEMORY &&
	    sgpu_cuda_sync_internal(device, NULL) == SGPU_OK) {
		(void)sgpu_cu.cuMemPoolTrimTo(pool, 0);
		result = sgpu_cu.cuMemAllocFromPoolAsync(start, size, pool, device->internal);
	}
	return result;
}

int sgpu_cuda_memory_refuse(struct sgpu_device *device, CUresult result, uint64_t size,
			    struct sgpu_error *error)
{
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		return out_of_memory(device, size, error);
	}
	return sgpu_cuda_check(device, result, "cannot allocate device memory", error);
}

/* ---- regions and blocks ---- */
/* Takes a block of memory that is known to be clear, or returns NULL; the lock is held. */
static struct sgpu_block *take(struct sgpu_cuda_cuts *cuts, uint64_t size)
{
	struct sgpu_block *block;

	while ((block = sgpu_arena_next_cleared(&cuts->arena))) {
		sgpu_arena_release(&cuts->arena, block);
	}
	return sgpu_arena_take(&cuts->arena, size);
}

/* Gets a region from the pool that every stream may use: `whole`, for one block, or else cleared,
 * for several. The driver's memory may begin at any multiple of 512. */
static CUresult obtain_region(struct sgpu_device *device, uint64_t size, bool whole,
			      struct sgpu_cuda_region *region)
{
	CUresult result;

	region->of_pool = true;
	region->extent = whole || size > REGION ? sgpu_arena_extent(size) : REGION;
	result = obtain(device, region->extent, &region->start);
	if (result == CUDA_SUCCESS && region->start % SGPU_CUDA_PAGE != 0) {
		(void)sgpu_cu.cuMemFreeAsync(region->start, device->internal);
		region->extent += SGPU_CUDA_PAGE;
		result = obtain(device, region->extent, &region->start);
	}
	if (result != CUDA_SUCCESS) {
		return result;
	}
	if (!whole) {
		result = sgpu_cuda_clear(device, region->start, region->extent);
	} else if (sgpu_cuda_sync_internal(device, NULL) != SGPU_OK) {
		result = CUDA_ERROR_UNKNOWN;
	}
	if (result != CUDA_SUCCESS) {
		(void)sgpu_cu.cuMemFreeAsync(region->start, device->internal);
	}
	return result;
}

/* Adds a region, and takes the block from it. */
static int add_region(struct sgpu_device *device, struct sgpu_cuda_cuts *cuts, uint64_t size,
		      struct sgpu_block **block, struct sgpu_error *error)
{
	struct sgpu_cuda_region *region = calloc(1, sizeof(*region));
	const bool whole = size > SMALL_MAX && cuts == &device->memory.blocks;
	CUresult result;

	*block = NULL;
	if (!region) {
		return sgpu_fail_nomem(error);
	}
	result = obtain_region(device, size, whole, region);
	if (result != CUDA_SUCCESS) {
		free(region);
		return sgpu_cuda_memory_refuse(device, result, size, error);
	}
	pthread_mutex_lock(&device->memory.lock);
	*block = enter_region(cuts, region) ? sgpu_arena_take(&cuts->arena, size) : NULL;
	pthread_mutex_unlock(&device->memory.lock);
	return *block ? SGPU_OK : sgpu_fail_nomem(error);
}

/* Gets a block that every stream may use. It is clear. */
static int cut(struct sgpu_device *device, struct sgpu_cuda_cuts *cuts, uint64_t size,
	       struct sgpu_block **block, struct sgpu_error *error)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	uint64_t serial;

	pthread_mutex_lock(&memory->lock);
	*block = take(cuts, size);
	serial = !*block && cuts->arena.clearing ? cuts->arena.serial : 0;
	pthread_mutex_unlock(&memory->lock);
	if (serial > 0 && sgpu_cuda_sync_internal(device, NULL) == SGPU_OK) {
		pthread_mutex_lock(&memory->lock);
		sgpu_arena_note_cleared(&cuts->arena, serial);
		*block = take(cuts, size);
		pthread_mutex_unlock(&memory->lock);
	}
	return *block ? SGPU_OK : add_region(device, cuts, size, block, error);
}

/* Enqueues the clearing of a block, which can be given out again after it. The device must not be
 * faulted. Memory that cannot be cleared is never given out again. The lock is held. */
static CUresult give(struct sgpu_device *device, struct sgpu_cuda_cuts *cuts,
		     struct sgpu_block *block)
{
	CUresult result = sgpu_cu.cuMemsetD8Async(block->range.address, 0, block->range.extent,
						  device->internal);

	sgpu_arena_leave(&cuts->arena, block);
	if (result == CUDA_SUCCESS) {
		sgpu_arena_await(&cuts->arena, block);
	}
	return result;
}

/* Whether it is a large block with a region of its own. */
static bool fills_region(const struct sgpu_block *block)
{
	return block->size > SMALL_MAX && block->range.extent == block->region->extent;
}

/* Removes a block and its region from the arena, for the caller to release. The lock is held. */
static struct sgpu_cuda_region *take_out(struct sgpu_cuda_cuts *cuts, struct sgpu_block *block)
{
	struct sgpu_arena_region *whole = block->region;
	struct sgpu_cuda_region **link = &cuts->regions, *region;

	while (whole->address < (*link)->start ||
	       whole->address - (*link)->start >= (*link)->extent) {
		link = &(*link)->next;
	}
	region = *link;
	*link = region->next;
	sgpu_arena_leave(&cuts->arena, block);
	sgpu_arena_release(&cuts->arena, block);
	sgpu_arena_drop(&cuts->arena, whole);
	return region;
}

/* Clears and frees a region. Memory that cannot be cleared is not freed. A faulted device's memory
 * is freed with its context. */
static void release(struct sgpu_device *device, struct sgpu_cuda_region *region)
{
	CUresult result = CUDA_SUCCESS;

	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		result =
			sgpu_cu.cuMemsetD8Async(region->start, 0, region->extent, device->internal);
		if (result == CUDA_SUCCESS && region->of_pool) {
			result = sgpu_cu.cuMemFreeAsync(region->start, device->internal);
		} else if (result == CUDA_SUCCESS &&
			   sgpu_cuda_sync_internal(device, NULL) == SGPU_OK) {
			result = sgpu_cu.cuMemFree(region->start);
		}
		sgpu_cuda_note(device, result);
	}
	free(region);
}

/* ---- the device's calls ---- */
void sgpu_cuda_memory_limit(struct sgpu_device *device, uint64_t bytes)
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

int sgpu_cuda_alloc(struct sgpu_device *device, uint64_t size, sgpu_devptr *address,
		    struct sgpu_error *error)
{
	uint64_t pages = size > INT64_MAX ? UINT64_MAX : sgpu_arena_extent(size);
	struct sgpu_cuda_cuts *blocks = &device->memory.blocks;
	struct sgpu_block *block;
	int rc = sgpu_cuda_enter(device, error);

	if (rc == SGPU_OK && sgpu_cuda_memory_count(device, pages, NULL) != SGPU_OK) {
		rc = out_of_memory(device, size, error);
	}
	if (rc < 0) {
		return rc;
	}
	rc = (size > SMALL_MAX ? add_region : cut)(device, blocks, size, &block, error);
	if (rc < 0) {
		sgpu_cuda_memory_uncount(device, pages);
		return rc;
	}
	*address = block->range.address;
	return SGPU_OK;
}

void sgpu_cuda_free(struct sgpu_device *device, sgpu_devptr address, uint64_t size)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_region *region = NULL;
	CUresult result = CUDA_SUCCESS;
	struct sgpu_block *block;

	(void)size; /* the block's record has the size */
	if (sgpu_cuda_enter(device, NULL) != SGPU_OK) {
		return; /* the memory is freed with the context */
	}
	pthread_mutex_lock(&memory->lock);
	block = sgpu_arena_find(&memory->blocks.arena, address);
	if (block && block->range.address == address) {
		memory->used -= sgpu_arena_extent(block->size);
		if (fills_region(block)) {
			region = take_out(&memory->blocks, block);
		} else {
			result = give(device, &memory->blocks, block);
		}
	}
	pthread_mutex_unlock(&memory->lock);
	sgpu_cuda_note(device, result);
	if (region) {
		release(device, region);
	}
}

int sgpu_cuda_check_range(struct sgpu_device *device, sgpu_devptr address, uint64_t size,
			  struct sgpu_task *task)
{
	const struct sgpu_block *block;
	const struct sgpu_range *shared;
	bool inside;

	pthread_mutex_lock(&device->memory.lock);
	block = sgpu_arena_find(&device->memory.blocks.arena, address);
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
	struct sgpu_cuda_memory *memory = &device->memory;
	size_t free_bytes = 0, total = 0;

	if (sgpu_cu.cuMemGetInfo(&free_bytes, &total) != CUDA_SUCCESS || free_bytes <= spare) {
		return 0;
	}
	return free_bytes - spare < memory->limit ? free_bytes - spare : memory->limit;
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

int sgpu_cuda_private_alloc(struct sgpu_device *device, uint64_t size, CUdeviceptr *start,
			    struct sgpu_error *error)
{
	struct sgpu_block *block;
	int rc = cut(device, &device->memory.own, size, &block, error);

	*start = rc == SGPU_OK ? block->range.address : 0;
	return rc;
}

void sgpu_cuda_private_free(struct sgpu_device *device, CUdeviceptr start)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_block *block;
	CUresult result = CUDA_SUCCESS;

	if (start == 0 || sgpu_cuda_enter(device, NULL) != SGPU_OK) {
		return;
	}
	pthread_mutex_lock(&memory->lock);
	block = sgpu_arena_find(&memory->own.arena, start);
	if (block) {
		result = give(device, &memory->own, block);
	}
	pthread_mutex_unlock(&memory->lock);
	sgpu_cuda_note(device, result);
}

void sgpu_cuda_clear_now(struct sgpu_device *device, CUdeviceptr address, uint64_t size)
{
	if (size > 0 && sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		sgpu_cuda_note(device, sgpu_cuda_clear(device, address, size));
	}
}

static void close_cuts(struct sgpu_device *device, struct sgpu_cuda_cuts *cuts)
{
	struct sgpu_cuda_region *region;

	while ((region = cuts->regions)) {
		cuts->regions = region->next;
		release(device, region);
	}
	sgpu_arena_clear(&cuts->arena);
}

void sgpu_cuda_memory_close(struct sgpu_device *device)
{
	struct sgpu_cuda_memory *memory = &device->memory;

	close_cuts(device, &memory->blocks);
	close_cuts(device, &memory->own);
	if (sgpu_cuda_enter(device, NULL) != SGPU_OK ||
	    (device->internal && sgpu_cuda_sync_internal(device, NULL) != SGPU_OK)) {
		return;
	}
	if (memory->pool) {
		(void)sgpu_cu.cuMemPoolDestroy(memory->pool);
	}
	if (device->internal) {
		(void)sgpu_cu.cuStreamDestroy(device->internal);
	}
}
