/* SPDX-License-Identifier: Apache-2.0
 *
 * Between pages.c, which maps pages, and frames.c, which has their memory. The lock of the frames
 * is held in all of these, and the device's context is current.
 */
#ifndef SGPU_DEVICE_CUDA_PAGES_H
#define SGPU_DEVICE_CUDA_PAGES_H

#include <device/cuda/gpu.h>

#define SGPU_CUDA_SMALL ((uint64_t)2 << 20)
#define SGPU_CUDA_BIG ((uint64_t)64 << 20)

/* Counts the device's memory in frames, when that has not been done. Errors: SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_cuda_frames_prepare(struct sgpu_device *device, struct sgpu_error *error);
/* The memory of a page of this size, made if there is none; what its frames had of the other size,
 * which is not mapped, is cleared and given back first. */
SGPU_MUST_CHECK int sgpu_cuda_frame_handle(struct sgpu_device *device, uint32_t frame,
					   uint64_t page_size, CUmemGenericAllocationHandle *handle,
					   struct sgpu_error *error);
/* Whether a page's memory is as the driver gave it: what it holds is not known. */
bool sgpu_cuda_frame_is_raw(const struct sgpu_cuda_pages *pages, uint32_t frame);
/* It was cleared, and kernels can write to it from here on. */
void sgpu_cuda_frame_used(struct sgpu_cuda_pages *pages, uint32_t frame);
/* Clears and gives back everything; nothing is mapped. */
void sgpu_cuda_frames_close(struct sgpu_device *device);

#endif
