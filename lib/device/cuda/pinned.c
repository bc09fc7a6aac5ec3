/* SPDX-License-Identifier: Apache-2.0
 *
 * Pinned host memory: a pool that grows in steps and is lent in extents, best fit; and lines of it for status words
 * that the device writes. Pinning costs more than the copies that it speeds up, so nothing is given back to the
 * driver before the device is closed.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SGPU_NUMA
#include <numa.h>
#include <numaif.h>
#endif

#include <device/cuda/gpu.h>

#define STEP_MIN ((uint64_t)16 << 20)
#define STEP_MAX ((uint64_t)256 << 20)
enum { LINE_BYTES = 64, SLAB_LINES = 1024 };

/* A part of a chunk, lent or free; those of a chunk are neighbours in its list. */
struct extent {
	uintptr_t start;
	uint64_t size;
	bool lent;
	struct sgpu_cuda_chunk *chunk;
	struct extent *previous, *next;
};

struct sgpu_cuda_chunk {
	void *memory;
	bool pinned;
	struct extent *first;
	struct sgpu_cuda_chunk *next;
};

struct sgpu_cuda_slab {
	void *memory;
	struct sgpu_cuda_slab *next;
	struct sgpu_cuda_status lines[SLAB_LINES];
};

static int compare(const void *a, const void *b)
{
	const struct extent *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

/* Pinned memory on the device's node: pages are placed while they are pinned, by the policy of this thread. */
static CUresult pin(struct sgpu_device *device, uint64_t size, void **memory)
{
	CUresult result;
#ifndef SGPU_NUMA
	(void)device;
#else
	unsigned long old[16] = { 0 }, near[16] = { 0 };
	const unsigned long bits = sizeof(old) * 8;
	int node = device->numa_node, mode = MPOL_DEFAULT;
	bool bound = false;

	if (node >= 0 && node < (int)bits && numa_available() >= 0 && get_mempolicy(&mode, old, bits, NULL, 0) == 0) {
		near[(unsigned)node / (8 * sizeof(long))] |= 1UL << ((unsigned)node % (8 * sizeof(long)));
		bound = set_mempolicy(MPOL_PREFERRED, near, bits) == 0;
	}
#endif
	result = sgpu_cu.cuMemHostAlloc(memory, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
#ifdef SGPU_NUMA
	if (bound) {
		(void)set_mempolicy(mode, old, bits);
	}
#endif
	return result;
}

/* ---- status words ---- */
/* The lock is held. */
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
		slab->lines[i].host = (volatile int64_t *)((uint8_t *)slab->memory + (size_t)i * LINE_BYTES);
		slab->lines[i].device = address + (CUdeviceptr)i * LINE_BYTES;
		slab->lines[i].next = host->idle;
		host->idle = &slab->lines[i];
	}
	slab->next = host->slabs;
	host->slabs = slab;
	return true;
}

static void fill(struct sgpu_cuda_status *status, int64_t word)
{
	int i;

	for (i = 0; i < LINE_BYTES / 8; i++) {
		status->host[i] = word;
	}
}

struct sgpu_cuda_status *sgpu_cuda_status_take(struct sgpu_device *device, int64_t word)
{
	struct sgpu_cuda_status *status = NULL;

	pthread_mutex_lock(&device->host.lock);
	if (device->host.idle || add_slab(device)) {
		status = device->host.idle;
		device->host.idle = status->next;
	}
	pthread_mutex_unlock(&device->host.lock);
	if (status) {
		fill(status, word);
	}
	return status;
}

void sgpu_cuda_status_give(struct sgpu_device *device, struct sgpu_cuda_status *status)
{
	if (!status) {
		return;
	}
	fill(status, 0);
	pthread_mutex_lock(&device->host.lock);
	status->next = device->host.idle;
	device->host.idle = status;
	pthread_mutex_unlock(&device->host.lock);
}

/* ---- the pool; its lock is held ---- */
static struct extent *add_chunk(struct sgpu_device *device, uint64_t size, bool pinned)
{
	struct sgpu_cuda_host *host = &device->host;
	struct sgpu_cuda_chunk *chunk = calloc(1, sizeof(*chunk));
	struct extent *extent = calloc(1, sizeof(*extent));

	if (!chunk || !extent) {
		free(chunk);
		free(extent);
		return NULL;
	}
	chunk->pinned = pinned;
	if (!pinned) {
		chunk->memory = aligned_alloc(SGPU_CUDA_PAGE, size);
	} else if (pin(device, size, &chunk->memory) != CUDA_SUCCESS) {
		chunk->memory = NULL;
	} else if ((uintptr_t)chunk->memory % SGPU_CUDA_PAGE != 0) {
		(void)sgpu_cu.cuMemFreeHost(chunk->memory);
		chunk->memory = NULL;
	}
	if (!chunk->memory) {
		free(chunk);
		free(extent);
		return NULL;
	}
	*extent = (struct extent){ .start = (uintptr_t)chunk->memory, .size = size, .chunk = chunk };
	chunk->first = extent;
	chunk->next = host->chunks;
	host->chunks = chunk;
	return extent;
}

static struct extent *best_fit(const struct sgpu_cuda_host *host, uint64_t size)
{
	struct sgpu_cuda_chunk *chunk;
	struct extent *extent, *best = NULL;

	for (chunk = host->chunks; chunk; chunk = chunk->next) {
		for (extent = chunk->first; extent; extent = extent->next) {
			if (!extent->lent && extent->size >= size && (!best || extent->size < best->size)) {
				best = extent;
			}
		}
	}
	return best;
}

/* Leaves `size` bytes in the extent; what is over becomes one of its own, if there is memory to say so. */
static void split(struct extent *extent, uint64_t size)
{
	struct extent *rest;

	if (extent->size == size || !(rest = calloc(1, sizeof(*rest)))) {
		return;
	}
	*rest = (struct extent){ .start = extent->start + size, .size = extent->size - size, .chunk = extent->chunk,
				 .previous = extent, .next = extent->next };
	if (rest->next) {
		rest->next->previous = rest;
	}
	extent->next = rest;
	extent->size = size;
}

/* Takes in the free extent behind it. */
static void join(struct extent *extent)
{
	struct extent *next = extent->next;

	if (next && !next->lent && !extent->lent) {
		extent->size += next->size;
		extent->next = next->next;
		if (extent->next) {
			extent->next->previous = extent;
		}
		free(next);
	}
}

/* A step of pinned memory, or as much as is wanted, or other memory. */
static struct extent *grow(struct sgpu_device *device, uint64_t size)
{
	struct sgpu_cuda_host *host = &device->host;
	struct extent *extent = add_chunk(device, size > host->step ? size : host->step, true);

	if (extent) {
		host->step = host->step < STEP_MAX ? host->step * 2 : STEP_MAX;
		return extent;
	}
	extent = size < host->step ? add_chunk(device, size, true) : NULL;
	if (!extent) {
		extent = add_chunk(device, size, false);
		host->pins = host->pins && !extent;
	}
	return extent;
}

static struct extent *lend(struct sgpu_device *device, uint64_t size)
{
	struct sgpu_cuda_host *host = &device->host;
	struct extent *extent = best_fit(host, size);

	extent = extent ? extent : grow(device, size);
	if (!extent) {
		return NULL;
	}
	split(extent, size);
	extent->lent = true;
	if (!tsearch(extent, &host->live, compare)) {
		extent->lent = false;
		join(extent);
		return NULL;
	}
	return extent;
}

int sgpu_cuda_host_alloc(struct sgpu_device *device, uint64_t size, void **memory, struct sgpu_error *error)
{
	struct extent *extent;
	int code;

	if (size > INT64_MAX) {
		return sgpu_fail_nomem(error);
	}
	size = (size ? size + SGPU_CUDA_PAGE - 1 : SGPU_CUDA_PAGE) / SGPU_CUDA_PAGE * SGPU_CUDA_PAGE;
	code = sgpu_cuda_enter(device, error);
	if (code < 0) {
		return code;
	}
	pthread_mutex_lock(&device->host.lock);
	extent = lend(device, size);
	pthread_mutex_unlock(&device->host.lock);
	if (!extent) {
		return sgpu_fail(error, SGPU_ENOMEM, "out of host memory for copies: %llu bytes asked for",
				 (unsigned long long)size);
	}
	*memory = (void *)extent->start;
	return SGPU_OK;
}

void sgpu_cuda_host_free(struct sgpu_device *device, void *memory, uint64_t size)
{
	struct sgpu_cuda_host *host = &device->host;
	struct extent key = { .start = (uintptr_t)memory }, *extent, **node;

	(void)size; /* the extent knows */
	pthread_mutex_lock(&host->lock);
	node = tfind(&key, &host->live, compare);
	extent = node ? *node : NULL;
	if (extent) {
		tdelete(extent, &host->live, compare);
	}
	pthread_mutex_unlock(&host->lock);
	if (!extent) {
		return;
	}
	sgpu_wipe(memory, extent->size);
	pthread_mutex_lock(&host->lock);
	extent->lent = false;
	join(extent);
	if (extent->previous && !extent->previous->lent) {
		join(extent->previous);
	}
	pthread_mutex_unlock(&host->lock);
}

/* ---- memory of the caller ---- */
int sgpu_cuda_host_register(struct sgpu_device *device, const void *memory, uint64_t size, struct sgpu_error *error)
{
	unsigned flags = CU_MEMHOSTREGISTER_PORTABLE;
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;
	void *address = (void *)(uintptr_t)memory;
	int code = sgpu_cuda_enter(device, error);

	if (code < 0) {
		return code;
	}
	if (device->registers) {
		result = sgpu_cu.cuMemHostRegister(address, size, flags);
		if (result != CUDA_SUCCESS && !sgpu_cuda_sticky(result) && device->registers_read_only) {
			/* A mapping that may only be read. */
			result = sgpu_cu.cuMemHostRegister(address, size, flags | CU_MEMHOSTREGISTER_READ_ONLY);
		}
	}
	if (result == CUDA_SUCCESS) {
		return SGPU_OK;
	}
	if (sgpu_cuda_sticky(result)) {
		return sgpu_cuda_check(device, result, "cannot register host memory", error);
	}
	if (strcmp(device->confidential, "on") == 0 || strcmp(device->confidential, "devtools") == 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "host memory cannot be registered: the GPU is in confidential "
				 "computing mode, which refuses it (%s)", sgpu_cuda_name(result));
	}
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "host memory cannot be registered: %s (%s)", sgpu_cuda_name(result),
			 sgpu_cuda_text(result));
}

void sgpu_cuda_host_unregister(struct sgpu_device *device, const void *memory)
{
	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		sgpu_cuda_note(device, sgpu_cu.cuMemHostUnregister((void *)(uintptr_t)memory));
	}
}

bool sgpu_cuda_host_pins(struct sgpu_device *device)
{
	bool pins;

	pthread_mutex_lock(&device->host.lock);
	pins = device->host.pins;
	pthread_mutex_unlock(&device->host.lock);
	return pins;
}

/* ---- open and close ---- */
int sgpu_cuda_host_open(struct sgpu_device *device, struct sgpu_error *error)
{
	bool done;

	device->host.pins = true;
	device->host.step = STEP_MIN;
	pthread_mutex_lock(&device->host.lock);
	done = add_slab(device);
	pthread_mutex_unlock(&device->host.lock);
	return done ? SGPU_OK : sgpu_fail(error, SGPU_ENOMEM, "no host memory can be pinned for the device");
}

/* A device that hangs may still write to it. */
void sgpu_cuda_host_close(struct sgpu_device *device)
{
	struct sgpu_cuda_host *host = &device->host;
	struct sgpu_cuda_chunk *chunk;
	struct sgpu_cuda_slab *slab;
	struct extent *extent;
	bool gone = atomic_load(&device->faulted) != 0;

	while ((chunk = host->chunks)) {
		host->chunks = chunk->next;
		while ((extent = chunk->first)) {
			chunk->first = extent->next;
			if (extent->lent) {
				tdelete(extent, &host->live, compare);
				sgpu_wipe((void *)extent->start, extent->size);
			}
			free(extent);
		}
		if (!chunk->pinned) {
			free(chunk->memory);
		} else if (!gone) {
			(void)sgpu_cu.cuMemFreeHost(chunk->memory);
		}
		free(chunk);
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
