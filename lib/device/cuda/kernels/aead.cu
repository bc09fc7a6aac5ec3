/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens and seals runs of chunks by AES-256-GCM, in one pass.
 *
 * A warp takes a chunk, by rows of 32 blocks of 16 bytes, one a lane. A lane's part of GHASH is a
 * Horner scheme in H^32 over every 32nd block, with tables in shared memory (ghash.cuh). At the end
 * each lane multiplies its sum by the power of H for its position, and the warp adds the products.
 *
 * If chunks are too few to keep all multiprocessors busy, several warps of a thread block share the
 * rows of each. Runs of a few chunks go to aead_small.cu.
 */
#include <cuda_runtime.h>

#include <device/cuda/kernels/aead_chunk.cuh>
#include <device/cuda/kernels/blocks.cuh>
#include <device/cuda/kernels/ghash.cuh>

using namespace sgpu_aead;
using namespace sgpu_blocks;
using namespace sgpu_ghash;

enum { THREADS = 1024, WARPS = THREADS / 32 };

/* Shared memory after the tables of AES and of GHASH. */
struct rest {
	uint4 round_keys[sgpu_aes::ROUNDS + 1];
	uint32_t sum[WARPS][4]; /* GHASH of split chunks */
	uint32_t done[4];	/* done[0] counts chunks that are done */
};

enum { SHARED_BYTES = sgpu_aes::TABLE_BYTES + HASH_BYTES + sizeof(rest) };

struct large_job : job {
	uint64_t whole; /* chunks done one a warp; the others are split over `split` warps each */
	unsigned split;
};

struct worker {
	sgpu_aes::cipher cipher;
	hash ghash;
	uint32_t lane;
};

/* Deciphers or enciphers a block, and returns the ciphertext. */
template <bool OPEN, bool ALIGNED>
static __device__ __forceinline__ uint4 do_block(const worker &w, const sgpu_aes::start &s,
						 const chunk &c, int index, uint4 data)
{
	uint4 other = data ^ sgpu_aes::counter_block(w.cipher, s, (uint32_t)index + 2);
	int left = c.size - 16 * index;

	if (left >= 16) {
		store_block<ALIGNED>(c.out + 16 * index, other);
	} else {
		other = keep_part(other, left);
		store_part(c.out + 16 * index, other, left);
	}
	return OPEN ? data : other;
}

template <bool ALIGNED>
static __device__ __forceinline__ uint4 fetch(const chunk &c, int index, int blocks)
{
	if (index < 0 || index >= blocks) {
		return make_uint4(0, 0, 0, 0);
	}
	return c.size - 16 * index >= 16 ? load_block<ALIGNED>(c.in + 16 * index)
					 : load_part(c.in + 16 * index, c.size - 16 * index);
}

/* Does a warp's part of a chunk's rows, and returns its share of GHASH, without the length block.
 * Rows are aligned to the chunk's end; blocks of the first row before the chunk are zero. */
template <bool OPEN, bool ALIGNED>
static __device__ __forceinline__ uint4 do_rows(const worker &w, const job &j, const chunk &c,
						unsigned part, unsigned split)
{
	int blocks = (c.size + 15) / 16, rows = (blocks + ROW - 1) / ROW;
	int row = (int)(part * rows / split), end = (int)((part + 1) * rows / split);
	int index = row * ROW + (int)w.lane - (rows * ROW - blocks);
	uint4 sum = make_uint4(0, 0, 0, 0), next;

	if (row == end) {
		return sum;
	}
	sgpu_aes::start s = sgpu_aes::begin_chunk(w.cipher, c.n0, c.n1, c.n2);
	next = fetch<ALIGNED>(c, index, blocks);
	for (; row < end; row++, index += ROW) {
		uint4 data = next;

		next = fetch<ALIGNED>(c, index + ROW, row + 1 < end ? blocks : 0);
		if (index >= 0) {
			data = do_block<OPEN, ALIGNED>(w, s, c, index, data);
		}
		sum = horner(w.ghash, sum, data);
	}
	return sum_of_warp(sgpu_gf_product(
		sum, __ldg(&j.state->power[ROW * (rows - end) + ROW + 1 - (int)w.lane])));
}

/* Compares or writes the tag. One lane calls it. */
template <bool OPEN, bool ALIGNED>
static __device__ __forceinline__ void end_chunk(const job &j, rest *r, const chunk &c,
						 uint64_t index, uint4 tag)
{
	if (OPEN) {
		if (!is_tag(j, index, tag, load_block<false>(c.in + c.size))) {
			return;
		}
	} else {
		store_block<false>(c.out + c.size, tag);
	}
	atomicAdd(&r->done[0], 1);
}

/* Does unsplit chunks, one a warp. A warp's next 32 tag masks are made together, one a lane. */
template <bool OPEN, bool ALIGNED>
static __device__ __forceinline__ void do_whole(const worker &w, const large_job &j, rest *r)
{
	uint64_t warps = (uint64_t)gridDim.x * WARPS,
		 index = (threadIdx.x / 32) * (uint64_t)gridDim.x + blockIdx.x;
	uint4 masks = make_uint4(0, 0, 0, 0);

	for (int turn = 0; index < j.whole; index += warps, turn = turn + 1 & 31) {
		if (turn == 0) {
			masks = mask(w.cipher, find_chunk<OPEN>(j, index + w.lane * warps));
		}
		chunk c = find_chunk<OPEN>(j, index);
		uint4 sum = do_rows<OPEN, ALIGNED>(w, j, c, 0, 1);

		if (w.lane == turn) {
			end_chunk<OPEN, ALIGNED>(j, r, c, index, sum ^ length_part(j, c) ^ masks);
		}
	}
}

/* Does the other chunks. All threads of a block make the same passes, to synchronise. */
template <bool OPEN, bool ALIGNED>
static __device__ __forceinline__ void do_split(const worker &w, const large_job &j, rest *r)
{
	unsigned warp = threadIdx.x / 32, part = warp % j.split, slot = warp / j.split,
		 together = WARPS / j.split;
	uint64_t step = (uint64_t)gridDim.x * together;

	for (uint64_t base = j.whole; base < j.count; base += step) {
		uint64_t index = base + slot * (uint64_t)gridDim.x + blockIdx.x;
		chunk c = find_chunk<OPEN>(j, index);
		uint4 sum = make_uint4(0, 0, 0, 0);

		if (threadIdx.x < WARPS * 4) {
			((uint32_t *)r->sum)[threadIdx.x] = 0;
		}
		__syncthreads();
		if (index < j.count) {
			sum = do_rows<OPEN, ALIGNED>(w, j, c, part, j.split);
			/* With several warps, one adds the length block and another the mask. */
			if (part == 0) {
				sum = sum ^ length_part(j, c);
			}
			if (part == j.split - 1) {
				sum = sum ^ mask(w.cipher, c);
			}
		}
		if (w.lane == 0) {
			add_to(r->sum[slot], sum);
		}
		__syncthreads();
		if (index < j.count && part == 0 && w.lane == 0) {
			end_chunk<OPEN, ALIGNED>(j, r, c, index, *(uint4 *)r->sum[slot]);
		}
		__syncthreads();
	}
}

template <bool OPEN, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS, 1) run_chunks(const large_job j)
{
	extern __shared__ __align__(1024) unsigned char shared[];
	unsigned char *table = shared + sgpu_aes::TABLE_BYTES;
	rest *r = (rest *)(table + HASH_BYTES);
	worker w;

	uint32_t usable = __ldg(&j.state->nonce).w;

	if (OPEN && blockIdx.x == 0 && threadIdx.x == 0 && j.bad_end != UINT64_MAX) {
		report_bad(j, j.bad_end);
	}
	if (threadIdx.x == 0) {
		r->done[0] = 0;
	}
	sgpu_aes::fill_tables<THREADS>(shared);
	if (usable != USABLE) {
		if (blockIdx.x == 0 && threadIdx.x == 0) {
			*(volatile uint64_t *)&j.verdict->refused = 1;
		}
		return;
	}
	if (threadIdx.x <= sgpu_aes::ROUNDS) {
		r->round_keys[threadIdx.x] = __ldg(&j.state->round_keys[threadIdx.x]);
	}
	make_table<THREADS>((uint4 *)table, __ldg(&j.state->power[ROW]));
	w.lane = threadIdx.x % 32;
	w.cipher.tables = shared;
	w.cipher.keys = r->round_keys;
	w.cipher.lane = w.lane * 4;
	w.ghash = make_hash(table, w.lane);
	do_whole<OPEN, ALIGNED>(w, j, r);
	do_split<OPEN, ALIGNED>(w, j, r);
	/* Wipe shared memory: the next kernel on this multiprocessor may be another user's. */
	__syncthreads();
	if (threadIdx.x == 0) {
		/* Data for the host or another GPU must arrive before the word about them. */
		__threadfence_system();
		report_done(j, r->done[0], gridDim.x);
	}
	__syncthreads();
	for (int i = threadIdx.x; i < (int)(HASH_BYTES + sizeof(rest)) / 16; i += THREADS) {
		wipe_block(table + 16 * i);
	}
}

/* ---- host ---- */
typedef void (*kernel_fn)(const large_job);

static kernel_fn choose(bool open, bool aligned)
{
	static const kernel_fn kernels[2][2] = {
		{ run_chunks<false, false>, run_chunks<false, true> },
		{ run_chunks<true, false>, run_chunks<true, true> },
	};

	return kernels[open][aligned];
}

extern "C" int sgpu_cuda_aead_prepare(void)
{
	int rc = cudaSuccess;

	for (int i = 0; i < 4 && rc == cudaSuccess; i++) {
		rc = cudaFuncSetAttribute((const void *)choose(i / 2, i % 2),
					  cudaFuncAttributeMaxDynamicSharedMemorySize,
					  SHARED_BYTES);
	}
	return rc == cudaSuccess ? sgpu_aead_small_prepare() : rc;
}

/* Cycles for which a row and a final product keep an H200's multiprocessor busy. */
enum { ROW_WORK = 265, END_WORK = 225 };

/* Returns the cycles of a multiprocessor's pass over `together` chunks of `split` warps each. The
 * second term, fitted to measurements, is for the stalls of few warps. */
static uint64_t pass_time(uint64_t together, unsigned split)
{
	uint64_t warps = together * split, work = together * (ROWS * ROW_WORK + split * END_WORK);

	return work + work * 8 / warps;
}

/* Chunks that give each warp the same number stay unsplit; the others are split to end soonest. */
static void share_out(large_job *j, int multiprocessors, unsigned *blocks)
{
	uint64_t all = (uint64_t)multiprocessors, left = j->count % (all * WARPS),
		 best = UINT64_MAX;

	j->whole = j->count - left;
	j->split = 1;
	*blocks = (unsigned)multiprocessors;
	for (unsigned split = 1; left > 0 && split <= WARPS; split *= 2) {
		uint64_t most = WARPS / split, each = (left + all - 1) / all,
			 passes = (each + most - 1) / most;
		uint64_t cost = passes * pass_time(each < most ? each : most, split);

		if (cost < best) {
			best = cost;
			j->split = split;
		}
	}
	if (j->whole == 0 && left < all) {
		*blocks = left > 0 ? (unsigned)left : 1;
	}
}

static job make_job(const struct sgpu_cuda_run *run, bool open)
{
	const uint64_t unit = open ? SEALED : CHUNK, full = run->size / unit,
		       end = run->size % unit;
	const bool has_end = run->last && (!open || end >= TAG);
	job j = {};

	j.state = (const key_state *)run->state;
	j.in = (const unsigned char *)run->in;
	j.out = (unsigned char *)run->out;
	j.first = run->first;
	j.count = full + has_end;
	j.end_size = !has_end ? CHUNK : open ? end - TAG : end;
	j.bad_end = open && !has_end && (run->last || end > 0) ? run->first + full : UINT64_MAX;
	j.verdict = (sgpu_cuda_verdict *)run->verdict;
	j.counter = (unsigned long long *)run->counter;
	return j;
}

extern "C" int sgpu_cuda_run_chunks(void *stream, int multiprocessors, bool open,
				    struct sgpu_cuda_run *runs, int count,
				    enum sgpu_cuda_kernel kernel)
{
	job jobs[SGPU_CUDA_RUNS];
	bool short_runs = true, aligned;
	unsigned some = 0, blocks;
	large_job large = {};

	for (int i = 0; i < count; i++) {
		const job j = make_job(&runs[i], open);

		runs[i].expected = j.count + (j.bad_end != UINT64_MAX);
		if (runs[i].expected > 0) {
			short_runs = short_runs && j.count <= SGPU_CUDA_SMALL_CHUNKS;
			jobs[some++] = j;
		}
	}
	if (some == 0) {
		return cudaSuccess;
	}
	if (count > 1 || kernel == SGPU_CUDA_SMALL ||
	    (kernel == SGPU_CUDA_FASTEST && sgpu_aead_is_small(&jobs[0], multiprocessors))) {
		if (!short_runs) {
			return cudaErrorInvalidValue;
		}
		sgpu_aead_small(jobs, some, open, stream);
		return cudaGetLastError();
	}
	(job &)large = jobs[0];
	share_out(&large, multiprocessors, &blocks);
	aligned = (((uintptr_t)large.in | (uintptr_t)large.out) & 15) == 0;
	choose(open, aligned)<<<blocks, THREADS, SHARED_BYTES, (cudaStream_t)stream>>>(large);
	return cudaGetLastError();
}
