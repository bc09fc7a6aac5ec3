/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes the chunks of one KT128 message on the GPU. The CPU makes the final node of them.
 */
#include <device/cuda/kernels/digest_state.cuh>
#include <device/cuda/kernels/sponge_warp.cuh>

/* Stores the final node's state before the permutation of the block with the marker.
 */
static __device__ __forceinline__ void put_head(const uint64_t (&a)[LANES],
						struct sgpu_digest_mail *mail)
{
#pragma unroll
	for (int i = 0; i < LANES; i++) {
		mail->head[i] = a[i];
	}
}

template <bool ALIGNED>
static __device__ __forceinline__ void whole_chunk(const sgpu_digest_work &work, uint64_t index)
{
	uint64_t a[LANES] = {};

	absorb_whole<ALIGNED>(work.message + index * SGPU_KT128_CHUNK, index == 0, a);
	if (index == 0) {
		put_head(a, work.mail);
	} else {
		put_value(a, work.values + (index - work.first) * SGPU_KT128_VALUE);
	}
}

/* Hashes one of the one or two chunks that reach past the message. All threads of a warp call
 * it. */
static __device__ __noinline__ void odd_chunk(const sgpu_digest_work &work, uint64_t index)
{
	const message m = { work.message, work.size, work.suffix, work.suffix_size };
	const unsigned lane = threadIdx.x % WARP;
	uint64_t a = 0;

	if (absorb_by_warp(m, index, a)) {
		if (lane < LANES) {
			work.mail->head[lane] = a;
		}
	} else if (lane < SGPU_KT128_VALUE / 8) {
		uint8_t *to = index == 0 ? work.result
					 : work.mail->odd[index - work.size / SGPU_KT128_CHUNK];

		((uint64_t *)to)[lane] = a;
	}
}

template <bool ALIGNED>
static __global__ void __launch_bounds__(SGPU_DIGEST_THREADS)
	chunks(const __grid_constant__ sgpu_digest_work work)
{
	uint64_t index = (uint64_t)blockIdx.x * SGPU_DIGEST_THREADS + threadIdx.x;

	/* The slices before this one are hashed: this kernel runs only after theirs have ended. */
	if (work.first > 0 && blockIdx.x == 0 && threadIdx.x == 0) {
		__threadfence_system();
		*(volatile uint64_t *)&work.mail->hashed = work.first / SGPU_DIGEST_SLICE;
	}
	/* Chunks that are not whole have a thread block of their own, with a warp each. */
	if (work.odd) {
		if (blockIdx.x == 0) {
			if (threadIdx.x / WARP < work.odd) {
				odd_chunk(work, work.size / SGPU_KT128_CHUNK + threadIdx.x / WARP);
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
	unsigned blocks = (unsigned)((work.count + SGPU_DIGEST_THREADS - 1) / SGPU_DIGEST_THREADS) +
			  (work.odd ? 1 : 0);

	if ((uintptr_t)work.message % 8 == 0) {
		chunks<true><<<blocks, SGPU_DIGEST_THREADS, 0, stream>>>(work);
	} else {
		chunks<false><<<blocks, SGPU_DIGEST_THREADS, 0, stream>>>(work);
	}
	return cudaGetLastError();
}
