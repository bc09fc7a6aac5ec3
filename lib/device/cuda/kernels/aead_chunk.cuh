/* SPDX-License-Identifier: Apache-2.0
 *
 * A chunk run as a parameter of kernels, and what both kernels do with a chunk.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_AEAD_CHUNK_CUH
#define SGPU_DEVICE_CUDA_KERNELS_AEAD_CHUNK_CUH

#include <device/cuda/kernels/aead_state.cuh>
#include <device/cuda/kernels/blocks.cuh>
#include <device/cuda/kernels/ghash.cuh>

namespace sgpu_aead
{

using namespace sgpu_blocks;

struct job {
	const key_state *state;
	const unsigned char *in;
	unsigned char *out;
	uint64_t first;
	uint64_t count;
	uint64_t end_size; /* plaintext bytes of the last chunk */
	uint64_t bad_end;  /* chunk at which the run's length or end is wrong, or UINT64_MAX */
	sgpu_cuda_verdict *verdict;
	unsigned long long *counter; /* from bit DONE_BITS: thread blocks (aead_small.cu: chunks)
					that have ended; below: good chunks */
};
enum { DONE_BITS = 48 };

struct chunk {
	const unsigned char *in;
	unsigned char *out;
	int size;	     /* plaintext bytes */
	uint32_t n0, n1, n2; /* nonce */
};

template <bool OPEN>
static __device__ __forceinline__ chunk find_chunk(const job &j, uint64_t index)
{
	uint64_t number = j.first + index;
	uint4 nonce = __ldg(&j.state->nonce);
	chunk c;

	c.in = j.in + index * (OPEN ? SEALED : CHUNK);
	c.out = j.out + index * (OPEN ? CHUNK : SEALED);
	c.size = index == j.count - 1 ? (int)j.end_size : CHUNK;
	c.n0 = nonce.x;
	c.n1 = nonce.y ^ sgpu_aes::permute((uint32_t)(number >> 32), 0, 0x0123);
	c.n2 = nonce.z ^ sgpu_aes::permute((uint32_t)number, 0, 0x0123);
	return c;
}

/* The length block times H. */
static __device__ __forceinline__ uint4 length_part(const job &j, const chunk &c)
{
	if (c.size == CHUNK) {
		return __ldg(&j.state->full_length);
	}
	return sgpu_gf_product(
		make_uint4(0, 0, 0, sgpu_aes::permute((uint32_t)c.size * 8, 0, 0x0123)),
		__ldg(&j.state->power[1]));
}

/* The block that the tag is masked with: counter 1. */
static __device__ __forceinline__ uint4 mask(const sgpu_aes::cipher &cipher, const chunk &c)
{
	return sgpu_aes::counter_block(cipher, sgpu_aes::begin_chunk(cipher, c.n0, c.n1, c.n2), 1);
}

static __device__ __forceinline__ void add_to(uint32_t *sum, uint4 a)
{
	atomicXor(&sum[0], a.x);
	atomicXor(&sum[1], a.y);
	atomicXor(&sum[2], a.z);
	atomicXor(&sum[3], a.w);
}

/* Tells the host the number of a chunk that does not verify. */
static __device__ __forceinline__ void report_bad(const job &j, uint64_t number)
{
	atomicMin((unsigned long long *)&j.verdict->bad, (unsigned long long)number);
}

/* Counts `good` chunks. The last of `all` calls tells the host how many were done. */
static __device__ __forceinline__ void report_done(const job &j, uint64_t good, uint64_t all)
{
	unsigned long long mine = (1ull << DONE_BITS) + good,
			   sum = atomicAdd(j.counter, mine) + mine;

	if (sum >> DONE_BITS == all) {
		__threadfence_system();
		*(volatile uint64_t *)&j.verdict->done = sum & (1ull << DONE_BITS) - 1;
	}
}

/* Whether a chunk's tag equals `came`, the received one; if not, reports the chunk. */
static __device__ __forceinline__ bool is_tag(const job &j, uint64_t index, uint4 tag, uint4 came)
{
	uint4 d = tag ^ came;

	if (d.x | d.y | d.z | d.w) {
		report_bad(j, j.first + index);
		return false;
	}
	return true;
}

/* A store that the compiler keeps although nothing reads the memory. */
static __device__ __forceinline__ void wipe_block(unsigned char *at)
{
	asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(
			     (uint32_t)__cvta_generic_to_shared(at)),
		     "r"(0)
		     : "memory");
}

} // namespace sgpu_aead

/* aead_small.cu: for runs short enough to split over more multiprocessors than they have chunks. */
bool sgpu_aead_is_small(const sgpu_aead::job *j, int multiprocessors);
void sgpu_aead_small(const sgpu_aead::job *jobs, unsigned count, bool open, void *stream);
int sgpu_aead_small_prepare(void);

#endif
