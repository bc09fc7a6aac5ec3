/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory: a pool of our own that keeps what was freed, in the order of one internal stream. Memory is cleared
 * as it is freed, and host threads wait for that stream before they are given memory, so that every stream may use it.
 * Every block in use stands in a tree, so that addresses can be checked and nothing is left behind.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/blocks.h>

static struct sgpu_cuda_block *find_block(struct sgpu_cuda_memory *memory, uint64_t address)
{
	return (struct sgpu_cuda_block *)(void *)sgpu_ranges_find(&memory->live, address);
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
		result = sgpu_cu.cuMemPoolSetAttribute(memory->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
	}
	return sgpu_cuda_check(device, result, "cannot make a pool of device memory", error);
}

int sgpu_cuda_sync_internal(struct sgpu_device *device, struct sgpu_error *error)
{
	CUevent event;
	CUresult result = sgpu_cuda_event_take(device, false, &event);
	int code;

	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuEventRecord(event, device->internal);
		code = sgpu_cuda_check(device, result, "cannot record an event", error);
		if (code == SGPU_OK) {
			code = sgpu_cuda_wait(device, event, error);
		}
		sgpu_cuda_event_give(device, false, event);
		return code;
	}
	return sgpu_cuda_check(device, result, "cannot create an event", error);
}

static int out_of_memory(uint64_t size, uint64_t left, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_ENOMEM, "out of device memory: %llu bytes asked for, %llu available",
			 (unsigned long long)size, (unsigned long long)left);
}

static uint64_t available(struct sgpu_device *device)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	cuuint64_t reserved = 0, used = 0;
	size_t free_bytes = 0, total = 0;
	uint64_t left;

	if (sgpu_cu.cuMemGetInfo(&free_bytes, &total) != CUDA_SUCCESS) {
		return 0;
	}
	/* What the pool keeps is there for us. */
	if (sgpu_cu.cuMemPoolGetAttribute(memory->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ==
		    CUDA_SUCCESS &&
	    sgpu_cu.cuMemPoolGetAttribute(memory->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS &&
	    reserved > used) {
		free_bytes += reserved - used;
	}
	pthread_mutex_lock(&memory->lock);
	left = memory->limit - (memory->used < memory->limit ? memory->used : memory->limit);
	pthread_mutex_unlock(&memory->lock);
	return free_bytes < left ? free_bytes : left;
}

/* Once more after the pool gave back what it keeps in pieces too small. */
CUresult sgpu_cuda_obtain(struct sgpu_device *device, uint64_t size, CUdeviceptr *start)
{
	CUmemoryPool pool = device->memory.pool;
	CUresult result = sgpu_cu.cuMemAllocFromPoolAsync(start, size, pool, device->internal);

	if (result == CUDA_ERROR_OUT_OF_MEMORY && sgpu_cuda_sync_internal(device, NULL) == SGPU_OK) {
		(void)sgpu_cu.cuMemPoolTrimTo(pool, 0);
		result = sgpu_cu.cuMemAllocFromPoolAsync(start, size, pool, device->internal);
	}
	return result;
}

/* Fills in a block of `extent` bytes. Small blocks may come at any multiple of 512. */
static CUresult place(struct sgpu_device *device, struct sgpu_cuda_block *block)
{
	CUresult result = sgpu_cuda_obtain(device, block->range.extent, &block->start);

	block->start_extent = block->range.extent;
	if (result == CUDA_SUCCESS && block->start % SGPU_CUDA_PAGE != 0) {
		(void)sgpu_cu.cuMemFreeAsync(block->start, device->internal);
		block->start_extent = block->range.extent + SGPU_CUDA_PAGE;
		result = sgpu_cuda_obtain(device, block->start_extent, &block->start);
	}
	block->range.address = sgpu_cuda_pages(block->start);
	return result;
}

static int refuse(struct sgpu_device *device, CUresult result, uint64_t size, struct sgpu_error *error)
{
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		return out_of_memory(size, available(device), error);
	}
	return sgpu_cuda_check(device, result, "cannot allocate device memory", error);
}

/* A block that every stream may use; no lock is held, `used` already counts it. */
static int make(struct sgpu_device *device, uint64_t size, struct sgpu_cuda_block **block, struct sgpu_error *error)
{
	uint64_t pages = sgpu_cuda_pages(size ? size : 1);
	CUresult result = CUDA_SUCCESS;
	struct sgpu_cuda_block *new;

	if (pages <= SGPU_CUDA_SMALL_MAX) {
		new = sgpu_cuda_small_take(device, pages, &result);
	} else {
		new = calloc(1, sizeof(*new));
		if (new) {
			new->range.extent = pages;
			result = place(device, new);
		}
	}
	if (result != CUDA_SUCCESS || !new) {
		if (pages > SGPU_CUDA_SMALL_MAX) {
			free(new);
		}
		return result != CUDA_SUCCESS ? refuse(device, result, size, error) : sgpu_fail_nomem(error);
	}
	new->size = size;
	new->counted = pages;
	*block = new;
	return pages <= SGPU_CUDA_SMALL_MAX ? SGPU_OK : sgpu_cuda_sync_internal(device, error);
}

static bool enlist(struct sgpu_cuda_memory *memory, struct sgpu_cuda_block *block)
{
	bool done;

	pthread_mutex_lock(&memory->lock);
	done = sgpu_ranges_insert(&memory->live, &block->range);
	pthread_mutex_unlock(&memory->lock);
	return done;
}

/* Counts so many bytes, unless that is more than there may be. */
static bool admit(struct sgpu_cuda_memory *memory, uint64_t pages)
{
	bool fits;

	pthread_mutex_lock(&memory->lock);
	fits = pages <= memory->total && pages <= memory->limit && memory->used <= memory->limit - pages;
	memory->used += fits ? pages : 0;
	pthread_mutex_unlock(&memory->lock);
	return fits;
}

static void uncount(struct sgpu_cuda_memory *memory, uint64_t pages)
{
	pthread_mutex_lock(&memory->lock);
	memory->used -= pages;
	pthread_mutex_unlock(&memory->lock);
}

/* Clears before it frees, in the order of one stream. */
static void release(struct sgpu_device *device, CUdeviceptr start, uint64_t extent)
{
	CUresult result = sgpu_cu.cuMemsetD8Async(start, 0, extent, device->internal);

	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemFreeAsync(start, device->internal);
	}
	/* Memory that cannot be cleared is not given to anybody. */
	sgpu_cuda_note(device, result);
}

/* It is in no tree any more. Frees the record, or keeps it. */
static void discard(struct sgpu_device *device, struct sgpu_cuda_block *block)
{
	if (sgpu_cuda_enter(device, NULL) != SGPU_OK) {
		free(block);
	} else if (block->start == 0) {
		sgpu_cuda_small_give(device, block);
	} else {
		release(device, block->start, block->start_extent);
		free(block);
	}
}

int sgpu_cuda_alloc(struct sgpu_device *device, uint64_t size, sgpu_devptr *address, struct sgpu_error *error)
{
	uint64_t pages = size > INT64_MAX ? UINT64_MAX : sgpu_cuda_pages(size ? size : 1);
	struct sgpu_cuda_block *block = NULL;
	int code = sgpu_cuda_enter(device, error);

	if (code < 0) {
		return code;
	}
	if (!admit(&device->memory, pages)) {
		return out_of_memory(size, available(device), error);
	}
	code = make(device, size, &block, error);
	if (code == SGPU_OK && !enlist(&device->memory, block)) {
		code = sgpu_fail_nomem(error);
	}
	if (code < 0) {
		uncount(&device->memory, pages);
		if (block) {
			discard(device, block);
		}
		return code;
	}
	*address = block->range.address;
	return SGPU_OK;
}

void sgpu_cuda_free(struct sgpu_device *device, sgpu_devptr address, uint64_t size)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_block *block;

	(void)size; /* the block knows */
	pthread_mutex_lock(&memory->lock);
	block = find_block(memory, address);
	if (block && block->range.address == address) {
		sgpu_ranges_remove(&memory->live, &block->range);
		memory->used -= block->counted;
	} else {
		block = NULL;
	}
	pthread_mutex_unlock(&memory->lock);
	if (block) {
		discard(device, block);
	}
}

int sgpu_cuda_check_range(struct sgpu_device *device, sgpu_devptr address, uint64_t size, struct sgpu_task *task)
{
	struct sgpu_cuda_block *block;
	bool inside;

	pthread_mutex_lock(&device->memory.lock);
	block = find_block(&device->memory, address);
	inside = block && address - block->range.address <= block->size && size <= block->size - (address - block->range.address);
	pthread_mutex_unlock(&device->memory.lock);
	if (inside || sgpu_frames_reach(&device->pages.frames, address, size)) {
		return SGPU_OK;
	}
	if (task) {
		task->code = sgpu_fail(&task->error, SGPU_EUSAGE, "%llu bytes at device address %#llx are not allocated",
				       (unsigned long long)size, (unsigned long long)address);
	}
	return SGPU_EUSAGE;
}

int sgpu_cuda_memory_count(struct sgpu_device *device, uint64_t size, struct sgpu_error *error)
{
	return admit(&device->memory, size) ? SGPU_OK : out_of_memory(size, available(device), error);
}

void sgpu_cuda_memory_uncount(struct sgpu_device *device, uint64_t size)
{
	uncount(&device->memory, size);
}

int sgpu_cuda_memory_trim(struct sgpu_device *device)
{
	int code = sgpu_cuda_sync_internal(device, NULL);

	return code == SGPU_OK ? sgpu_cuda_check(device, sgpu_cu.cuMemPoolTrimTo(device->memory.pool, 0), "", NULL) : code;
}

int sgpu_cuda_memory_refuse(struct sgpu_device *device, CUresult result, uint64_t size, struct sgpu_error *error)
{
	return refuse(device, result, size, error);
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

	*total = memory->total < memory->limit ? memory->total : memory->limit;
	*free_bytes = available(device);
	*free_bytes = *free_bytes < *total ? *free_bytes : *total;
}

int sgpu_cuda_private_alloc(struct sgpu_device *device, uint64_t size, CUdeviceptr *start, struct sgpu_error *error)
{
	int code = sgpu_cuda_check(device, sgpu_cuda_obtain(device, size, start), "cannot allocate device memory", error);

	return code == SGPU_OK ? sgpu_cuda_sync_internal(device, error) : code;
}

void sgpu_cuda_private_free(struct sgpu_device *device, CUdeviceptr start, uint64_t size)
{
	if (start && sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		release(device, start, size);
	}
}

void sgpu_cuda_clear_now(struct sgpu_device *device, CUdeviceptr address, uint64_t size)
{
	if (size == 0 || sgpu_cuda_enter(device, NULL) != SGPU_OK) {
		return;
	}
	sgpu_cuda_note(device, sgpu_cu.cuMemsetD8Async(address, 0, size, device->internal));
	if (sgpu_cuda_sync_internal(device, NULL) != SGPU_OK) {
		return; /* faulted: nobody gets at it any more */
	}
}

void sgpu_cuda_memory_close(struct sgpu_device *device)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_block *block;

	while ((block = (struct sgpu_cuda_block *)(void *)sgpu_ranges_any(&memory->live))) {
		sgpu_ranges_remove(&memory->live, &block->range);
		discard(device, block);
	}
	sgpu_cuda_small_close(device);
	if (sgpu_cuda_enter(device, NULL) != SGPU_OK || (device->internal && sgpu_cuda_sync_internal(device, NULL) != SGPU_OK)) {
		return;
	}
	if (memory->pool) {
		(void)sgpu_cu.cuMemPoolDestroy(memory->pool);
	}
	if (device->internal) {
		(void)sgpu_cu.cuStreamDestroy(device->internal);
	}
}
