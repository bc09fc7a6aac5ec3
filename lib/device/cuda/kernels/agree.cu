/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of an agreement on a key, and the layout of its memory.
 */
#include <string.h>

#include <cuda_runtime.h>

#include <device/cuda/kernels/agree_kernels.cuh>

using namespace sgpu_agree;

static __global__ void __launch_bounds__(THREADS) agree_gather(room *r, unsigned sources)
{
	__shared__ __align__(16) source s;

	gather(&s, r, sources, NULL);
}

static __global__ void agree_make(room *r, unsigned sources, const __grid_constant__ bytes32 random,
				  sgpu_cuda_answer *to)
{
	__shared__ __align__(16) sgpu_agree_work work;

	make(&work, r, sources, random, to);
}

static __global__ void agree_finish(room *r, const __grid_constant__ bytes32 host_public,
				    sgpu_cuda_answer *to)
{
	__shared__ __align__(16) sgpu_agree_work work;

	finish(&work, r, host_public, to);
}

extern "C" size_t sgpu_cuda_agree_room(unsigned sources)
{
	return sizeof(room) + sources * (32 + sizeof(sgpu_entropy_counts));
}

extern "C" uint64_t sgpu_cuda_agree_counts(uint64_t address, unsigned sources)
{
	return (uint64_t)(uintptr_t)counts_of((room *)address, sources);
}

extern "C" uint64_t sgpu_cuda_agree_material(uint64_t address)
{
	return address + offsetof(room, material);
}

extern "C" int sgpu_cuda_agree_gather(void *stream, uint64_t address, unsigned sources)
{
	agree_gather<<<sources, THREADS, 0, (cudaStream_t)stream>>>((room *)address, sources);
	return (int)cudaGetLastError();
}

extern "C" int sgpu_cuda_agree_make(void *stream, uint64_t address, unsigned sources,
				    const uint8_t random[32], uint64_t to)
{
	bytes32 copy;

	memcpy(copy.at, random, 32);
	agree_make<<<1, 32, 0, (cudaStream_t)stream>>>((room *)address, sources, copy,
						       (sgpu_cuda_answer *)to);
	return (int)cudaGetLastError();
}

extern "C" int sgpu_cuda_agree_finish(void *stream, uint64_t address, const uint8_t host_public[32],
				      uint64_t to)
{
	bytes32 copy;

	memcpy(copy.at, host_public, 32);
	agree_finish<<<1, 32, 0, (cudaStream_t)stream>>>((room *)address, copy,
							 (sgpu_cuda_answer *)to);
	return (int)cudaGetLastError();
}
