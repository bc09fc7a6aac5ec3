/* SPDX-License-Identifier: Apache-2.0
 *
 * GHASH (NIST SP 800-38D, section 6.4) by a warp: products by the constant H^32 from a table in
 * shared memory, which each thread block makes.
 *
 * The table has an entry for each value of a byte at each of its sixteen positions in a block, so a
 * product is sixteen look-ups. Lane l begins at position l mod 8 of each half, so that the eight
 * lanes that a shared-memory access of 16 bytes serves together read different banks.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_GHASH_CUH
#define SGPU_DEVICE_CUDA_KERNELS_GHASH_CUH

#include <device/cuda/kernels/aes.cuh>
#include <device/cuda/kernels/blocks.cuh>
#include <device/cuda/kernels/gf128.cuh>

namespace sgpu_ghash
{

using namespace sgpu_blocks;

struct hash {
	const unsigned char *table; /* in shared memory */
	uint32_t places[2]; /* of steps 0 to 7, a byte each: 16 times the position in the half */
	uint32_t turn;	    /* bits to rotate by within a word */
	bool swap;
};

/* Entry 16 * b + p is the constant times the block whose byte p is b and whose others are 0. So
 * each b has 256 bytes, the first 128 for the block's first half. Bytes of a single bit come first,
 * then half bytes, then the rest. All THREADS threads, at least 512, call it. */
template <int THREADS>
static __device__ __forceinline__ void make_table(uint4 *table, uint4 constant)
{
	const unsigned t = threadIdx.x, position = t % 16;

	if (t < 128) {
		table[16 * (1 << (7 - t % 8)) + t / 8] =
			sgpu_gf::to_block(sgpu_gf::shifted(sgpu_gf::from_block(constant), t));
	} else if (t < 144) {
		table[position] = make_uint4(0, 0, 0, 0);
	}
	__syncthreads();
	if (t < 512) {
		const unsigned half = t / 16 % 16, shift = t / 256 * 4;
		uint4 sum = table[16 * ((half & 1) << shift) + position];

		for (unsigned bit = 2; bit <= 8; bit *= 2) {
			sum = sum ^ table[16 * ((half & bit) << shift) + position];
		}
		if (half & (half - 1)) {
			table[16 * (half << shift) + position] = sum;
		}
	}
	__syncthreads();
	for (unsigned i = t; i < 256 * 16; i += THREADS) {
		const unsigned byte = i / 16, low = byte & 0x0f, high = byte & 0xf0;

		if (low && high) {
			table[i] = table[16 * low + position] ^ table[16 * high + position];
		}
	}
	__syncthreads();
}

static __device__ __forceinline__ hash make_hash(const unsigned char *table, uint32_t lane)
{
	hash h;

	h.table = table;
	h.turn = 8 * (lane & 3);
	h.swap = lane & 4;
	for (int half = 0; half < 2; half++) {
		h.places[half] = 0;
		for (int i = 0; i < 4; i++) {
			h.places[half] |= (4 * half + i + lane & 7) * 16 << 8 * i;
		}
	}
	return h;
}

template <int HALF, int STEP>
static __device__ __forceinline__ uint4 look_up(const hash &h, uint32_t word)
{
	/* The offset: the lowest byte is the place, the second the byte to look up; the upper two
	 * repeat the place's sign bit, which is 0. */
	uint32_t at = sgpu_aes::permute(word, h.places[STEP / 4],
					4 + STEP % 4 | STEP % 4 << 4 | (12 + STEP % 4) * 0x1100);

	return *(const uint4 *)(h.table + at + HALF * 128);
}

static __device__ __forceinline__ void add(uint4 &sum, uint4 a, uint4 b)
{
	sum.x = sum.x ^ a.x ^ b.x;
	sum.y = sum.y ^ a.y ^ b.y;
	sum.z = sum.z ^ a.z ^ b.z;
	sum.w = sum.w ^ a.w ^ b.w;
}

template <int HALF>
static __device__ __forceinline__ void half_product(const hash &h, uint32_t a, uint32_t b,
						    uint4 &sum)
{
	uint32_t x = h.swap ? b : a, y = h.swap ? a : b;
	uint32_t low = __funnelshift_r(x, y, h.turn), high = __funnelshift_r(y, x, h.turn);

	add(sum, look_up<HALF, 0>(h, low), look_up<HALF, 1>(h, low));
	add(sum, look_up<HALF, 2>(h, low), look_up<HALF, 3>(h, low));
	add(sum, look_up<HALF, 4>(h, high), look_up<HALF, 5>(h, high));
	add(sum, look_up<HALF, 6>(h, high), look_up<HALF, 7>(h, high));
}

/* y times H^32, plus c. */
static __device__ __forceinline__ uint4 horner(const hash &h, uint4 y, uint4 c)
{
	half_product<0>(h, y.x, y.y, c);
	half_product<1>(h, y.z, y.w, c);
	return c;
}

static __device__ __forceinline__ uint4 sum_of_warp(uint4 a)
{
	return make_uint4(__reduce_xor_sync(0xffffffffu, a.x), __reduce_xor_sync(0xffffffffu, a.y),
			  __reduce_xor_sync(0xffffffffu, a.z), __reduce_xor_sync(0xffffffffu, a.w));
}

} // namespace sgpu_ghash

#endif
