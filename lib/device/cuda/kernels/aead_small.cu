/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM over a few chunks, for which latency counts more than total work: the blocks of a
 * chunk are spread over several multiprocessors, one block of 16 bytes a thread, and each is
 * multiplied by its own power of H, so that the tables of GHASH are not needed. A part is what one
 * thread block does of a chunk; the part that ends last makes or checks the tag.
 *
 * The input of an opening may be in the host's memory, and change meanwhile. So each byte is read
 * once, and the bytes that are deciphered are those that GHASH covers.
 */
#include <cuda_runtime.h>

#include <device/cuda/kernels/aead_chunk.cuh>

using namespace sgpu_aead;

enum {
	PART = 128, /* blocks of 16 bytes in a part, one a thread; one more warp makes the tag's
		       mask */
	THREADS = PART + 32,
	PARTS = CHUNK / 16 / PART, /* of a full chunk */
	WORDS = 5, /* counter words of a chunk: its sum, and the parts that have ended; zero at
		      first */
};
static_assert(2 + SGPU_CUDA_SMALL_CHUNKS * WORDS <= 64, "the counters of a launch are 64 words");

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

/* Loads the first `size` bytes of a block, and zeros for the others. Over the bus a byte takes as
 * long as a word, so whole words are read; some of their bytes may lie outside the block, but in
 * its page. */
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

template <int MULTIPLE> static __device__ __forceinline__ uint4 load_once(const unsigned char *from)
{
	uint4 b;

	if (MULTIPLE == 16) {
		asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
			     : "=r"(b.x), "=r"(b.y), "=r"(b.z), "=r"(b.w)
			     : "l"(from)
			     : "memory");
		return b;
	}
	if (MULTIPLE == 8) {
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
	return load_bytes(from, 16);
}

template <int MULTIPLE> static __device__ __forceinline__ void store(unsigned char *to, uint4 b)
{
	if (MULTIPLE == 8) {
		((uint2 *)to)[0] = make_uint2(b.x, b.y);
		((uint2 *)to)[1] = make_uint2(b.z, b.w);
		return;
	}
	store_block<MULTIPLE == 16>(to, b);
}

/* ---- parts ---- */
/* Deciphers or enciphers a thread's block, and returns its part of GHASH. */
template <bool OPEN, int MULTIPLE>
static __device__ __forceinline__ uint4 do_block(const sgpu_aes::cipher &cipher, const job &j,
						 const chunk &c, int index)
{
	int blocks = (c.size + 15) / 16, left = c.size - 16 * index;
	uint4 data, other;

	data = left >= 16 ? load_once<MULTIPLE>(c.in + 16 * index)
			  : load_bytes(c.in + 16 * index, left);
	other = data ^ sgpu_aes::counter_block(cipher,
					       sgpu_aes::begin_chunk(cipher, c.n0, c.n1, c.n2),
					       (uint32_t)index + 2);
	if (left >= 16) {
		store<MULTIPLE>(c.out + 16 * index, other);
	} else {
		other = keep_part(other, left);
		store_part(c.out + 16 * index, other, left);
	}
	return sgpu_gf_product(OPEN ? data : other, __ldg(&j.state->power[blocks - index + 1]));
}

/* One thread of each part calls it. The last part of a chunk makes or checks the tag; the last
 * chunk tells the host. */
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

template <bool OPEN, int MULTIPLE>
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
		report_bad(j, j.bad_end);
	}
	if (__ldg(&j.state->nonce).w != USABLE) {
		if (blockIdx.x == 0 && index == 0 && threadIdx.x == 0) {
			*(volatile uint64_t *)&j.verdict->refused = 1;
		}
		return;
	}
	/* A shorter last chunk has fewer parts. */
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
			/* With the received tag added, the sum must be zero. */
			sum = OPEN ? load_bytes(c.in + c.size, 16) : sum;
			sum = sum ^ mask(cipher, c) ^ length_part(j, c);
		}
	} else if (16 * block < c.size) {
		sum = do_block<OPEN, MULTIPLE>(cipher, j, c, block);
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
	/* Wipe shared memory: the next kernel on this multiprocessor may be another user's. */
	if (threadIdx.x < sizeof(rest) / 16) {
		wipe_block((unsigned char *)r + 16 * threadIdx.x);
	}
}

/* ---- host ---- */
typedef void (*kernel_fn)(const job);

static const kernel_fn kernels[2][3] = {
	{ run_parts<false, 1>, run_parts<false, 8>, run_parts<false, 16> },
	{ run_parts<true, 1>, run_parts<true, 8>, run_parts<true, 16> },
};

int sgpu_aead_small_prepare(void)
{
	int rc = cudaSuccess;

	for (int i = 0; i < 6 && rc == cudaSuccess; i++) {
		rc = cudaFuncSetAttribute((const void *)kernels[i / 3][i % 3],
					  cudaFuncAttributeMaxDynamicSharedMemorySize,
					  SHARED_BYTES);
	}
	return rc;
}

bool sgpu_aead_is_small(const job *j, int multiprocessors)
{
	return j->count <= SGPU_CUDA_SMALL_CHUNKS && j->count * PARTS <= (uint64_t)multiprocessors;
}

void sgpu_aead_small(const job *j, bool open, void *stream)
{
	const uintptr_t place = (uintptr_t)j->in | (uintptr_t)j->out;
	const kernel_fn kernel = kernels[open][place % 16 == 0 ? 2 : place % 8 == 0 ? 1 : 0];
	const unsigned parts =
		j->count > 1 ? PARTS : (unsigned)((j->end_size + 16 * PART - 1) / (16 * PART));

	kernel<<<dim3(parts ? parts : 1, (unsigned)j->count), THREADS, SHARED_BYTES,
		 (cudaStream_t)stream>>>(*j);
}
