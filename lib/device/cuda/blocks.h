/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of device memory, between memory.c, which gives them out, and slab.c, which keeps small ones.
 */
#ifndef SGPU_DEVICE_CUDA_BLOCKS_H
#define SGPU_DEVICE_CUDA_BLOCKS_H

#include <device/cuda/gpu.h>

#define SGPU_CUDA_SMALL_MAX ((uint64_t)SGPU_CUDA_PAGE << (SGPU_CUDA_CLASSES - 1))

struct sgpu_cuda_block {
	struct sgpu_range range;       /* bytes that are its own */
	uint64_t size;                 /* as asked for */
	uint64_t counted;              /* bytes that count against the limit: whole pages */
	CUdeviceptr start;             /* as the driver gave it; 0 in a slab */
	uint64_t start_extent;
	uint64_t serial;               /* idle: of its clearing */
	struct sgpu_cuda_block *next;  /* idle: of its class */
};

static inline uint64_t sgpu_cuda_pages(uint64_t size)
{
	return (size + SGPU_CUDA_PAGE - 1) / SGPU_CUDA_PAGE * SGPU_CUDA_PAGE;
}

/* From the pool of device memory, in the order of the internal stream. */
CUresult sgpu_cuda_obtain(struct sgpu_device *device, uint64_t size, CUdeviceptr *start);
/* Waits until the internal stream has done what it was asked for. */
SGPU_MUST_CHECK int sgpu_cuda_sync_internal(struct sgpu_device *device, struct sgpu_error *error);

/* A block of at most SGPU_CUDA_SMALL_MAX bytes, clear, usable at once; NULL with *result when there is none. */
struct sgpu_cuda_block *sgpu_cuda_small_take(struct sgpu_device *device, uint64_t size, CUresult *result);
/* Clears it and keeps it. */
void sgpu_cuda_small_give(struct sgpu_device *device, struct sgpu_cuda_block *block);
/* Frees records and slabs; clearing has been asked for. */
void sgpu_cuda_small_close(struct sgpu_device *device);

#endif
