/* SPDX-License-Identifier: Apache-2.0
 *
 * Times by %globaltimer: words of device memory in which kernels of one thread store them. They are
 * in device memory, because in confidential computing mode what a kernel writes to the host's has
 * to be moved there first, which would be counted in the next task.
 */
#include <stdlib.h>

#include <device/cuda/gpu.h>
#include <device/cuda/timer.h>

enum { STAMPS = 65536 };

int sgpu_cuda_stamps_open(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cuda_stamps *stamps = &device->stamps;

	stamps->idle = malloc(STAMPS * sizeof(*stamps->idle));
	if (!stamps->idle) {
		return sgpu_fail_nomem(error);
	}
	/* The first word is for the bases. */
	for (stamps->count = 0; stamps->count < STAMPS - 1; stamps->count++) {
		stamps->idle[stamps->count] = STAMPS - 1 - stamps->count;
	}
	return sgpu_cuda_check(device,
			       sgpu_cu.cuMemAlloc(&stamps->memory, STAMPS * sizeof(uint64_t)),
			       "cannot allocate memory for times", error);
}

void sgpu_cuda_stamps_close(struct sgpu_device *device)
{
	if (device->stamps.memory && atomic_load(&device->faulted) == 0) {
		(void)sgpu_cu.cuMemFree(device->stamps.memory);
	}
	free(device->stamps.idle);
}

CUresult sgpu_cuda_stamp(struct sgpu_device *device, CUstream native, CUdeviceptr *stamp)
{
	struct sgpu_cuda_stamps *stamps = &device->stamps;

	pthread_mutex_lock(&device->pool_lock);
	*stamp = stamps->count == 0
			 ? 0
			 : stamps->memory + sizeof(uint64_t) * stamps->idle[--stamps->count];
	pthread_mutex_unlock(&device->pool_lock);
	return *stamp == 0 ? CUDA_ERROR_OUT_OF_MEMORY
			   : (CUresult)sgpu_cuda_store_time(native, *stamp);
}

void sgpu_cuda_stamp_give(struct sgpu_device *device, CUdeviceptr stamp)
{
	struct sgpu_cuda_stamps *stamps = &device->stamps;

	if (stamp) {
		pthread_mutex_lock(&device->pool_lock);
		stamps->idle[stamps->count++] =
			(uint32_t)((stamp - stamps->memory) / sizeof(uint64_t));
		pthread_mutex_unlock(&device->pool_lock);
	}
}

CUresult sgpu_cuda_stamp_read(struct sgpu_device *device, CUdeviceptr stamp, uint64_t *time)
{
	CUresult result = sgpu_cu.cuMemcpyDtoHAsync(time, stamp, sizeof(*time), device->clock);

	return result == CUDA_SUCCESS ? sgpu_cu.cuStreamSynchronize(device->clock) : result;
}
