/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest: as cpu/nearest.c. Candidates are chosen by |b|^2 - 2ab in f32; distances, computed again
 * in f64 with the same order of additions, decide.
 *
 * A candidate is one number of 64 bits: in the upper half its distance in f32, mapped to an integer
 * that sorts as the float does, and in the lower half its index.
 */
#include "ops/cuda/kernels/common.cuh"

enum { A, B, LABELS, OUTPUT, K = 0 };
enum {
	KEEP_MAX = SGPU_NEAREST_K_MAX + SGPU_NEAREST_RESERVE,
	LANES = 8, /* threads that add up one distance */
	GROUPS = SGPU_CUDA_BLOCK / LANES,
	WARPS = SGPU_CUDA_BLOCK / SGPU_CUDA_WARP,
	BATCH = 8, /* products that a lane reads together */
};

struct job {
	uint64_t n, m, d, k;
	struct sgpu_nearest_plan plan;
	const float *a, *b;
	float *norms, *products;	    /* [m], [queries][rows of the tile] */
	unsigned long long *lists;	    /* [queries][keep], ascending; all ones: empty */
	uint64_t query, queries, row, rows; /* the extent of the tile */
};

/* ---- sums in lanes: lane i has elements i, i + 8, ... ---- */
SGPU_KERNEL compute_norms(job j)
{
	unsigned lane = threadIdx.x % LANES;

	for (uint64_t base = (uint64_t)blockIdx.x * GROUPS; base < j.m;
	     base += (uint64_t)gridDim.x * GROUPS) {
		uint64_t row = base + threadIdx.x / LANES;
		double mine = 0;

		for (uint64_t i = lane; row < j.m && i < j.d; i += LANES) {
			double value = (double)j.b[row * j.d + i];

			mine += value * value;
		}
		mine = sgpu_cuda_add_lanes(mine);
		if (row < j.m && lane == 0) {
			j.norms[row] = (float)mine;
		}
	}
}

/* ---- candidates ---- */
/* Sorts by distance, then by index; NaN counts as infinite, and -0 as 0. */
SGPU_DEVICE unsigned long long make_key(float near, uint64_t index)
{
	uint32_t bits = __float_as_uint(near != near ? INFINITY : near == 0.0f ? 0.0f : near);

	bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
	return (unsigned long long)bits << 32 | index;
}

/* Inserts a key into a warp's ascending list, and drops the last key, which is above it. */
static __device__ void insert(unsigned long long *list, unsigned keep, unsigned long long key,
			      unsigned lane)
{
	unsigned place = 0, base;

	for (base = 0; base < keep; base += SGPU_CUDA_WARP) {
		bool below = base + lane < keep && list[base + lane] < key;
		unsigned count = (unsigned)__popc(__ballot_sync(0xffffffffu, below));

		place += count;
		if (count < SGPU_CUDA_WARP) {
			break;
		}
	}
	for (base = (keep - 1) / SGPU_CUDA_WARP * SGPU_CUDA_WARP;; base -= SGPU_CUDA_WARP) {
		unsigned at = base + lane;
		bool moves = at < keep && at > place;
		unsigned long long before = moves ? list[at - 1] : 0;

		__syncwarp();
		if (moves) {
			list[at] = before;
		}
		__syncwarp();
		if (base <= place) {
			break;
		}
	}
	if (lane == 0) {
		list[place] = key;
	}
	__syncwarp();
}

/* Inserts each lane's key if it is small enough. */
SGPU_DEVICE void offer(unsigned long long *list, unsigned keep, unsigned long long key,
		       unsigned lane)
{
	unsigned left = __ballot_sync(0xffffffffu, key < list[keep - 1]);

	while (left) {
		int from = __ffs((int)left) - 1;
		unsigned long long one = __shfl_sync(0xffffffffu, key, from);

		if (one < list[keep - 1]) {
			insert(list, keep, one, lane);
		}
		left &= left - 1;
	}
}

/* A warp takes a query. */
SGPU_KERNEL select_candidates(job j)
{
	__shared__ unsigned long long shared[WARPS][KEEP_MAX];
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP, keep = (unsigned)j.plan.keep;
	unsigned long long *list = shared[threadIdx.x / SGPU_CUDA_WARP];
	uint64_t query = (uint64_t)blockIdx.x * WARPS + threadIdx.x / SGPU_CUDA_WARP;

	for (; query < j.queries; query += (uint64_t)gridDim.x * WARPS) {
		const float *products = j.products + query * j.rows;

		for (unsigned i = lane; i < keep; i += SGPU_CUDA_WARP) {
			list[i] = j.row == 0 ? ~0ull : j.lists[query * keep + i];
		}
		__syncwarp();
		for (uint64_t base = 0; base < j.rows; base += BATCH * SGPU_CUDA_WARP) {
			unsigned long long keys[BATCH], least = ~0ull;

#pragma unroll
			for (int b = 0; b < BATCH; b++) {
				uint64_t i = base + b * SGPU_CUDA_WARP + lane;

				keys[b] = ~0ull;
				if (i < j.rows) {
					keys[b] = make_key(j.norms[j.row + i] - 2.0f * products[i],
							   j.row + i);
				}
				least = keys[b] < least ? keys[b] : least;
			}
			if (!__any_sync(0xffffffffu, least < list[keep - 1])) {
				continue;
			}
#pragma unroll
			for (int b = 0; b < BATCH; b++) {
				offer(list, keep, keys[b], lane);
			}
		}
		__syncwarp();
		for (unsigned i = lane; i < keep; i += SGPU_CUDA_WARP) {
			j.lists[query * keep + i] = list[i];
		}
		__syncwarp();
	}
}

/* ---- the decision: a block for each query ---- */
struct decision {
	double distance[KEEP_MAX];
	uint32_t index[KEEP_MAX], sorted[KEEP_MAX];
	int32_t labels[SGPU_NEAREST_K_MAX];
	unsigned winner; /* votes in the upper bits, then the nearest rank */
};

static __device__ void compute_distances(const job &j, uint64_t query, decision *shared)
{
	const unsigned long long *list = j.lists + (query - j.query) * j.plan.keep;
	unsigned lane = threadIdx.x % LANES;

	for (unsigned base = 0; base < j.plan.keep; base += GROUPS) {
		unsigned i = base + threadIdx.x / LANES;
		uint32_t index = i < j.plan.keep ? (uint32_t)list[i] : 0;
		const float *a = j.a + query * j.d, *b = j.b + (uint64_t)index * j.d;
		double mine = 0;

		for (uint64_t e = lane; i < j.plan.keep && e < j.d; e += LANES) {
			double difference = (double)a[e] - (double)b[e];

			mine += difference * difference;
		}
		mine = sgpu_cuda_add_lanes(mine);
		if (i < j.plan.keep && lane == 0) {
			shared->distance[i] = mine != mine ? (double)INFINITY : mine;
			shared->index[i] = index;
		}
	}
	__syncthreads();
}

/* A candidate's place is the number of candidates before it. */
static __device__ void sort_candidates(const job &j, decision *shared)
{
	for (unsigned i = threadIdx.x; i < j.plan.keep; i += SGPU_CUDA_BLOCK) {
		double distance = shared->distance[i];
		uint32_t index = shared->index[i];
		unsigned place = 0;

		for (unsigned other = 0; other < j.plan.keep; other++) {
			place += shared->distance[other] < distance ||
				 (shared->distance[other] == distance &&
				  shared->index[other] < index);
		}
		shared->sorted[place] = index;
	}
	__syncthreads();
}

/* The most frequent label; among equally frequent ones, that of the nearest row. */
template <typename T>
static __device__ int32_t vote(const job &j, const T *labels, decision *shared)
{
	unsigned k = (unsigned)j.k;

	if (threadIdx.x == 0) {
		shared->winner = 0;
	}
	for (unsigned i = threadIdx.x; i < k; i += SGPU_CUDA_BLOCK) {
		shared->labels[i] = labels[shared->sorted[i]];
	}
	__syncthreads();
	for (unsigned i = threadIdx.x; i < k; i += SGPU_CUDA_BLOCK) {
		unsigned votes = 0;

		for (unsigned other = 0; other < k; other++) {
			votes += shared->labels[other] == shared->labels[i];
		}
		atomicMax(&shared->winner, votes << 16 | (0xffffu - i));
	}
	__syncthreads();
	return shared->labels[0xffffu - (shared->winner & 0xffffu)];
}

/* T: the type of the labels, which may be NULL. */
template <typename T> SGPU_KERNEL decide(job j, const T *labels, int32_t *output)
{
	__shared__ decision shared;

	for (uint64_t i = blockIdx.x; i < j.queries; i += gridDim.x) {
		uint64_t query = j.query + i;

		compute_distances(j, query, &shared);
		sort_candidates(j, &shared);
		if (labels) {
			int32_t label = vote(j, labels, &shared);

			if (threadIdx.x == 0) {
				output[query] = label;
			}
		} else {
			for (unsigned place = threadIdx.x; place < j.k; place += SGPU_CUDA_BLOCK) {
				output[query * j.k + place] = (int32_t)shared.sorted[place];
			}
		}
		__syncthreads();
	}
}

/* Finds the candidates for one block of queries among all rows. */
static int find_candidates(struct sgpu_launch *launch, job *j)
{
	struct sgpu_gemm gemm = {};
	int rc = 0;

	gemm.dtype = SGPU_F32;
	gemm.a = j->a + j->query * j->d;
	gemm.output = j->products;
	gemm.m = j->queries;
	gemm.k = j->d;
	gemm.transpose_b = true;
	gemm.lda = gemm.ldb = j->d;
	gemm.alpha = gemm.batch = 1;
	for (j->row = 0; !rc && j->row < j->m; j->row += j->plan.rows) {
		j->rows = sgpu_ops_min(j->m - j->row, j->plan.rows);
		gemm.b = j->b + j->row * j->d;
		gemm.n = gemm.ldc = j->rows;
		rc = sgpu_cuda_gemm_built_in(launch, &gemm);
		rc = rc ? rc
			: sgpu_cuda_run(launch, select_candidates,
					sgpu_cuda_grid(j->queries, WARPS), *j);
	}
	return rc;
}

static int start_decision(struct sgpu_launch *launch, const struct sgpu_op_call *call, const job *j)
{
	unsigned grid = sgpu_cuda_grid(j->queries, 1);
	void *labels = call->data[LABELS], *output = call->data[OUTPUT];

	return call->type[LABELS].dtype == SGPU_U8
		       ? sgpu_cuda_run(launch, decide<uint8_t>, grid, *j, labels, output)
		       : sgpu_cuda_run(launch, decide<int32_t>, grid, *j, labels, output);
}

extern "C" int sgpu_nearest_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	job j = {};
	int rc;

	j.plan = sgpu_nearest_plan(call);
	j.n = call->type[A].shape[0];
	j.m = call->type[B].shape[0];
	j.d = call->type[A].shape[1];
	j.k = (uint64_t)call->param[K].number;
	j.a = (const float *)call->data[A];
	j.b = (const float *)call->data[B];
	j.lists = (unsigned long long *)call->scratch;
	j.norms = (float *)(j.lists + j.plan.queries * j.plan.keep);
	j.products = j.norms + j.m;
	rc = sgpu_cuda_run(launch, compute_norms, sgpu_cuda_grid(j.m, GROUPS), j);
	for (j.query = 0; !rc && j.query < j.n; j.query += j.plan.queries) {
		j.queries = sgpu_ops_min(j.n - j.query, j.plan.queries);
		rc = find_candidates(launch, &j);
		rc = rc ? rc : start_decision(launch, call, &j);
	}
	return rc;
}
