/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's own clock, and work of a known length.
 */
#include <device/cuda/timer.h>

static __global__ void store_time(uint64_t *address)
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	*address = now;
}

static __global__ void spin(uint64_t cycles)
{
	const uint64_t begin = (uint64_t)clock64();

	while ((uint64_t)clock64() - begin < cycles) {
	}
}

int sgpu_cuda_store_time(void *stream, uint64_t address)
{
	store_time<<<1, 1, 0, (cudaStream_t)stream>>>((uint64_t *)(uintptr_t)address);
	return (int)cudaGetLastError();
}

int sgpu_cuda_spin(void *stream, uint64_t cycles)
{
	spin<<<1, 1, 0, (cudaStream_t)stream>>>(cycles);
	return (int)cudaGetLastError();
}
