/* SPDX-License-Identifier: Apache-2.0
 *
 * nearest: as cpu/nearest.c.
 */
#include "ops/cuda/kernels/common.cuh"

enum {
	KEEP_MAX = SGPU_NEAREST_K_MAX + SGPU_NEAREST_RESERVE,
	WARPS = SGPU_CUDA_BLOCK / SGPU_CUDA_WARP,
	BATCH = 8, /* products that a lane reads together */
};

SGPU_KERNEL compute_norms(struct sgpu_nearest j)
{
	for (uint64_t row = sgpu_cuda_self(); row < j.m; row += sgpu_cuda_step()) {
		j.norms[row] = (float)sgpu_nearest_square(j.b + row * j.d, NULL, j.d);
	}
}

/* ---- candidates ---- */
/* Inserts a key into a warp's ascending list, and drops the last key, which is above it. */
static __device__ void insert(uint64_t *list, unsigned keep, uint64_t key, unsigned lane)
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
		uint64_t before = moves ? list[at - 1] : 0;

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
SGPU_DEVICE void offer(uint64_t *list, unsigned keep, uint64_t key, unsigned lane)
{
	unsigned left = __ballot_sync(0xffffffffu, key < list[keep - 1]);

	while (left) {
		int from = __ffs((int)left) - 1;
		uint64_t one = __shfl_sync(0xffffffffu, key, from);

		if (one < list[keep - 1]) {
			insert(list, keep, one, lane);
		}
		left &= left - 1;
	}
}

/* A warp takes a query. */
SGPU_KERNEL select_candidates(struct sgpu_nearest j)
{
	__shared__ uint64_t shared[WARPS][KEEP_MAX];
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP, keep = (unsigned)j.keep;
	uint64_t *list = shared[threadIdx.x / SGPU_CUDA_WARP];
	uint64_t query = (uint64_t)blockIdx.x * WARPS + threadIdx.x / SGPU_CUDA_WARP;

	for (; query < j.queries; query += (uint64_t)gridDim.x * WARPS) {
		const float *products = j.products + query * j.rows;

		for (unsigned i = lane; i < keep; i += SGPU_CUDA_WARP) {
			list[i] = j.row == 0 ? UINT64_MAX : j.lists[query * keep + i];
		}
		__syncwarp();
		for (uint64_t base = 0; base < j.rows; base += BATCH * SGPU_CUDA_WARP) {
			uint64_t keys[BATCH], least = UINT64_MAX;

#pragma unroll
			for (int b = 0; b < BATCH; b++) {
				uint64_t i = base + b * SGPU_CUDA_WARP + lane;

				keys[b] = i < j.rows ? sgpu_nearest_key(&j, i, products[i])
						     : UINT64_MAX;
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

static __device__ void compute_distances(const struct sgpu_nearest &j, uint64_t i, decision *shared)
{
	for (unsigned c = threadIdx.x; c < j.keep; c += SGPU_CUDA_BLOCK) {
		shared->index[c] = (uint32_t)j.lists[i * j.keep + c];
		shared->distance[c] = sgpu_nearest_distance(&j, j.query + i, shared->index[c]);
	}
	__syncthreads();
}

/* A candidate's place is the number of candidates before it. */
static __device__ void sort_candidates(const struct sgpu_nearest &j, decision *shared)
{
	for (unsigned i = threadIdx.x; i < j.keep; i += SGPU_CUDA_BLOCK) {
		double distance = shared->distance[i];
		uint32_t index = shared->index[i];
		unsigned place = 0;

		for (unsigned other = 0; other < j.keep; other++) {
			place += shared->distance[other] < distance ||
				 (shared->distance[other] == distance &&
				  shared->index[other] < index);
		}
		shared->sorted[place] = index;
	}
	__syncthreads();
}

/* The most frequent label; among equally frequent ones, the nearest row's. */
static __device__ int32_t vote(const struct sgpu_nearest &j, decision *shared)
{
	unsigned k = (unsigned)j.k;

	if (threadIdx.x == 0) {
		shared->winner = 0;
	}
	for (unsigned i = threadIdx.x; i < k; i += SGPU_CUDA_BLOCK) {
		shared->labels[i] = sgpu_ops_label(j.labels, j.label_dtype, shared->sorted[i]);
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

SGPU_KERNEL decide(struct sgpu_nearest j)
{
	__shared__ decision shared;

	for (uint64_t i = blockIdx.x; i < j.queries; i += gridDim.x) {
		uint64_t query = j.query + i;

		compute_distances(j, i, &shared);
		sort_candidates(j, &shared);
		if (j.labels) {
			int32_t label = vote(j, &shared);

			if (threadIdx.x == 0) {
				j.output[query] = label;
			}
		} else {
			for (unsigned place = threadIdx.x; place < j.k; place += SGPU_CUDA_BLOCK) {
				j.output[query * j.k + place] = (int32_t)shared.sorted[place];
			}
		}
		__syncthreads();
	}
}

extern "C" int sgpu_nearest_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_nearest j = sgpu_nearest_describe(call);
	int rc = sgpu_cuda_run(launch, compute_norms, sgpu_cuda_grid(j.m, SGPU_CUDA_BLOCK), j);

	for (uint64_t query = 0; !rc && query < j.n; query += j.tile_queries) {
		for (uint64_t row = 0; !rc && row < j.m; row += j.tile_rows) {
			const struct sgpu_gemm gemm = sgpu_nearest_tile(&j, query, row);

			rc = sgpu_cuda_gemm_built_in(launch, &gemm);
			rc = rc ? rc
				: sgpu_cuda_run(launch, select_candidates,
						sgpu_cuda_grid(j.queries, WARPS), j);
		}
		rc = rc ? rc : sgpu_cuda_run(launch, decide, sgpu_cuda_grid(j.queries, 1), j);
	}
	return rc;
}
