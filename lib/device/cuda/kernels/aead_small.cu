/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM over runs of a few chunks, where latency counts more than total work: a chunk's
 * blocks of 16 bytes are spread over several multiprocessors, one a thread, and each is multiplied
 * by its own power of H, without GHASH's tables. A part is what one thread block does of a chunk;
 * the part that ends last makes or checks the tag.
 *
 * Bytes to open may be in host memory that changes meanwhile. So each is read once: GHASH covers
 * the very bytes that are deciphered.
 */
#include <cuda_runtime.h>

#include <device/cuda/kernels/aead_chunk.cuh>

using namespace sgpu_aead;

enum {
	PART = 128, /* blocks in a part; one more warp makes the tag's mask */
	THREADS = PART + 32,
	PARTS = CHUNK / 16 / PART, /* of a full chunk */
	WORDS = 5, /* counter words of a chunk: its sum, and the parts that have ended */
};
static_assert(2 + SGPU_CUDA_SMALL_CHUNKS * WORDS <= 64, "the counters of a run are 64 words");

struct table {
	unsigned count;
	unsigned begin[SGPU_CUDA_RUNS]; /* the first thread block of each run */
	job jobs[SGPU_CUDA_RUNS];
};
static_assert(sizeof(table) <= 4096, "every driver takes parameters of 4 KiB");

/* A run's last chunk may have fewer parts. */
static __host__ __device__ __forceinline__ unsigned parts_of(uint64_t size)
{
	return size <= 16 * PART ? 1 : (unsigned)((size + 16 * PART - 1) / (16 * PART));
}

struct rest {
	uint4 round_keys[sgpu_aes::ROUNDS + 1];
	uint32_t sum[4];
	uint32_t unused[4];
};
enum { SHARED_BYTES = sgpu_aes::TABLE_BYTES + sizeof(rest) };

/* ---- blocks at addresses that are multiples of 16, 8 or 1 ---- */
static __device__ __forceinline__ uint64_t load_word(uintptr_t from)
{
	uint64_t word;

	asm volatile("ld.volatile.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
	return word;
}

static __device__ __forceinline__ uint64_t join(uint64_t low, uint64_t high, unsigned shift)
{
	return shift == 0 ? low : low >> shift | high << (64 - shift);
}

/* Loads the first `size` bytes of a block, then zeros. Over the bus a byte takes as long as a word,
 * so whole words are read: some bytes may lie outside the block, but in its page. */
static __device__ __forceinline__ uint4 load_bytes(const unsigned char *from, int size)
{
	const uintptr_t base = (uintptr_t)from & ~(uintptr_t)7;
	const int skew = (int)((uintptr_t)from & 7), end = skew + size;
	uint64_t a = size > 0 ? load_word(base) : 0, b = end > 8 ? load_word(base + 8) : 0;
	uint64_t c = end > 16 ? load_word(base + 16) : 0;
	uint64_t low = join(a, b, 8 * skew), high = join(b, c, 8 * skew);

	return keep_part(make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high,
				    (uint32_t)(high >> 32)),
			 size);
}

/* Loads a block from an address that is a multiple of `multiple`. */
static __device__ __forceinline__ uint4 load_once(const unsigned char *from, unsigned multiple)
{
	uint4 b;

	if (multiple % 8 != 0) {
		return load_bytes(from, 16);
	}
	if (multiple == 16) {
		asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
			     : "=r"(b.x), "=r"(b.y), "=r"(b.z), "=r"(b.w)
			     : "l"(from)
			     : "memory");
		return b;
	}
	asm volatile("ld.volatile.v2.u32 {%0, %1}, [%2];"
		     : "=r"(b.x), "=r"(b.y)
		     : "l"(from)
		     : "memory");
	asm volatile("ld.volatile.v2.u32 {%0, %1}, [%2];"
		     : "=r"(b.z), "=r"(b.w)
		     : "l"(from + 8)
		     : "memory");
	return b;
}

static __device__ __forceinline__ void store(unsigned char *to, uint4 b, unsigned multiple)
{
	if (multiple == 16) {
		store_block<true>(to, b);
	} else if (multiple == 8) {
		((uint2 *)to)[0] = make_uint2(b.x, b.y);
		((uint2 *)to)[1] = make_uint2(b.z, b.w);
	} else {
		store_block<false>(to, b);
	}
}

/* ---- parts ---- */
/* Deciphers or enciphers a thread's block, and returns its part of GHASH. */
template <bool OPEN>
static __device__ __forceinline__ uint4 do_block(const sgpu_aes::cipher &cipher, const job &j,
						 const chunk &c, int index)
{
	const uintptr_t places = (uintptr_t)c.in | (uintptr_t)c.out;
	const unsigned multiple = places % 16 == 0 ? 16 : places % 8 == 0 ? 8 : 1;
	int blocks = (c.size + 15) / 16, left = c.size - 16 * index;
	uint4 data, other;

	data = left >= 16 ? load_once(c.in + 16 * index, multiple)
			  : load_bytes(c.in + 16 * index, left);
	other = data ^ sgpu_aes::counter_block(cipher,
					       sgpu_aes::begin_chunk(cipher, c.n0, c.n1, c.n2),
					       (uint32_t)index + 2);
	if (left >= 16) {
		store(c.out + 16 * index, other, multiple);
	} else {
		other = keep_part(other, left);
		store_part(c.out + 16 * index, other, left);
	}
	return sgpu_gf_product(OPEN ? data : other, __ldg(&j.state->power[blocks - index + 1]));
}

/* One thread of each part calls it. */
template <bool OPEN>
static __device__ __forceinline__ void end_part(const job &j, const chunk &c, uint64_t index,
						const uint32_t *part, unsigned parts)
{
	volatile uint32_t *sum = (volatile uint32_t *)(j.counter + 1) + index * WORDS;
	bool right = true;
	uint4 tag;

	add_to((uint32_t *)sum, *(const uint4 *)part);
	/* The host, too, must see the data before the word that reports them. */
	__threadfence_system();
	if (atomicAdd((uint32_t *)&sum[4], 1) != parts - 1) {
		return;
	}
	__threadfence();
	tag = make_uint4(sum[0], sum[1], sum[2], sum[3]);
	if (OPEN) {
		right = is_tag(j, index, tag, make_uint4(0, 0, 0, 0));
	} else {
		store_block<false>(c.out + c.size, tag);
		__threadfence_system();
	}
	report_done(j, right, j.count);
}

template <bool OPEN>
static __global__ void __launch_bounds__(THREADS) run_parts(const __grid_constant__ table t)
{
	extern __shared__ __align__(1024) unsigned char shared[];
	rest *r = (rest *)(shared + sgpu_aes::TABLE_BYTES);
	uint4 sum = make_uint4(0, 0, 0, 0);
	sgpu_aes::cipher cipher;
	unsigned run = 0;

	while (run + 1 < t.count && blockIdx.x >= t.begin[run + 1]) {
		run++;
	}
	const job &j = t.jobs[run];
	const unsigned place = blockIdx.x - t.begin[run], part = place % PARTS;
	const uint64_t index = place / PARTS;

	if (place == 0 && threadIdx.x == 0 && j.bad_end != UINT64_MAX) {
		report_bad(j, j.bad_end);
	}
	if (__ldg(&j.state->nonce).w != USABLE) {
		if (place == 0 && threadIdx.x == 0) {
			*(volatile uint64_t *)&j.verdict->refused = 1;
		}
		return;
	}
	if (index >= j.count) {
		return; /* only the run's end is wrong */
	}
	chunk c = find_chunk<OPEN>(j, index);
	int block = (int)(part * PART + threadIdx.x);
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
		if (threadIdx.x == PART && part == 0) {
			/* With the received tag added, the sum must be zero. */
			sum = OPEN ? load_bytes(c.in + c.size, 16) : sum;
			sum = sum ^ mask(cipher, c) ^ length_part(j, c);
		}
	} else if (16 * block < c.size) {
		sum = do_block<OPEN>(cipher, j, c, block);
	}
	sum = sgpu_ghash::sum_of_warp(sum);
	if (threadIdx.x % 32 == 0) {
		add_to(r->sum, sum);
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		end_part<OPEN>(j, c, index, r->sum, parts_of(c.size));
	}
	__syncthreads();
	/* Wipe shared memory: the next kernel on this multiprocessor may be another user's. */
	if (threadIdx.x < sizeof(rest) / 16) {
		wipe_block((unsigned char *)r + 16 * threadIdx.x);
	}
}

/* ---- host ---- */
typedef void (*kernel_fn)(const table);

static const kernel_fn kernels[2] = { run_parts<false>, run_parts<true> };

int sgpu_aead_small_prepare(void)
{
	int rc = cudaSuccess;

	for (int i = 0; i < 2 && rc == cudaSuccess; i++) {
		rc = cudaFuncSetAttribute((const void *)kernels[i],
					  cudaFuncAttributeMaxDynamicSharedMemorySize,
					  SHARED_BYTES);
	}
	return rc;
}

bool sgpu_aead_is_small(const job *j, int multiprocessors)
{
	return j->count <= SGPU_CUDA_SMALL_CHUNKS && j->count * PARTS <= (uint64_t)multiprocessors;
}

void sgpu_aead_small(const job *jobs, unsigned count, bool open, void *stream)
{
	unsigned blocks = 0;
	table t = {};

	for (; t.count < count; t.count++) {
		const job &j = jobs[t.count];

		t.jobs[t.count] = j;
		t.begin[t.count] = blocks;
		blocks += j.count > 0 ? (unsigned)(j.count - 1) * PARTS + parts_of(j.end_size) : 1;
	}
	kernels[open]<<<blocks, THREADS, SHARED_BYTES, (cudaStream_t)stream>>>(t);
}
