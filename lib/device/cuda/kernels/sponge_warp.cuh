/* SPDX-License-Identifier: Apache-2.0
 *
 * KT128 chunks that are not whole: a warp for each, a lane of the state in each of its first 25
 * threads, whose work the others repeat. A warp needs less time for a chunk than a thread does, but
 * more work in all. All threads of the warp call these functions.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_SPONGE_WARP_CUH
#define SGPU_DEVICE_CUDA_KERNELS_SPONGE_WARP_CUH

#include <device/cuda/kernels/sponge.cuh>

enum { WARP = 32 };

static __constant__ uint8_t rotations[LANES] = { 0,  1,	 62, 28, 27, 36, 44, 6,	 55, 20, 3,  10, 43,
						 25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14 };

static __device__ __forceinline__ uint64_t lane_of(uint64_t a, unsigned thread)
{
	return __shfl_sync(~0u, (unsigned long long)a, (int)thread);
}

/* A thread's lane of the state, and the lanes of other threads that it needs in a round. */
struct place {
	unsigned index, column[4], left, right, rows[3];
	int rotation;

	__device__ __forceinline__ place()
	{
		index = threadIdx.x % WARP % LANES;
		unsigned x = index % 5, y = index / 5;
#pragma unroll
		for (unsigned i = 0; i < 4; i++) {
			column[i] = (index + 5 * (i + 1)) % LANES;
		}
		left = 5 * y + (x + 4) % 5;
		right = 5 * y + (x + 1) % 5;
		/* The lanes that the step pi moves to this lane and the next two of its row. */
#pragma unroll
		for (unsigned i = 0; i < 3; i++) {
			unsigned to = (x + i) % 5;
			rows[i] = 5 * to + (to + 3 * y) % 5;
		}
		rotation = rotations[index];
	}
};

static __device__ __forceinline__ void permute_by_warp(const place &p, uint64_t &a)
{
#pragma unroll 1
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t parity = a ^ lane_of(a, p.column[0]) ^ lane_of(a, p.column[1]) ^
				  lane_of(a, p.column[2]) ^ lane_of(a, p.column[3]);

		a ^= lane_of(parity, p.left) ^ rotated(lane_of(parity, p.right), 1);
		a = rotated(a, p.rotation);
		a = CHI(lane_of(a, p.rows[0]), lane_of(a, p.rows[1]), lane_of(a, p.rows[2]));
		a ^= p.index == 0 ? constants[i] : 0;
	}
}

/* A message, followed by the customisation string and its length. */
struct message {
	const uint8_t *bytes;
	uint64_t size;
	const uint8_t *suffix;
	unsigned suffix_size;

	/* Eight bytes from byte `at` of a chunk, after whose last byte come `domain` and zeros. */
	__device__ __forceinline__ uint64_t word(uint64_t chunk, unsigned chunk_size, unsigned at,
						 unsigned domain) const
	{
		uint64_t all = 0;
#pragma unroll
		for (unsigned i = 0; i < 8; i++) {
			uint64_t place = chunk + at + i, byte = at + i == chunk_size ? domain : 0;

			if (at + i < chunk_size) {
				byte = place < size ? bytes[place] : suffix[place - size];
			}
			all |= byte << 8 * i;
		}
		return all;
	}
};

/* Absorbs chunk `index`, whole or not, into a state of zeros. Returns true if it is chunk 0 of
 * several: then the state is the final node's before the permutation of the marker's block.
 * Otherwise the state begins with the chunk's chaining value, or a one-chunk message's digest. */
static __device__ __forceinline__ bool absorb_by_warp(const message &m, uint64_t index, uint64_t &a)
{
	const place p;
	uint64_t total = m.size + m.suffix_size, begin = index * SGPU_KT128_CHUNK, word;
	unsigned size = (unsigned)min(total - begin, (uint64_t)SGPU_KT128_CHUNK), at = 8 * p.index,
		 end = 0;
	bool head = index == 0 && total > SGPU_KT128_CHUNK, rate = p.index < RATE_WORDS, last;
	unsigned domain = head ? 0x03 : index == 0 ? SGPU_KT128_SINGLE : SGPU_KT128_LEAF;

	word = rate ? m.word(begin, size, at, domain) : 0;
#pragma unroll 1
	do {
		a ^= word;
		end += SGPU_TURBOSHAKE_RATE;
		at += SGPU_TURBOSHAKE_RATE;
		last = end > size;
		if (last && head) {
			return true;
		}
		/* Load the next block while this one is permuted. */
		word = rate && !last ? m.word(begin, size, at, domain) : 0;
		a ^= last && p.index == RATE_WORDS - 1 ? (uint64_t)0x80 << 56 : 0;
		permute_by_warp(p, a);
	} while (!last);
	return false;
}

#endif
