/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks of KT128 messages on the GPU: a thread for each chunk, with the state in registers.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_SPONGE_CUH
#define SGPU_DEVICE_CUDA_KERNELS_SPONGE_CUH

#include <stdint.h>

#include <cuda_runtime.h>

#include <crypto/keccak_round.h>
#include <crypto/kt128.h>

enum {
	LANES = SGPU_KECCAK_LANES,
	RATE_WORDS = SGPU_TURBOSHAKE_RATE / 8,
	BLOCKS = SGPU_KT128_CHUNK / SGPU_TURBOSHAKE_RATE,
	REST_WORDS =
		SGPU_KT128_CHUNK / 8 - BLOCKS * RATE_WORDS, /* of a chunk, after its whole blocks */
	ROUNDS = 12,
	UNROLL = 4, /* more unrolled rounds would not fit the instruction caches */
};

static __constant__ uint64_t constants[ROUNDS] = { SGPU_KECCAK_P12_CONSTANTS };

/* Two funnel shifts: a 64-bit shift would take more instructions. */
static __device__ __forceinline__ uint64_t rotated(uint64_t v, int n)
{
	uint32_t low = (uint32_t)v, high = (uint32_t)(v >> 32);

	if (n >= 32) {
		low = (uint32_t)(v >> 32);
		high = (uint32_t)v;
	}
	return (uint64_t)__funnelshift_l(low, high, n & 31) << 32 |
	       __funnelshift_l(high, low, n & 31);
}
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define CHI(a, b, c) ((a) ^ (~(b) & (c)))

static __device__ __forceinline__ void permute(uint64_t (&a)[LANES])
{
#pragma unroll UNROLL
	for (int i = 0; i < ROUNDS; i++) {
		SGPU_KECCAK_ROUND(uint64_t, rotated, XOR3, CHI, a, constants[i]);
	}
}

/* Reads the words of a whole chunk, in order, at any alignment. */
template <bool ALIGNED> struct reader {
	const uint64_t *next;
	unsigned shift; /* bits from an 8-byte boundary to the chunk's start */
	uint64_t held;

	__device__ __forceinline__ explicit reader(const uint8_t *chunk)
	{
		uintptr_t address = (uintptr_t)chunk;

		next = (const uint64_t *)(address & ~(uintptr_t)7);
		shift = ALIGNED ? 0 : (unsigned)(address & 7) * 8;
		held = ALIGNED ? 0 : *next++;
	}

	__device__ __forceinline__ uint64_t joined(uint64_t more)
	{
		uint64_t word = held >> shift | more << (64 - shift);

		held = more;
		return word;
	}

	__device__ __forceinline__ uint64_t word()
	{
		uint64_t more = *next++;

		return ALIGNED ? more : joined(more);
	}

	/* Reads the last word by bytes: after the chunk there may be no memory. */
	__device__ __forceinline__ uint64_t last_word()
	{
		if constexpr (ALIGNED) {
			return *next;
		} else {
			const uint8_t *bytes = (const uint8_t *)next;
			uint64_t more = 0;
#pragma unroll 1
			for (unsigned i = 0; i < shift / 8; i++) {
				more |= (uint64_t)bytes[i] << 8 * i;
			}
			return joined(more);
		}
	}
};

static __device__ __forceinline__ void put_value(const uint64_t *a, uint8_t *value)
{
	((ulonglong2 *)value)[0] = make_ulonglong2(a[0], a[1]);
	((ulonglong2 *)value)[1] = make_ulonglong2(a[2], a[3]);
}

/* Makes the words of a chunk's last block: the rest, the domain separation byte, the padding's end.
 * For chunk 0 (`head`), the marker follows the rest, and later data fill the block. */
template <bool ALIGNED>
static __device__ __forceinline__ void last_block(reader<ALIGNED> &from, bool head,
						  uint64_t (&words)[RATE_WORDS])
{
#pragma unroll
	for (int i = 0; i < RATE_WORDS; i++) {
		words[i] = i < REST_WORDS - 1	 ? from.word()
			   : i == REST_WORDS - 1 ? from.last_word()
						 : 0;
	}
	words[REST_WORDS] = head ? 0x03 : SGPU_KT128_LEAF;
	words[RATE_WORDS - 1] = head ? 0 : (uint64_t)0x80 << 56;
}

/* Absorbs a whole chunk into a state of zeros, which then begins with the chaining value. `head`:
 * the state of chunk 0 of several is the final node's before the permutation of the marker's
 * block. */
template <bool ALIGNED>
static __device__ __forceinline__ void absorb_whole(const uint8_t *chunk, bool head,
						    uint64_t (&a)[LANES])
{
	uint64_t words[RATE_WORDS];
	reader<ALIGNED> from(chunk);

#pragma unroll
	for (int i = 0; i < RATE_WORDS; i++) {
		words[i] = from.word();
	}
#pragma unroll 1
	for (int block = 0;; block++) {
#pragma unroll
		for (int i = 0; i < RATE_WORDS; i++) {
			a[i] ^= words[i];
		}
		if (block == BLOCKS && head) {
			return;
		}
		/* Load the next block while this one is permuted. */
		if (block + 1 < BLOCKS) {
#pragma unroll
			for (int i = 0; i < RATE_WORDS; i++) {
				words[i] = from.word();
			}
		} else if (block + 1 == BLOCKS) {
			last_block(from, head, words);
		}
		permute(a);
		if (block == BLOCKS) {
			return;
		}
	}
}

#endif
