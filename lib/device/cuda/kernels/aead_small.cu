/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM over a few chunks, for which the time to the end counts and not the work: the blocks of a chunk are spread
 * over several multiprocessors, one block of 16 bytes a thread, and each is multiplied by its own power of H, so that
 * the tables of GHASH are not needed. The part of a chunk that ends last has the tag.
 */
#include <cuda_runtime.h>

#include <device/cuda/kernels/aead_chunk.cuh>

using namespace sgpu_aead;

enum {
	PART = 128,                     /* blocks of 16 bytes of a part, one a thread; a warp more has the tag's mask */
	THREADS = PART + 32,
	PARTS = CHUNK / 16 / PART,      /* of a full chunk */
	WORDS = 5,                      /* a chunk's: its sum, and the parts that have ended; zero at first */
	CHUNKS = 12,                    /* at most: as many as have words behind the counter */
};
static_assert(2 + CHUNKS * WORDS <= 64, "the counters of a launch are 64 words");

struct rest {
	uint4 round_keys[sgpu_aes::ROUNDS + 1];
	uint32_t sum[4];
	uint32_t unused[4];
};
enum { SHARED_BYTES = sgpu_aes::TABLE_BYTES + sizeof(rest) };

/* A thread's block: deciphered or enciphered; its part of GHASH. */
template <bool OPEN, bool ALIGNED>
static __device__ __forceinline__ uint4 do_block(const sgpu_aes::cipher &cipher, const job &j, const chunk &c, int index)
{
	int blocks = (c.size + 15) / 16, left = c.size - 16 * index;
	uint4 data, other;

	data = left >= 16 ? load_block<ALIGNED>(c.in + 16 * index) : load_part(c.in + 16 * index, left);
	other = data ^ sgpu_aes::counter_block(cipher, sgpu_aes::begin_chunk(cipher, c.n0, c.n1, c.n2), (uint32_t)index + 2);
	if (left >= 16) {
		store_block<ALIGNED>(c.out + 16 * index, other);
	} else {
		other = keep_part(other, left);
		store_part(c.out + 16 * index, other, left);
	}
	return sgpu_ghash::product(OPEN ? data : other, __ldg(&j.state->power[blocks - index + 1]));
}

static __device__ __forceinline__ void add_to(uint32_t *sum, uint4 a)
{
	atomicXor(&sum[0], a.x);
	atomicXor(&sum[1], a.y);
	atomicXor(&sum[2], a.z);
	atomicXor(&sum[3], a.w);
}

/* One thread of each part. The last of a chunk ends it, the last of all chunks tells the host. */
template <bool OPEN>
static __device__ __forceinline__ void end_part(const job &j, const chunk &c, uint64_t index, const uint32_t *part,
						unsigned parts)
{
	volatile uint32_t *sum = (volatile uint32_t *)(j.counter + 1) + index * WORDS;
	unsigned long long mine = 1ull << DONE_BITS, all;
	bool right = true;
	uint4 tag;

	add_to((uint32_t *)sum, *(const uint4 *)part);
	__threadfence();
	if (atomicAdd((uint32_t *)&sum[4], 1) != parts - 1) {
		return;
	}
	__threadfence();
	tag = make_uint4(sum[0], sum[1], sum[2], sum[3]);
	if (OPEN) {
		right = is_tag(j, c, index, tag);
	} else {
		store_block<false>(c.out + c.size, tag);
	}
	mine += right;
	all = atomicAdd(j.counter, mine) + mine;
	if (all >> DONE_BITS == j.count) {
		*(volatile uint64_t *)&j.verdict->done = all & (1ull << DONE_BITS) - 1;
	}
}

template <bool OPEN, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS) run_parts(const job j)
{
	extern __shared__ __align__(1024) unsigned char shared[];
	rest *r = (rest *)(shared + sgpu_aes::TABLE_BYTES);
	const uint64_t index = blockIdx.y;
	chunk c = find_chunk<OPEN>(j, index);
	int block = (int)(blockIdx.x * PART + threadIdx.x);
	uint4 sum = make_uint4(0, 0, 0, 0);
	sgpu_aes::cipher cipher;

	if (OPEN && blockIdx.x == 0 && index == 0 && threadIdx.x == 0 && j.bad_end != UINT64_MAX) {
		atomicMin((unsigned long long *)&j.verdict->bad, (unsigned long long)j.bad_end);
	}
	if (__ldg(&j.state->nonce).w != USABLE) {
		if (blockIdx.x == 0 && index == 0 && threadIdx.x == 0) {
			*(volatile uint64_t *)&j.verdict->refused = 1;
		}
		return;
	}
	/* A shorter chunk at the end has fewer parts. */
	unsigned parts = c.size <= 16 * PART ? 1 : ((unsigned)c.size + 16 * PART - 1) / (16 * PART);
	if (blockIdx.x >= parts) {
		return;
	}
	sgpu_aes::fill_tables<THREADS>(shared);
	if (threadIdx.x <= sgpu_aes::ROUNDS) {
		r->round_keys[threadIdx.x] = __ldg(&j.state->round_keys[threadIdx.x]);
	}
	if (threadIdx.x < 4) {
		r->sum[threadIdx.x] = 0;
	}
	__syncthreads();
	cipher.tables = shared;
	cipher.keys = r->round_keys;
	cipher.lane = threadIdx.x % 32 * 4;
	if (threadIdx.x >= PART) {
		if (threadIdx.x == PART && blockIdx.x == 0) {
			sum = mask(cipher, c) ^ length_part(j, c);
		}
	} else if (16 * block < c.size) {
		sum = do_block<OPEN, ALIGNED>(cipher, j, c, block);
	}
	sum = sgpu_ghash::sum_of_warp(sum);
	if (threadIdx.x % 32 == 0) {
		add_to(r->sum, sum);
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		end_part<OPEN>(j, c, index, r->sum, parts);
	}
	__syncthreads();
	/* The next kernel on this multiprocessor may be anybody's. */
	if (threadIdx.x < sizeof(rest) / 16) {
		wipe_block((unsigned char *)r + 16 * threadIdx.x);
	}
}

/* ---- host ---- */
typedef void (*kernel_fn)(const job);

static kernel_fn choose(bool open, bool aligned)
{
	static const kernel_fn kernels[2][2] = {
		{ run_parts<false, false>, run_parts<false, true> },
		{ run_parts<true, false>, run_parts<true, true> },
	};

	return kernels[open][aligned];
}

int sgpu_aead_small_prepare(void)
{
	int code = cudaSuccess;

	for (int i = 0; i < 4 && code == cudaSuccess; i++) {
		code = cudaFuncSetAttribute((const void *)choose(i / 2, i % 2),
					    cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
	}
	return code;
}

bool sgpu_aead_is_small(const job *j, int multiprocessors)
{
	return j->count > 0 && j->count <= CHUNKS && j->count * PARTS <= (uint64_t)multiprocessors;
}

void sgpu_aead_small(const job *j, bool open, void *stream)
{
	bool aligned = (((uintptr_t)j->in | (uintptr_t)j->out) & 15) == 0;
	unsigned parts = j->count > 1 ? PARTS : (unsigned)((j->end_size + 16 * PART - 1) / (16 * PART));

	choose(open, aligned)<<<dim3(parts ? parts : 1, (unsigned)j->count), THREADS, SHARED_BYTES, (cudaStream_t)stream>>>(*j);
}
