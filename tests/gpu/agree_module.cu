/* SPDX-License-Identifier: Apache-2.0
 *
 * The device's half of an agreement as a module, for test_cuda_agree: with scalars, points and host
 * bytes that the test chooses, and with raw samples shown, of which no key is made.
 */
#include <device/cuda/kernels/agree_kernels.cuh>

using namespace sgpu_agree;

enum { AT_ONCE = 32 };

extern "C" __global__ void x25519_many(const uint8_t *scalars, const uint8_t *points,
				       uint8_t *results, uint32_t *sound, uint32_t count)
{
	__shared__ sgpu_x25519 work[AT_ONCE];
	uint32_t i = blockIdx.x * AT_ONCE + threadIdx.x;

	if (i < count) {
		sound[i] = sgpu_x25519_multiply(&work[threadIdx.x], results + 32 * i,
						scalars + 32 * i, points + 32 * i);
	}
}

/* As many blocks as sources. */
extern "C" __global__ void __launch_bounds__(THREADS)
	gather_shown(uint8_t *memory, uint32_t sources, uint8_t *record,
		     sgpu_entropy_counts *counts)
{
	__shared__ __align__(16) source s;

	gather(&s, (room *)memory, sources, record);
	__syncthreads();
	if (threadIdx.x == 0) {
		counts[blockIdx.x] = counts_of((room *)memory, sources)[blockIdx.x];
	}
}

/* The host's bytes are all zero: what differs is the device's. */
extern "C" __global__ void make_shown(uint8_t *memory, uint32_t sources, uint8_t *key)
{
	__shared__ __align__(16) sgpu_agree_work work;
	const bytes32 zeros = {};

	make(&work, (room *)memory, sources, zeros, (sgpu_cuda_answer *)key);
}
