/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's own clock.
 */
#include <device/cuda/kernels.h>

static __global__ void store_time(uint64_t *address)
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	*address = now;
}

int sgpu_cuda_store_time(void *stream, uint64_t address)
{
	store_time<<<1, 1, 0, (cudaStream_t)stream>>>((uint64_t *)(uintptr_t)address);
	return (int)cudaGetLastError();
}
