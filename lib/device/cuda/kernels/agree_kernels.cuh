/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that gather entropy and agree on a key.
 *
 * Each multiprocessor is a source of entropy. All at once, they add to shared words in device
 * memory and read words back past the first-level cache, at positions that depend on the values
 * read. A sample is the low eight bits of the clock cycles that this takes one thread. It depends
 * on how the requests of all multiprocessors meet in the crossbar, the second-level cache and
 * memory, whose clocks are not those of the multiprocessors. The samples never leave shared memory;
 * their digest, which stays on the device, and the health tests' counts do.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_AGREE_KERNELS_CUH
#define SGPU_DEVICE_CUDA_KERNELS_AGREE_KERNELS_CUH

#include <device/cuda/kernels.h>
#include <device/cuda/kernels/agree_secret.cuh>
#include <device/cuda/kernels/entropy.cuh>

namespace sgpu_agree
{

enum { THREADS = 128, WORDS = 1024, WARM_UP = 64 };

/* Private memory of an agreement; the digests and then the counts of all sources follow it. */
struct room {
	uint8_t private_key[32], public_key[32];
	uint8_t material[48];
	uint8_t none[16];
	uint32_t words[WORDS];
};

static __host__ __device__ inline uint8_t *digests_of(room *r)
{
	return (uint8_t *)(r + 1);
}

static __host__ __device__ inline sgpu_entropy_counts *counts_of(room *r, unsigned sources)
{
	return (sgpu_entropy_counts *)(digests_of(r) + 32 * (size_t)sources);
}

template <typename T> static __device__ void wipe(T *what)
{
	volatile uint32_t *words = (volatile uint32_t *)what;

	static_assert(sizeof(T) % 4 == 0, "whole words");
	for (unsigned i = threadIdx.x; i < sizeof(T) / 4; i += blockDim.x) {
		words[i] = 0;
	}
}

struct source {
	uint8_t samples[SGPU_CUDA_SAMPLES];
	uint32_t sink[THREADS];
	sgpu_sha sha;
	uint64_t begin[3];
	uint8_t digest[32];
	sgpu_entropy_counts counts;
};

/* All threads make memory traffic; the first thread's times are the samples. */
static __device__ void sample(source *s, uint32_t *words)
{
	uint32_t at = threadIdx.x * 7 + blockIdx.x * 41;
	volatile uint32_t *sink = &s->sink[threadIdx.x];

#pragma unroll 1
	for (int i = -WARM_UP; i < SGPU_CUDA_SAMPLES; i++) {
		uint32_t *word = words + at % WORDS, was, is;
		long long begin = clock64(), end;

		was = atomicAdd(word, (uint32_t)begin | 1);
		*sink = was;
		is = *(volatile uint32_t *)(words + (was >> 5) % WORDS);
		*sink = is; /* forces a wait for the data */
		end = clock64();
		if (threadIdx.x == 0 && i >= 0) {
			s->samples[i] = (uint8_t)(end - begin);
		}
		at = (was ^ is) * 0x9e3779b1u >> 20 ^ (uint32_t)end;
	}
}

static __device__ void count(source *s)
{
	const unsigned t = threadIdx.x;

	for (unsigned i = t; i < 256; i += THREADS) {
		atomicMax(&s->counts.most_common,
			  sgpu_entropy_times(s->samples, SGPU_CUDA_SAMPLES, i));
	}
	for (unsigned i = t; i < SGPU_ENTROPY_LAGS; i += THREADS) {
		atomicMax(&s->counts.most_at_lag,
			  sgpu_entropy_again(s->samples, SGPU_CUDA_SAMPLES, i + 1));
	}
	if (t == 0) {
		s->counts.samples = SGPU_CUDA_SAMPLES;
		sgpu_entropy_walk(s->samples, SGPU_CUDA_SAMPLES, &s->counts.longest_run,
				  &s->counts.most_in_window);
	}
}

/* Hashes the samples, and other varying values that are not counted as entropy. */
static __device__ void digest(source *s)
{
	uint32_t processor;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(s->begin[1]));
	s->begin[2] = (uint64_t)clock64() ^ (uint64_t)processor << 32;
	sgpu_sha_begin(&s->sha);
	sgpu_sha_update(&s->sha, s->samples, SGPU_CUDA_SAMPLES);
	sgpu_sha_update(&s->sha, s->begin, sizeof(s->begin));
	sgpu_sha_end(&s->sha, s->digest);
}

/* record: where tests, which discard the digests, want copies of the samples; or NULL. */
static __device__ void gather(source *s, room *r, unsigned sources, uint8_t *record)
{
	wipe(s);
	__syncthreads();
	if (threadIdx.x == 0) {
		s->begin[0] = (uint64_t)clock64();
	}
	sample(s, r->words);
	__syncthreads();
	count(s);
	if (threadIdx.x == 0) {
		digest(s);
		counts_of(r, sources)[blockIdx.x] = s->counts;
	}
	__syncthreads();
	if (threadIdx.x < 32) {
		digests_of(r)[32 * blockIdx.x + threadIdx.x] = s->digest[threadIdx.x];
	}
	for (unsigned i = threadIdx.x; record && i < SGPU_CUDA_SAMPLES; i += THREADS) {
		record[(size_t)blockIdx.x * SGPU_CUDA_SAMPLES + i] = s->samples[i];
	}
	__syncthreads();
	wipe(s);
}

struct bytes32 {
	uint8_t at[32];
};

static __device__ void answer(sgpu_cuda_answer *to, const uint8_t *bytes, uint64_t done)
{
	volatile uint8_t *out = to->bytes;

	for (int i = 0; i < 32; i++) {
		out[i] = bytes[i];
	}
	__threadfence_system();
	*(volatile uint64_t *)&to->done = done;
}

/* Runs in one thread block, whose first thread does the work; the others only help to wipe the
 * secrets in shared memory. */
static __device__ void make(sgpu_agree_work *w, room *r, unsigned sources, const bytes32 &random,
			    sgpu_cuda_answer *to)
{
	if (threadIdx.x == 0) {
		sgpu_agree_make(w, random.at, digests_of(r), sources, r->private_key,
				r->public_key);
		answer(to, r->public_key, SGPU_CUDA_AGREE_DONE);
	}
	__syncthreads();
	for (unsigned i = threadIdx.x; i < 32 * sources; i += blockDim.x) {
		digests_of(r)[i] = 0;
	}
	wipe(w);
}

static __device__ void finish(sgpu_agree_work *w, room *r, const bytes32 &host_public,
			      sgpu_cuda_answer *to)
{
	if (threadIdx.x == 0) {
		int sound = sgpu_agree_derive(w, r->private_key, host_public.at, r->public_key);

		for (int i = 0; i < 48; i++) {
			r->material[i] = sound && i < SGPU_AGREE_KEY ? w->out[i] : 0;
		}
		answer(to, w->out + SGPU_AGREE_KEY,
		       sound ? SGPU_CUDA_AGREE_DONE : SGPU_CUDA_AGREE_ZERO);
	}
	__syncthreads();
	if (threadIdx.x < 32) {
		r->private_key[threadIdx.x] = 0;
	}
	wipe(w);
}

} // namespace sgpu_agree

#endif
