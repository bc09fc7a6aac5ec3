/* SPDX-License-Identifier: Apache-2.0
 *
 * Pinned host memory: a pool of blocks that grows in steps, and status lines. Pinning takes longer
 * than the copies that it speeds up, so all memory stays until the device is closed.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if SGPU_NUMA
#include <numa.h>
#include <numaif.h>
#endif

#include <device/cuda/gpu.h>

#define STEP_MIN ((uint64_t)2 << 20)
#define STEP_MAX ((uint64_t)256 << 20)
enum { LINE_BYTES = 64, SLAB_LINES = 1024 };

/* A step of the pool, or what the caller registered. */
struct sgpu_cuda_pinned {
	void *memory;
	uint64_t size;
	CUdeviceptr address; /* where kernels reach it; 0: only copies do */
	bool registered, writable;
	struct sgpu_cuda_pinned *next;
};

struct sgpu_cuda_slab {
	void *memory;
	struct sgpu_cuda_slab *next;
	struct sgpu_cuda_status lines[SLAB_LINES];
};

/* Pins memory on the device's NUMA node: a page is placed when pinned, by this thread's policy. */
static CUresult pin(struct sgpu_device *device, uint64_t size, void **memory)
{
	CUresult result;
#if !SGPU_NUMA
	(void)device;
#else
	unsigned long old[16] = { 0 }, near[16] = { 0 };
	const unsigned long bits = sizeof(old) * 8;
	int node = device->info.numa_node, mode = MPOL_DEFAULT;
	bool bound = false;

	if (node >= 0 && node < (int)bits && numa_available() >= 0 &&
	    get_mempolicy(&mode, old, bits, NULL, 0) == 0) {
		near[(unsigned)node / (8 * sizeof(long))] |=
			1UL << ((unsigned)node % (8 * sizeof(long)));
		bound = set_mempolicy(MPOL_PREFERRED, near, bits) == 0;
	}
#endif
	result = sgpu_cu.cuMemHostAlloc(memory, size,
					CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
#if SGPU_NUMA
	if (bound) {
		(void)set_mempolicy(mode, old, bits);
	}
#endif
	return result;
}

/* ---- status words ---- */
/* The lock is held, or the device is not in use yet. */
static bool add_slab(struct sgpu_device *device)
{
	struct sgpu_cuda_host *host = &device->host;
	struct sgpu_cuda_slab *slab = calloc(1, sizeof(*slab));
	CUdeviceptr address = 0;
	int i;

	if (!slab || pin(device, SLAB_LINES * LINE_BYTES, &slab->memory) != CUDA_SUCCESS) {
		free(slab);
		return false;
	}
	if (sgpu_cu.cuMemHostGetDevicePointer(&address, slab->memory, 0) != CUDA_SUCCESS) {
		(void)sgpu_cu.cuMemFreeHost(slab->memory);
		free(slab);
		return false;
	}
	for (i = 0; i < SLAB_LINES; i++) {
		slab->lines[i].host =
			(volatile int64_t *)((uint8_t *)slab->memory + (size_t)i * LINE_BYTES);
		slab->lines[i].device = address + (CUdeviceptr)i * LINE_BYTES;
		slab->lines[i].next = host->idle;
		host->idle = &slab->lines[i];
	}
	slab->next = host->slabs;
	host->slabs = slab;
	return true;
}

static void clear_line(struct sgpu_cuda_status *status)
{
	for (int i = 0; i < LINE_BYTES / 8; i++) {
		status->host[i] = 0;
	}
}

struct sgpu_cuda_status *sgpu_cuda_status_take(struct sgpu_device *device)
{
	struct sgpu_cuda_status *status = NULL;

	pthread_mutex_lock(&device->host.lock);
	if (device->host.idle || add_slab(device)) {
		status = device->host.idle;
		device->host.idle = status->next;
	}
	pthread_mutex_unlock(&device->host.lock);
	if (status) {
		clear_line(status);
	}
	return status;
}

void sgpu_cuda_status_give(struct sgpu_device *device, struct sgpu_cuda_status *status)
{
	if (!status) {
		return;
	}
	clear_line(status);
	pthread_mutex_lock(&device->host.lock);
	status->next = device->host.idle;
	device->host.idle = status;
	pthread_mutex_unlock(&device->host.lock);
}

/* ---- the pool ---- */
/* Lists pinned memory, which kernels may reach; the lock is held. */
static void list(struct sgpu_cuda_host *host, struct sgpu_cuda_pinned *pinned)
{
	if (sgpu_cu.cuMemHostGetDevicePointer(&pinned->address, pinned->memory, 0) !=
	    CUDA_SUCCESS) {
		pinned->address = 0;
	}
	pinned->next = host->pinned;
	host->pinned = pinned;
}

/* Adds a step to the pool; the lock is held. Returns false if there is no such memory. */
static bool add_step(struct sgpu_device *device, uint64_t size)
{
	struct sgpu_cuda_host *host = &device->host;
	struct sgpu_cuda_pinned *step = calloc(1, sizeof(*step));

	if (!step || pin(device, size, &step->memory) != CUDA_SUCCESS) {
		free(step);
		return false;
	}
	step->size = size;
	step->writable = true;
	if ((uintptr_t)step->memory % SGPU_CUDA_PAGE == 0 &&
	    sgpu_arena_add(&host->arena, (uintptr_t)step->memory, size) == SGPU_OK) {
		list(host, step);
		return true;
	}
	(void)sgpu_cu.cuMemFreeHost(step->memory);
	free(step);
	return false;
}

/* The lock is held. */
static bool grow(struct sgpu_device *device, uint64_t size)
{
	struct sgpu_cuda_host *host = &device->host;

	if (add_step(device, size > host->step ? size : host->step)) {
		host->step = host->step < STEP_MAX ? host->step * 2 : STEP_MAX;
		return true;
	}
	return size < host->step && add_step(device, size);
}

int sgpu_cuda_host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
			 struct sgpu_error *error)
{
	struct sgpu_block *block;
	int rc;

	if (size > INT64_MAX) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_cuda_enter(device, error);
	if (rc < 0) {
		return rc;
	}
	pthread_mutex_lock(&device->host.lock);
	block = sgpu_arena_take(&device->host.arena, size);
	if (!block && grow(device, sgpu_arena_extent(size))) {
		block = sgpu_arena_take(&device->host.arena, size);
	}
	pthread_mutex_unlock(&device->host.lock);
	if (!block) {
		return sgpu_fail(error, SGPU_ENOMEM,
				 "out of host memory for copies: %llu bytes asked for",
				 (unsigned long long)size);
	}
	*memory = (void *)(uintptr_t)block->range.address;
	return SGPU_OK;
}

void sgpu_cuda_host_free(struct sgpu_device *device, void *memory, uint64_t size)
{
	struct sgpu_cuda_host *host = &device->host;
	struct sgpu_block *block;

	(void)size; /* the block's record has the size */
	pthread_mutex_lock(&host->lock);
	block = sgpu_arena_find(&host->arena, (uintptr_t)memory);
	if (block && block->range.address == (uintptr_t)memory) {
		sgpu_arena_leave(&host->arena, block);
	} else {
		block = NULL;
	}
	pthread_mutex_unlock(&host->lock);
	if (!block) {
		return;
	}
	sgpu_wipe(memory, block->range.extent);
	pthread_mutex_lock(&host->lock);
	sgpu_arena_release(&host->arena, block);
	pthread_mutex_unlock(&host->lock);
}

/* ---- the caller's registered host memory, and what kernels reach ---- */
int sgpu_cuda_host_register(struct sgpu_device *device, const void *memory, uint64_t size,
			    struct sgpu_error *error)
{
	unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;
	struct sgpu_cuda_pinned *new;
	int rc = sgpu_cuda_enter(device, error);

	if (rc < 0) {
		return rc;
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	*new = (struct sgpu_cuda_pinned){ .memory = (void *)(uintptr_t)memory,
					  .size = size,
					  .registered = true,
					  .writable = true };
	if (device->info.registers) {
		result = sgpu_cu.cuMemHostRegister(new->memory, size, flags);
		if (result != CUDA_SUCCESS && !sgpu_cuda_sticky(result) &&
		    device->registers_read_only) {
			/* The caller's mapping may be read-only, so try again for reading alone. */
			new->writable = false;
			result = sgpu_cu.cuMemHostRegister(new->memory, size,
							   flags | CU_MEMHOSTREGISTER_READ_ONLY);
		}
	}
	if (result == CUDA_SUCCESS) {
		pthread_mutex_lock(&device->host.lock);
		list(&device->host, new);
		pthread_mutex_unlock(&device->host.lock);
		return SGPU_OK;
	}
	free(new);
	if (sgpu_cuda_sticky(result)) {
		return sgpu_cuda_check(device, result, "cannot register host memory", error);
	}
	if (sgpu_cuda_in_confidential_mode(device)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "host memory cannot be registered: the GPU is in confidential "
				 "computing mode, which refuses it (%s)",
				 sgpu_cuda_name(result));
	}
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "host memory cannot be registered: %s (%s)",
			 sgpu_cuda_name(result), sgpu_cuda_text(result));
}

void sgpu_cuda_host_unregister(struct sgpu_device *device, const void *memory)
{
	struct sgpu_cuda_pinned **link = &device->host.pinned, *found;

	pthread_mutex_lock(&device->host.lock);
	while (*link && (!(*link)->registered || (*link)->memory != memory)) {
		link = &(*link)->next;
	}
	found = *link;
	if (found) {
		*link = found->next;
	}
	pthread_mutex_unlock(&device->host.lock);
	free(found);
	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		sgpu_cuda_note(device, sgpu_cu.cuMemHostUnregister((void *)(uintptr_t)memory));
	}
}

CUdeviceptr sgpu_cuda_reach(struct sgpu_device *device, const void *memory, uint64_t size,
			    bool write)
{
	const uintptr_t begin = (uintptr_t)memory;
	CUdeviceptr address = 0;

	/* In confidential computing mode the driver may move pinned memory. */
	if (!device->info.registers) {
		return 0;
	}
	pthread_mutex_lock(&device->host.lock);
	for (const struct sgpu_cuda_pinned *p = device->host.pinned; p && address == 0;
	     p = p->next) {
		const uintptr_t base = (uintptr_t)p->memory;

		if (p->address != 0 && begin >= base && begin - base <= p->size &&
		    size <= p->size - (begin - base) && (p->writable || !write)) {
			address = p->address + (begin - base);
		}
	}
	pthread_mutex_unlock(&device->host.lock);
	return address;
}

/* ---- open and close ---- */
int sgpu_cuda_host_open(struct sgpu_device *device, struct sgpu_error *error)
{
	device->host.step = STEP_MIN;
	return add_slab(device) ? SGPU_OK
				: sgpu_fail(error, SGPU_ENOMEM,
					    "no host memory can be pinned for the device");
}

/* A faulted device's pinned memory is not freed: a hung kernel may still write to it. */
void sgpu_cuda_host_close(struct sgpu_device *device)
{
	struct sgpu_cuda_host *host = &device->host;
	struct sgpu_cuda_pinned *pinned;
	struct sgpu_cuda_slab *slab;
	struct sgpu_range *lent;
	bool gone = atomic_load(&device->faulted) != 0;

	while ((lent = sgpu_ranges_any(&host->arena.used))) {
		sgpu_wipe((void *)(uintptr_t)lent->address, lent->extent);
		sgpu_arena_leave(&host->arena, (struct sgpu_block *)(void *)lent);
	}
	sgpu_arena_clear(&host->arena);
	while ((pinned = host->pinned)) {
		host->pinned = pinned->next;
		if (!gone && !pinned->registered) {
			(void)sgpu_cu.cuMemFreeHost(pinned->memory);
		}
		free(pinned);
	}
	while ((slab = host->slabs)) {
		host->slabs = slab->next;
		memset(slab->memory, 0, (size_t)SLAB_LINES * LINE_BYTES);
		if (!gone) {
			(void)sgpu_cu.cuMemFreeHost(slab->memory);
		}
		free(slab);
	}
}
