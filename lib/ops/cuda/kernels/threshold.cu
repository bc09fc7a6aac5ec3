/* SPDX-License-Identifier: Apache-2.0
 *
 * threshold: as cpu/threshold.c. Indexes are written in one pass over the input: each tile counts
 * its elements in the range, publishes the count, and looks back at earlier tiles until it meets
 * one with a known total up to its end (D. Merrill and M. Garland, Single-pass Parallel Prefix Scan
 * with Decoupled Look-back, 2016). Tiles are numbered in the order in which blocks start, so
 * earlier ones always end.
 */
#include <math.h>

#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };
enum { LOW, HIGH, MODE };
enum { MASK, INDICES };
enum {
	ROUNDS = 16,
	WARPS = SGPU_CUDA_BLOCK / SGPU_CUDA_WARP,
	TILE = SGPU_CUDA_BLOCK * ROUNDS, /* cpu/threshold.c reserves a word for each */
};

/* What a tile has published, in the upper half of its word: nothing, its own count of elements in
 * the range, or the count up to its end. The lower half is the count. */
enum { NOTHING, OWN, UP_TO_HERE };

template <typename T> struct band {
	double low, high;

	__device__ uint8_t operator()(T value) const
	{
		double x = sgpu_cuda_f64(value);

		return x >= low && x <= high;
	}
};

SGPU_DEVICE void publish(unsigned long long *tile, unsigned state, unsigned value)
{
	atomicExch(tile, (unsigned long long)state << 32 | value);
}

/* The number of elements in the range in all tiles before `tile`. A whole warp reads 32 tiles at a
 * time. */
static __device__ unsigned look_back(unsigned long long *tiles, unsigned tile)
{
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP, sum = 0;

	for (int64_t last = (int64_t)tile - 1; last >= 0; last -= SGPU_CUDA_WARP) {
		int64_t at = last - lane;
		unsigned long long word = (unsigned long long)UP_TO_HERE
					  << 32; /* before the first tile: 0 */
		unsigned known, nearest;

		while (at >= 0 &&
		       (word = *(volatile unsigned long long *)(tiles + at)) >> 32 == NOTHING) {
			__nanosleep(20);
		}
		__syncwarp();
		known = __ballot_sync(0xffffffffu, word >> 32 == UP_TO_HERE);
		nearest = known ? (unsigned)__ffs((int)known) - 1 : SGPU_CUDA_WARP - 1;
		sum += __reduce_add_sync(0xffffffffu, lane <= nearest ? (unsigned)word : 0);
		if (known) {
			break;
		}
	}
	return sum;
}

template <typename T>
SGPU_KERNEL list(const T *in, uint64_t count, struct band<T> inside, unsigned long long *tiles,
		 unsigned *ticket, int32_t *out, int64_t *total)
{
	__shared__ unsigned shared_tile, warp_count[WARPS], before;
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP, warp = threadIdx.x / SGPU_CUDA_WARP, tile,
		 place, found = 0;
	unsigned flags[ROUNDS];
	uint64_t first;

	if (threadIdx.x == 0) {
		shared_tile = atomicAdd(ticket, 1);
	}
	__syncthreads();
	tile = shared_tile;
	first = (uint64_t)tile * TILE + warp * (SGPU_CUDA_WARP * ROUNDS) + lane;
#pragma unroll
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t at = first + round * SGPU_CUDA_WARP;

		flags[round] = __ballot_sync(0xffffffffu, at < count && inside(in[at]));
		found += (unsigned)__popc(flags[round]);
	}
	if (lane == 0) {
		warp_count[warp] = found;
	}
	__syncthreads();
	if (warp == 0) {
		unsigned own = __reduce_add_sync(0xffffffffu, lane < WARPS ? warp_count[lane] : 0),
			 sum;

		if (lane == 0 && tile > 0) {
			publish(tiles + tile, OWN, own);
		}
		sum = look_back(tiles, tile);
		if (lane == 0) {
			publish(tiles + tile, UP_TO_HERE, sum + own);
			before = sum;
			if (tile == gridDim.x - 1) {
				*total = (int64_t)(sum + own);
			}
		}
	}
	__syncthreads();
	place = before;
	for (unsigned i = 0; i < warp; i++) {
		place += warp_count[i];
	}
#pragma unroll
	for (int round = 0; round < ROUNDS; round++) {
		if (flags[round] >> lane & 1) {
			out[place + (unsigned)__popc(flags[round] & ((1u << lane) - 1))] =
				(int32_t)(first + round * SGPU_CUDA_WARP);
		}
		place += (unsigned)__popc(flags[round]);
	}
}

template <typename T> static int start(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[INPUT]), tiles = sgpu_ops_ceil(count, TILE);
	const T *in = (const T *)call->data[INPUT];
	struct band<T> inside = {
		call->param[LOW].given ? call->param[LOW].number : -(double)INFINITY,
			call->param[HIGH].given ? call->param[HIGH].number : (double)INFINITY
	};
	int rc;

	if (call->param[MODE].number != INDICES) {
		return sgpu_cuda_map<16 / sizeof(T)>(launch, count, inside,
						     (uint8_t *)call->data[OUTPUT], in);
	}
	rc = sgpu_cuda_runtime_check(launch, cudaMemsetAsync(call->scratch, 0,
							     tiles * sizeof(unsigned long long),
							     sgpu_cuda_stream(launch)));
	return rc ? rc
		  : sgpu_cuda_run(launch, list<T>, (unsigned)tiles, in, count, inside,
				  call->scratch, launch->counters, call->data[OUTPUT],
				  launch->status + 1);
}

extern "C" int sgpu_threshold_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return SGPU_CUDA_TYPES(call->type[INPUT].dtype, T, start<T>(call, launch));
}
