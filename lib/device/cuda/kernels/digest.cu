/* SPDX-License-Identifier: Apache-2.0
 *
 * KT128 of device memory, except the final node, which the CPU makes (kernels.h).
 */
#include <string.h>

#include <sgpu/base.h>

#include <crypto/kt128.h>
#include <device/cuda/kernels.h>
#include <device/cuda/kernels/sponge_warp.cuh>

enum { THREADS = 64 /* of a block */ };

/* The final node after chunk 0, and the other chunks' chaining values. */
struct sgpu_cuda_nodes {
	uint64_t head[SGPU_KECCAK_LANES];
	alignas(16) uint8_t values[][SGPU_KT128_VALUE];
};

struct digest_work {
	const uint8_t *message;
	uint64_t size, whole;
	struct sgpu_cuda_nodes *nodes;
	uint8_t *result; /* of a message that is one node; the same memory */
	unsigned odd;
	unsigned suffix_size; /* the length of the customisation string, which is empty */
	uint8_t suffix[SGPU_KT128_LENGTH_MAX];
};

template <bool ALIGNED>
static __device__ __forceinline__ void whole_chunk(const digest_work &work, uint64_t index)
{
	uint64_t a[LANES] = {};

	absorb_whole<ALIGNED>(work.message + index * SGPU_KT128_CHUNK, index == 0, a);
	if (index > 0) {
		put_value(a, work.nodes->values[index]);
		return;
	}
	/* before the permutation of the block with the marker */
#pragma unroll
	for (int i = 0; i < LANES; i++) {
		work.nodes->head[i] = a[i];
	}
}

/* Hashes a chunk that reaches past the message. All threads of a warp call it. */
static __device__ __noinline__ void odd_chunk(const digest_work &work, uint64_t index)
{
	const message m = { work.message, work.size, work.suffix, work.suffix_size };
	const unsigned lane = threadIdx.x % WARP;
	uint64_t a = 0;

	if (absorb_by_warp(m, index, a)) {
		if (lane < LANES) {
			work.nodes->head[lane] = a;
		}
	} else if (lane < SGPU_KT128_VALUE / 8) {
		((uint64_t *)(index == 0 ? work.result : work.nodes->values[index]))[lane] = a;
	}
}

template <bool ALIGNED>
static __global__ void __launch_bounds__(THREADS) chunks(const __grid_constant__ digest_work work)
{
	/* Chunks that are not whole have the first thread block, with a warp each. */
	const uint64_t index = ((uint64_t)blockIdx.x - 1) * THREADS + threadIdx.x;

	if (blockIdx.x == 0) {
		if (threadIdx.x / WARP < work.odd) {
			odd_chunk(work, work.whole + threadIdx.x / WARP);
		}
	} else if (index < work.whole) {
		whole_chunk<ALIGNED>(work, index);
	}
}

static unsigned odd_chunks(uint64_t size, unsigned suffix_size)
{
	return (unsigned)((size % SGPU_KT128_CHUNK + suffix_size + SGPU_KT128_CHUNK - 1) /
			  SGPU_KT128_CHUNK);
}

size_t sgpu_cuda_digest_room(uint64_t size)
{
	uint8_t length[SGPU_KT128_LENGTH_MAX];
	const uint64_t count =
		size / SGPU_KT128_CHUNK + odd_chunks(size, sgpu_kt128_length(0, length));

	return (count > 1 ? sizeof(struct sgpu_cuda_nodes) : 0) + count * SGPU_KT128_VALUE;
}

int sgpu_cuda_digest_enqueue(void *native, uint64_t memory, uint64_t size, void *room)
{
	const cudaStream_t stream = (cudaStream_t)native;
	struct digest_work work;
	unsigned blocks;

	memset(&work, 0, sizeof(work));
	work.message = (const uint8_t *)(uintptr_t)memory;
	work.size = size;
	work.whole = size / SGPU_KT128_CHUNK;
	work.nodes = (struct sgpu_cuda_nodes *)room;
	work.result = (uint8_t *)room;
	work.suffix_size = sgpu_kt128_length(0, work.suffix);
	work.odd = odd_chunks(size, work.suffix_size);
	blocks = 1 + (unsigned)((work.whole + THREADS - 1) / THREADS);
	if ((uintptr_t)work.message % 8 == 0) {
		chunks<true><<<blocks, THREADS, 0, stream>>>(work);
	} else {
		chunks<false><<<blocks, THREADS, 0, stream>>>(work);
	}
	return (int)cudaGetLastError();
}

void sgpu_cuda_digest_finish(const void *room, size_t size, uint8_t *result)
{
	const struct sgpu_cuda_nodes *nodes = (const struct sgpu_cuda_nodes *)room;
	struct sgpu_turboshake node = {};
	uint64_t count;

	if (size == SGPU_KT128_VALUE) {
		memcpy(result, room, SGPU_KT128_VALUE);
		return;
	}
	count = (size - sizeof(*nodes)) / SGPU_KT128_VALUE - 1;
	memcpy(node.lanes, nodes->head, sizeof(node.lanes));
	node.at = SGPU_KT128_CHUNK % SGPU_TURBOSHAKE_RATE + SGPU_KT128_MARKER;
	sgpu_turboshake_absorb(&node, nodes->values[1], count * SGPU_KT128_VALUE);
	sgpu_kt128_end(&node, count, result, SGPU_KT128_VALUE);
	sgpu_wipe(&node, sizeof(node));
}
