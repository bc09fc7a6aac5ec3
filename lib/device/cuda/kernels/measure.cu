/* SPDX-License-Identifier: Apache-2.0
 *
 * KT128 of pages of memory: a thread hashes each chunk, then a warp makes each page's final node.
 */
#include <string.h>

#include <cuda_runtime.h>

#include <sgpu/base.h>

#include <device/cuda/kernels/sponge_warp.cuh>
#include <crypto/kt128.h>
#include <device/cuda/kernels.h>

enum {
	STEP_PAGES = 512,				    /* most pages of one step */
	PAGE_CHUNKS = SGPU_MEASURE_PAGE / SGPU_KT128_CHUNK, /* without the suffix */
	SUFFIX_MAX = sizeof(((struct sgpu_measure_custom *)0)->bytes) + SGPU_KT128_LENGTH_MAX,
	THREADS = 64, /* of a block that computes chunks */
	VALUE_WORDS = SGPU_KT128_VALUE / 8,
	AFTER_HEAD = SGPU_KT128_CHUNK % SGPU_TURBOSHAKE_RATE / 8 +
		     SGPU_KT128_MARKER / 8, /* words in use of the head's last block */
};
static_assert(AFTER_HEAD + VALUE_WORDS == RATE_WORDS,
	      "the first chaining value ends the head's block");

struct scratch {
	alignas(16) uint8_t values[STEP_PAGES][PAGE_CHUNKS]
				  [SGPU_KT128_VALUE]; /* chaining values of chunks 1 and up */
	alignas(16) uint8_t digests[STEP_PAGES][SGPU_KT128_SIZE];
	uint64_t heads[STEP_PAGES][SGPU_KECCAK_LANES]; /* states after chunk 0 and the marker */
};

struct measure_step {
	const uint8_t *memory;
	uint64_t size;
	unsigned pages; /* with the shorter one */
	unsigned odd;	/* chunks of the shorter one that reach past its bytes; 0: there is none */
	struct scratch *scratch;
	unsigned suffix_size; /* the customisation string and its length */
	uint8_t suffix[SUFFIX_MAX];
	uint64_t suffix_value[SGPU_KT128_VALUE / 8]; /* chaining value of a whole page's last chunk,
							which is the suffix alone */
};

template <bool ALIGNED>
static __device__ __forceinline__ void whole_chunk(const struct measure_step &work, unsigned page,
						   unsigned index)
{
	const uint8_t *chunk =
		work.memory + ((uint64_t)page * PAGE_CHUNKS + index) * SGPU_KT128_CHUNK;
	uint64_t a[LANES] = {};

	absorb_whole<ALIGNED>(chunk, index == 0, a);
	if (index > 0) {
		put_value(a, work.scratch->values[page][index - 1]);
		return;
	}
#pragma unroll
	for (int i = 0; i < LANES; i++) {
		work.scratch->heads[page][i] = a[i];
	}
	if (work.odd == 0 || page + 1 < work.pages) {
		put_value(work.suffix_value, work.scratch->values[page][PAGE_CHUNKS - 1]);
	}
}

/* Hashes a chunk of the last page that reaches past its bytes; all threads of a warp call it. */
static __device__ __noinline__ void odd_chunk(const struct measure_step &work, unsigned index)
{
	const unsigned page = work.pages - 1, lane = threadIdx.x % WARP;
	const uint64_t begin = (uint64_t)page * SGPU_MEASURE_PAGE;
	const message m = { work.memory + begin, work.size - begin, work.suffix, work.suffix_size };
	struct scratch *scratch = work.scratch;
	uint64_t a = 0;

	if (absorb_by_warp(m, index, a)) {
		if (lane < LANES) {
			scratch->heads[page][lane] = a;
		}
	} else if (lane < VALUE_WORDS) {
		/* If chunk 0 is no head, it is the whole page, and `a` is the page's digest. */
		((uint64_t *)(index == 0 ? scratch->digests[page]
					 : scratch->values[page][index - 1]))[lane] = a;
	}
}

template <bool ALIGNED>
static __global__ void __launch_bounds__(THREADS)
	chunks(const __grid_constant__ struct measure_step work)
{
	uint64_t index = (uint64_t)blockIdx.x * THREADS + threadIdx.x;

	/* Chunks that are not whole have a thread block of their own, with a warp each. */
	if (work.odd > 0) {
		if (blockIdx.x == 0) {
			if (threadIdx.x / WARP < work.odd) {
				odd_chunk(work, (unsigned)(work.size % SGPU_MEASURE_PAGE /
							   SGPU_KT128_CHUNK) +
							threadIdx.x / WARP);
			}
			return;
		}
		index -= THREADS;
	}
	if (index < work.size / SGPU_KT128_CHUNK) {
		whole_chunk<ALIGNED>(work, (unsigned)(index / PAGE_CHUNKS),
				     (unsigned)(index % PAGE_CHUNKS));
	}
}

/* Returns the end of a final node in one word: the count's length encoding, two bytes 0xff, the
 * domain separation byte. */
static __device__ __forceinline__ uint64_t end_word(unsigned count)
{
	uint64_t end = 0xffff | (uint64_t)SGPU_KT128_FINAL << 16;

	return count < 256 ? count | 1 << 8 | end << 16
			   : count >> 8 | (count & 255) << 8 | 2 << 16 | end << 24;
}

/* Makes each page's final node: absorbs the chaining values, then the end word. */
static __global__ void __launch_bounds__(WARP)
	pages(const __grid_constant__ struct measure_step work)
{
	const place p;
	const unsigned page = blockIdx.x;
	const uint64_t *values = (const uint64_t *)work.scratch->values[page];
	int end = -AFTER_HEAD, at = end + (int)p.index, count = PAGE_CHUNKS, size;
	uint64_t a, word;
	bool rate = p.index < RATE_WORDS, last;

	if (work.odd > 0 && page + 1 == work.pages) {
		count = (int)(work.size % SGPU_MEASURE_PAGE / SGPU_KT128_CHUNK + work.odd) - 1;
	}
	if (count == 0) {
		return; /* a page of one chunk already has its digest */
	}
	size = count * VALUE_WORDS;
	a = work.scratch->heads[page][p.index];
	word = rate && at >= 0 ? values[at] : 0;
#pragma unroll 1
	do {
		a ^= word;
		end += RATE_WORDS;
		at += RATE_WORDS;
		last = end > size;
		/* Load the next block while this one is permuted. */
		word = last || !rate ? 0
		       : at < size   ? values[at]
		       : at == size  ? end_word((unsigned)count)
				     : 0;
		a ^= last && p.index == RATE_WORDS - 1 ? (uint64_t)0x80 << 56 : 0;
		permute_by_warp(p, a);
	} while (!last);
	if (threadIdx.x < VALUE_WORDS) {
		((uint64_t *)work.scratch->digests[page])[threadIdx.x] = a;
	}
}

/* ---- the host's side ---- */
static cudaError_t launch(const struct measure_step &work, cudaStream_t stream)
{
	const unsigned count = (unsigned)(work.size / SGPU_KT128_CHUNK),
		       blocks = (count + THREADS - 1) / THREADS + (work.odd > 0 ? 1 : 0);

	if ((uintptr_t)work.memory % 8 == 0) {
		chunks<true><<<blocks, THREADS, 0, stream>>>(work);
	} else {
		chunks<false><<<blocks, THREADS, 0, stream>>>(work);
	}
	pages<<<work.pages, WARP, 0, stream>>>(work);
	return cudaGetLastError();
}

/* Sets the bytes that follow every page, and the chaining value of a chunk of these bytes alone. */
static void set_suffix(struct measure_step *work, const struct sgpu_measure_custom *custom)
{
	struct sgpu_turboshake leaf = {};

	memcpy(work->suffix, custom->bytes, custom->size);
	work->suffix_size = (unsigned)custom->size +
			    sgpu_kt128_length(custom->size, work->suffix + custom->size);
	sgpu_turboshake_absorb(&leaf, work->suffix, work->suffix_size);
	sgpu_turboshake_finish(&leaf, SGPU_KT128_LEAF);
	sgpu_turboshake_squeeze(&leaf, (uint8_t *)work->suffix_value, sizeof(work->suffix_value));
	sgpu_wipe(&leaf, sizeof(leaf));
}

static void set_step(struct measure_step *work, uint64_t left)
{
	const uint64_t most = (uint64_t)STEP_PAGES * SGPU_MEASURE_PAGE,
		       page = left % SGPU_MEASURE_PAGE;

	work->size = left < most ? left : most;
	work->pages = (unsigned)((work->size + SGPU_MEASURE_PAGE - 1) / SGPU_MEASURE_PAGE);
	work->odd = 0;
	if (left < most && page > 0) {
		work->odd = (unsigned)((page + work->suffix_size + SGPU_KT128_CHUNK - 1) /
					       SGPU_KT128_CHUNK -
				       page / SGPU_KT128_CHUNK);
	}
}

size_t sgpu_cuda_measure_scratch(void)
{
	return sizeof(struct scratch);
}

int sgpu_cuda_measure_enqueue(void *native, uint64_t memory, uint64_t size,
			      const struct sgpu_measure_custom *custom, uint64_t scratch,
			      uint8_t *digests)
{
	cudaStream_t stream = (cudaStream_t)native;
	struct measure_step work = {};
	cudaError_t result = cudaSuccess;

	set_suffix(&work, custom);
	work.scratch = (struct scratch *)(uintptr_t)scratch;
	for (uint64_t done = 0; done < size && result == cudaSuccess; done += work.size) {
		work.memory = (const uint8_t *)(uintptr_t)(memory + done);
		set_step(&work, size - done);
		result = launch(work, stream);
		if (result == cudaSuccess) {
			result = cudaMemcpyAsync(digests, work.scratch->digests,
						 (size_t)work.pages * SGPU_KT128_SIZE,
						 cudaMemcpyDeviceToHost, stream);
			digests += (size_t)work.pages * SGPU_KT128_SIZE;
		}
	}
	/* Clear the heads: whoever knows most of a page's first chunk could compute its rest. */
	if (result == cudaSuccess && size > 0) {
		result = cudaMemsetAsync(work.scratch, 0, sizeof(*work.scratch), stream);
	}
	sgpu_wipe(&work, sizeof(work));
	return (int)result;
}
