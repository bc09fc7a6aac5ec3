/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks of a KT128 message on the GPU: a thread a chunk, its state in registers.
 */
#include <device/cuda/kernels/digest_state.cuh>

#include <crypto/keccak_round.h>

enum {
	LANES = SGPU_KECCAK_LANES,
	RATE_WORDS = SGPU_TURBOSHAKE_RATE / 8,
	BLOCKS = SGPU_KT128_CHUNK / SGPU_TURBOSHAKE_RATE,
	REST_WORDS = SGPU_KT128_CHUNK / 8 - BLOCKS * RATE_WORDS, /* of a chunk, after its whole blocks */
	ROUNDS = 12,
	UNROLL = 4, /* more of the rounds would not stay in the caches for instructions */
};

static __constant__ uint64_t constants[ROUNDS] = { SGPU_KECCAK_P12_CONSTANTS };

/* Two funnel shifts: a 64-bit shift would take more. */
static __device__ __forceinline__ uint64_t rotated(uint64_t v, int n)
{
	uint32_t low = (uint32_t)v, high = (uint32_t)(v >> 32);

	if (n >= 32) {
		low = (uint32_t)(v >> 32);
		high = (uint32_t)v;
	}
	return (uint64_t)__funnelshift_l(low, high, n & 31) << 32 | __funnelshift_l(high, low, n & 31);
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

/* Words of a chunk that lies in the message whole, in order, wherever it starts. */
template <bool ALIGNED> struct reader {
	const uint64_t *next;
	unsigned shift;     /* bits that the chunk is behind whole words */
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

	/* The last word shares memory with what follows the chunk, which may be nobody's. */
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

static __device__ __forceinline__ void put_value(const uint64_t (&a)[LANES], uint8_t *value)
{
	((ulonglong2 *)value)[0] = make_ulonglong2(a[0], a[1]);
	((ulonglong2 *)value)[1] = make_ulonglong2(a[2], a[3]);
}

/* The state of the final node, before the block that the marker is in is permuted. */
static __device__ __forceinline__ void put_head(const uint64_t (&a)[LANES], struct sgpu_digest_mail *mail)
{
#pragma unroll
	for (int i = 0; i < LANES; i++) {
		mail->head[i] = a[i];
	}
}

/* The words of a chunk's last block: what is left, the domain separation byte, the end of the padding. The block that
 * chunk 0 ends in goes on behind the marker. */
template <bool ALIGNED>
static __device__ __forceinline__ void last_block(reader<ALIGNED> &from, bool head, uint64_t (&words)[RATE_WORDS])
{
#pragma unroll
	for (int i = 0; i < RATE_WORDS; i++) {
		words[i] = i < REST_WORDS - 1 ? from.word() : i == REST_WORDS - 1 ? from.last_word() : 0;
	}
	words[REST_WORDS] = head ? 0x03 : SGPU_KT128_LEAF;
	words[RATE_WORDS - 1] = head ? 0 : (uint64_t)0x80 << 56;
}

/* A chunk that lies in the message whole. */
template <bool ALIGNED> static __device__ __forceinline__ void whole_chunk(const sgpu_digest_work &work, uint64_t index)
{
	uint64_t a[LANES] = {}, words[RATE_WORDS];
	reader<ALIGNED> from(work.message + index * SGPU_KT128_CHUNK);

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
		if (block == BLOCKS && index == 0) {
			put_head(a, work.mail);
			return;
		}
		/* The next block is on its way while this one is permuted. */
		if (block + 1 < BLOCKS) {
#pragma unroll
			for (int i = 0; i < RATE_WORDS; i++) {
				words[i] = from.word();
			}
		} else if (block + 1 == BLOCKS) {
			last_block(from, index == 0, words);
		}
		permute(a);
		if (block == BLOCKS) {
			break;
		}
	}
	put_value(a, work.values + (index - work.first) * SGPU_KT128_VALUE);
}

/* Byte of the message with the customisation string and its length. */
static __device__ __forceinline__ uint64_t byte_at(const sgpu_digest_work &work, uint64_t at)
{
	return at < work.size ? work.message[at] : work.suffix[at - work.size];
}

/* A chunk that reaches past the message, byte by byte; there are one or two. */
static __device__ __noinline__ void odd_chunk(const sgpu_digest_work &work, uint64_t index)
{
	uint64_t total = work.size + work.suffix_size, begin = index * SGPU_KT128_CHUNK;
	unsigned size = (unsigned)min(total - begin, (uint64_t)SGPU_KT128_CHUNK), at = 0;
	bool head = index == 0 && total > SGPU_KT128_CHUNK, last;
	unsigned domain = head ? 0x03 : index == 0 ? SGPU_KT128_SINGLE : SGPU_KT128_LEAF;
	uint64_t a[LANES] = {};

#pragma unroll 1
	do {
#pragma unroll
		for (int i = 0; i < RATE_WORDS; i++) {
#pragma unroll 1
			for (int k = 0; k < 64 && at <= size; k += 8, at++) {
				a[i] ^= (at < size ? byte_at(work, begin + at) : (uint64_t)domain) << k;
			}
		}
		last = at > size;
		if (last && head) {
			put_head(a, work.mail);
			return;
		}
		a[RATE_WORDS - 1] ^= (uint64_t)(last ? 0x80 : 0) << 56;
		permute(a);
	} while (!last);
	put_value(a, index == 0 ? work.result : work.mail->odd[index - work.size / SGPU_KT128_CHUNK]);
}

template <bool ALIGNED>
static __global__ void __launch_bounds__(SGPU_DIGEST_THREADS) chunks(const __grid_constant__ sgpu_digest_work work)
{
	uint64_t index = (uint64_t)blockIdx.x * SGPU_DIGEST_THREADS + threadIdx.x;

	/* That this kernel runs says that the one before it has ended. */
	if (work.first > 0 && blockIdx.x == 0 && threadIdx.x == 0) {
		__threadfence_system();
		*(volatile uint64_t *)&work.mail->hashed = work.first / SGPU_DIGEST_SLICE;
	}
	/* The odd ones take longer, so they have a block of their own, which starts first. */
	if (work.odd) {
		if (blockIdx.x == 0) {
			if (threadIdx.x < work.odd) {
				odd_chunk(work, work.size / SGPU_KT128_CHUNK + threadIdx.x);
			}
			return;
		}
		index -= SGPU_DIGEST_THREADS;
	}
	if (index < work.count) {
		whole_chunk<ALIGNED>(work, work.first + index);
	}
}

cudaError_t sgpu_digest_launch(const sgpu_digest_work &work, cudaStream_t stream)
{
	unsigned blocks = (unsigned)((work.count + SGPU_DIGEST_THREADS - 1) / SGPU_DIGEST_THREADS) + (work.odd ? 1 : 0);

	if ((uintptr_t)work.message % 8 == 0) {
		chunks<true><<<blocks, SGPU_DIGEST_THREADS, 0, stream>>>(work);
	} else {
		chunks<false><<<blocks, SGPU_DIGEST_THREADS, 0, stream>>>(work);
	}
	return cudaGetLastError();
}
