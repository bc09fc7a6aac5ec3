/* SPDX-License-Identifier: Apache-2.0
 *
 * Small blocks of device memory, powers of two cut from slabs: a batch of many small segments then allocates without
 * a call of the driver. A block is cleared as it is freed, in the order of the internal stream, and given out again
 * when that is known to have happened.
 */
#include <stdlib.h>

#include <device/cuda/blocks.h>

#define SLAB ((uint64_t)32 << 20)

struct sgpu_cuda_memory_slab {
	CUdeviceptr start, first;      /* as the driver gave it; the first whole page */
	uint64_t used;
	struct sgpu_cuda_memory_slab *next;
};

static int class_of(uint64_t size)
{
	int class = 0;

	while (((uint64_t)SGPU_CUDA_PAGE << class) < size) {
		class++;
	}
	return class;
}

/* The oldest idle block of the class, if its clearing is over; the lock is held. */
static struct sgpu_cuda_block *take_idle(struct sgpu_cuda_memory *memory, int class)
{
	struct sgpu_cuda_block *block = memory->idle[class];

	if (!block || block->serial > memory->cleared) {
		return NULL;
	}
	memory->idle[class] = block->next;
	if (!block->next) {
		memory->idle_tail[class] = NULL;
	}
	block->next = NULL;
	return block;
}

/* NULL: no slab has room, or *result says why not. The lock is held. */
static struct sgpu_cuda_block *carve(struct sgpu_cuda_memory *memory, int class, CUresult *result)
{
	struct sgpu_cuda_memory_slab *slab = memory->slabs;
	uint64_t extent = (uint64_t)SGPU_CUDA_PAGE << class;
	struct sgpu_cuda_block *block;

	if (!slab || extent > SLAB - slab->used) {
		return NULL;
	}
	block = calloc(1, sizeof(*block));
	if (block) {
		block->range.address = slab->first + slab->used;
		block->range.extent = extent;
		slab->used += extent;
	} else {
		*result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return block;
}

static CUresult add_slab(struct sgpu_device *device)
{
	struct sgpu_cuda_memory_slab *slab = calloc(1, sizeof(*slab));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (slab) {
		result = sgpu_cuda_obtain(device, SLAB + SGPU_CUDA_PAGE, &slab->start);
	}
	if (result != CUDA_SUCCESS) {
		free(slab);
		return result;
	}
	slab->first = sgpu_cuda_pages(slab->start);
	result = sgpu_cu.cuMemsetD8Async(slab->first, 0, SLAB, device->internal);
	if (result != CUDA_SUCCESS || sgpu_cuda_sync_internal(device, NULL) != SGPU_OK) {
		(void)sgpu_cu.cuMemFreeAsync(slab->start, device->internal);
		free(slab);
		return result != CUDA_SUCCESS ? result : CUDA_ERROR_UNKNOWN;
	}
	pthread_mutex_lock(&device->memory.lock);
	slab->next = device->memory.slabs;
	device->memory.slabs = slab;
	pthread_mutex_unlock(&device->memory.lock);
	return CUDA_SUCCESS;
}

/* Waits for all clearing so far, when an idle block of the class waits for it; whether one did. */
static bool await_clearing(struct sgpu_device *device, int class)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	uint64_t serial;
	bool waits;

	pthread_mutex_lock(&memory->lock);
	serial = memory->clearing;
	waits = memory->idle[class] != NULL;
	pthread_mutex_unlock(&memory->lock);
	if (!waits || sgpu_cuda_sync_internal(device, NULL) != SGPU_OK) {
		return false;
	}
	pthread_mutex_lock(&memory->lock);
	memory->cleared = memory->cleared < serial ? serial : memory->cleared;
	pthread_mutex_unlock(&memory->lock);
	return true;
}

struct sgpu_cuda_block *sgpu_cuda_small_take(struct sgpu_device *device, uint64_t size, CUresult *result)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_block *block;
	int class = class_of(size);

	*result = CUDA_SUCCESS;
	for (;;) {
		pthread_mutex_lock(&memory->lock);
		block = take_idle(memory, class);
		if (!block) {
			block = carve(memory, class, result);
		}
		pthread_mutex_unlock(&memory->lock);
		if (block || *result != CUDA_SUCCESS ||
		    (!await_clearing(device, class) && (*result = add_slab(device)) != CUDA_SUCCESS)) {
			return block;
		}
	}
}

void sgpu_cuda_small_give(struct sgpu_device *device, struct sgpu_cuda_block *block)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	int class = class_of(block->range.extent);
	CUresult result;

	pthread_mutex_lock(&memory->lock);
	result = sgpu_cu.cuMemsetD8Async(block->range.address, 0, block->range.extent, device->internal);
	if (result == CUDA_SUCCESS) {
		block->serial = ++memory->clearing;
		block->next = NULL;
		if (memory->idle_tail[class]) {
			memory->idle_tail[class]->next = block;
		} else {
			memory->idle[class] = block;
		}
		memory->idle_tail[class] = block;
	}
	pthread_mutex_unlock(&memory->lock);
	if (result != CUDA_SUCCESS) {
		free(block); /* memory that cannot be cleared is not given to anybody */
		sgpu_cuda_note(device, result);
	}
}

void sgpu_cuda_small_close(struct sgpu_device *device)
{
	struct sgpu_cuda_memory *memory = &device->memory;
	struct sgpu_cuda_memory_slab *slab;
	struct sgpu_cuda_block *block;
	int class;

	for (class = 0; class < SGPU_CUDA_CLASSES; class++) {
		while ((block = memory->idle[class])) {
			memory->idle[class] = block->next;
			free(block);
		}
	}
	while ((slab = memory->slabs)) {
		memory->slabs = slab->next;
		if (atomic_load(&device->faulted) == 0) {
			(void)sgpu_cu.cuMemFreeAsync(slab->start, device->internal);
		}
		free(slab);
	}
}
