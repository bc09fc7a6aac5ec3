/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of 16 bytes in device memory, whole or partial, aligned or not.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_BLOCKS_CUH
#define SGPU_DEVICE_CUDA_KERNELS_BLOCKS_CUH

#include <stdint.h>

namespace sgpu_blocks
{

static __device__ __forceinline__ uint4 operator^(uint4 a, uint4 b)
{
	return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w);
}

template <bool ALIGNED>
static __device__ __forceinline__ uint4 load_block(const unsigned char *from)
{
	if (ALIGNED) {
		return __ldg((const uint4 *)from);
	}
	uint32_t w[4] = { 0, 0, 0, 0 };

#pragma unroll
	for (int i = 0; i < 16; i++) {
		w[i / 4] |= (uint32_t)from[i] << 8 * (i % 4);
	}
	return make_uint4(w[0], w[1], w[2], w[3]);
}

template <bool ALIGNED>
static __device__ __forceinline__ void store_block(unsigned char *to, uint4 b)
{
	if (ALIGNED) {
		*(uint4 *)to = b;
		return;
	}
	uint32_t w[4] = { b.x, b.y, b.z, b.w };

#pragma unroll
	for (int i = 0; i < 16; i++) {
		to[i] = (unsigned char)(w[i / 4] >> 8 * (i % 4));
	}
}

/* Loads the first `size` bytes of a block, and zeros for the others. */
static __device__ __noinline__ uint4 load_part(const unsigned char *from, int size)
{
	uint32_t w[4] = { 0, 0, 0, 0 };

#pragma unroll
	for (int i = 0; i < 16; i++) {
		w[i / 4] |= i < size ? (uint32_t)from[i] << 8 * (i % 4) : 0;
	}
	return make_uint4(w[0], w[1], w[2], w[3]);
}

static __device__ __noinline__ void store_part(unsigned char *to, uint4 b, int size)
{
	uint32_t w[4] = { b.x, b.y, b.z, b.w };

#pragma unroll
	for (int i = 0; i < 16; i++) {
		if (i < size) {
			to[i] = (unsigned char)(w[i / 4] >> 8 * (i % 4));
		}
	}
}

static __device__ __forceinline__ uint4 keep_part(uint4 b, int size)
{
	uint32_t w[4] = { b.x, b.y, b.z, b.w };

#pragma unroll
	for (int i = 0; i < 4; i++) {
		int left = size - 4 * i;

		w[i] = left >= 4 ? w[i] : left <= 0 ? 0 : w[i] & (1u << 8 * left) - 1;
	}
	return make_uint4(w[0], w[1], w[2], w[3]);
}

} // namespace sgpu_blocks

#endif
