/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory: a pool of our own that keeps what was freed, in the order of one internal stream. Memory is cleared
 * as it is freed, and host threads wait for that stream before they are given memory, so that every stream may use it.
 * Every block in use stands in a tree, so that addresses can be checked and nothing is left behind.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include <device/cuda/gpu.h>

struct block {
	uint64_t address, size;   /* as asked for */
	uint64_t extent;          /* bytes that are its own */
	CUdeviceptr start;        /* as the driver gave it */
	uint64_t start_extent;
};

/* Blocks are disjoint, so those that overlap are the same; a key of one byte finds the block around it. */
static int compare(const void *a, const void *b)
{
	const struct block *left = a, *right = b;

	if (left->address + left->extent <= right->address) {
		return -1;
	}
	return left->address >= right->address + right->extent ? 1 : 0;
}

static struct block *lookup(struct sgpu_cuda_memory *memory, uint64_t address)
{
	struct block key = { .address = address, .extent = 1 };
	struct block **node = tfind(&key, &memory->live, compare);

	return node ? *node : NULL;
}

static uint64_t round_up(uint64_t size)
{
	return (size + SGPU_CUDA_PAGE - 1) / SGPU_CUDA_PAGE * SGPU_CUDA_PAGE;
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

/* Until the internal stream has done what it was asked for. */
static int settle(struct sgpu_device *device, struct sgpu_error *error)
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
	left = memory->limit - (memory->used < memory->limit ? memory->used : memory->limit);
	return free_bytes < left ? free_bytes : left;
}

/* From the pool, once more after it gave back what it keeps in pieces too small. */
static CUresult obtain(struct sgpu_device *device, uint64_t size, CUdeviceptr *start)
{
	CUmemoryPool pool = device->memory.pool;
	CUresult result = sgpu_cu.cuMemAllocFromPoolAsync(start, size, pool, device->internal);

	if (result == CUDA_ERROR_OUT_OF_MEMORY && settle(device, NULL) == SGPU_OK) {
		(void)sgpu_cu.cuMemPoolTrimTo(pool, 0);
		result = sgpu_cu.cuMemAllocFromPoolAsync(start, size, pool, device->internal);
	}
	return result;
}

/* Fills in a block of `extent` bytes. Small blocks may come at any multiple of 512. */
static CUresult place(struct sgpu_device *device, struct block *block)
{
	CUresult result = obtain(device, block->extent, &block->start);

	block->start_extent = block->extent;
	if (result == CUDA_SUCCESS && block->start % SGPU_CUDA_PAGE != 0) {
		(void)sgpu_cu.cuMemFreeAsync(block->start, device->internal);
		block->start_extent = block->extent + SGPU_CUDA_PAGE;
		result = obtain(device, block->start_extent, &block->start);
	}
	block->address = round_up(block->start);
	return result;
}

/* Both locks are free; `used` already counts it. */
static int make(struct sgpu_device *device, struct block *block, struct sgpu_error *error)
{
	CUresult result = place(device, block);
	int code;

	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		return out_of_memory(block->size, available(device), error);
	}
	code = sgpu_cuda_check(device, result, "cannot allocate device memory", error);
	return code == SGPU_OK ? settle(device, error) : code;
}

static bool enlist(struct sgpu_cuda_memory *memory, struct block *block)
{
	bool done;

	pthread_mutex_lock(&memory->lock);
	done = tsearch(block, &memory->live, compare) != NULL;
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

int sgpu_cuda_alloc(struct sgpu_device *device, uint64_t size, sgpu_devptr *address, struct sgpu_error *error)
{
	struct block *block;
	int code = sgpu_cuda_enter(device, error);

	if (code < 0) {
		return code;
	}
	if (size > INT64_MAX || !admit(&device->memory, round_up(size ? size : 1))) {
		return out_of_memory(size, available(device), error);
	}
	block = calloc(1, sizeof(*block));
	if (!block) {
		uncount(&device->memory, round_up(size ? size : 1));
		return sgpu_fail_nomem(error);
	}
	block->size = size;
	block->extent = round_up(size ? size : 1);
	code = make(device, block, error);
	if (code == SGPU_OK && !enlist(&device->memory, block)) {
		(void)sgpu_cu.cuMemFreeAsync(block->start, device->internal);
		code = sgpu_fail_nomem(error);
	}
	if (code < 0) {
		uncount(&device->memory, block->extent);
		free(block);
		return code;
	}
	*address = block->address;
	return SGPU_OK;
}

/* Clears before it frees, on one stream. */
static void release(struct sgpu_device *device, CUdeviceptr start, uint64_t extent)
{
	CUresult result = sgpu_cu.cuMemsetD8Async(start, 0, extent, device->internal);

	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemFreeAsync(start, device->internal);
	}
	/* Memory that cannot be cleared is not given to anybody. */
	sgpu_cuda_note(device, result);
}

void sgpu_cuda_free(struct sgpu_device *device, sgpu_devptr address, uint64_t size)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct block *block;

	(void)size; /* the block knows */
	pthread_mutex_lock(&memory->lock);
	block = lookup(memory, address);
	if (block && block->address == address) {
		tdelete(block, &memory->live, compare);
		memory->used -= block->extent;
	} else {
		block = NULL;
	}
	pthread_mutex_unlock(&memory->lock);
	if (block && sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		release(device, block->start, block->start_extent);
	}
	free(block);
}

int sgpu_cuda_check_range(struct sgpu_device *device, sgpu_devptr address, uint64_t size, struct sgpu_task *task)
{
	struct block *block;
	bool inside;

	pthread_mutex_lock(&device->memory.lock);
	block = lookup(&device->memory, address);
	inside = block && address - block->address <= block->size && size <= block->size - (address - block->address);
	pthread_mutex_unlock(&device->memory.lock);
	if (inside) {
		return SGPU_OK;
	}
	if (task) {
		task->code = sgpu_fail(&task->error, SGPU_EUSAGE, "%llu bytes at device address %#llx are not allocated",
				       (unsigned long long)size, (unsigned long long)address);
	}
	return SGPU_EUSAGE;
}

void sgpu_cuda_memory_figures(struct sgpu_device *device, uint64_t *total, uint64_t *free_bytes)
{
	struct sgpu_cuda_memory *memory = &device->memory;

	pthread_mutex_lock(&memory->lock);
	*total = memory->total < memory->limit ? memory->total : memory->limit;
	*free_bytes = available(device);
	pthread_mutex_unlock(&memory->lock);
	*free_bytes = *free_bytes < *total ? *free_bytes : *total;
}

int sgpu_cuda_private_alloc(struct sgpu_device *device, uint64_t size, CUdeviceptr *start, struct sgpu_error *error)
{
	int code = sgpu_cuda_check(device, obtain(device, size, start), "cannot allocate device memory", error);

	return code == SGPU_OK ? settle(device, error) : code;
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
	if (settle(device, NULL) != SGPU_OK) {
		return; /* lost: nobody gets at it any more */
	}
}

void sgpu_cuda_memory_close(struct sgpu_device *device)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct block *block;

	while (memory->live) {
		block = *(struct block **)memory->live;
		tdelete(block, &memory->live, compare);
		if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
			release(device, block->start, block->start_extent);
		}
		free(block);
	}
	if (sgpu_cuda_enter(device, NULL) != SGPU_OK || (device->internal && settle(device, NULL) != SGPU_OK)) {
		return;
	}
	if (memory->pool) {
		(void)sgpu_cu.cuMemPoolDestroy(memory->pool);
	}
	if (device->internal) {
		(void)sgpu_cu.cuStreamDestroy(device->internal);
	}
}
