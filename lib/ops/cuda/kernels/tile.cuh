/* SPDX-License-Identifier: Apache-2.0
 *
 * A tile of a matrix product, computed by one block: sums over k of a(row, k) b(k, column), whose
 * addresses the caller's structs a and b give. One thread makes a sum, in the order of k, so that
 * the sum depends neither on the tile's shape nor on the grid.
 *
 * Steps of DEPTH values of k pass through STAGES buffers in shared memory: while one is read, the
 * others are filled. A thread computes DOWN x ACROSS elements.
 */
#ifndef SGPU_OPS_CUDA_KERNELS_TILE_CUH
#define SGPU_OPS_CUDA_KERNELS_TILE_CUH

#include <cuda_pipeline_primitives.h>

#include "ops/cuda/kernels/common.cuh"

template <typename T_, int ROWS_, int COLUMNS_, int DEPTH_, int DOWN_, int ACROSS_>
struct sgpu_tile {
	using T = T_;
	static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_, DOWN = DOWN_,
			     ACROSS = ACROSS_;
	static constexpr int THREADS = (ROWS / DOWN) * (COLUMNS / ACROSS), STAGES = 4;
	/* Blocks on a multiprocessor; this bounds a thread's registers. */
	static constexpr int RESIDENT = DOWN * ACROSS * sizeof(T) >= 128 ? 2 : 3;
	/* Keeps vectors aligned, and puts neighbouring rows into different banks. */
	static constexpr int PAD = 16 / (int)sizeof(T);
	/* A thread has groups of up to 4 adjacent elements, so warps read shared memory densely. */
	static constexpr int DOWN_GROUP = DOWN < 4 ? DOWN : 4,
			     ACROSS_GROUP = ACROSS < 4 ? ACROSS : 4;

	struct alignas(16) buffers {
		T a[STAGES][DEPTH][ROWS + PAD];
		T b[STAGES][DEPTH][COLUMNS + PAD];
	};
	using sums = T[DOWN][ACROSS];

	static_assert(ROWS * DEPTH % THREADS == 0 && COLUMNS * DEPTH % THREADS == 0,
		      "every thread reads as much");

	/* The tile's row, or column, of element i of a thread's DOWN rows, or ACROSS columns. */
	SGPU_DEVICE int row(int i)
	{
		int self = (int)threadIdx.x / (COLUMNS / ACROSS);

		return i / DOWN_GROUP * (ROWS / DOWN * DOWN_GROUP) + self * DOWN_GROUP +
		       i % DOWN_GROUP;
	}
	SGPU_DEVICE int column(int j)
	{
		int self = (int)threadIdx.x % (COLUMNS / ACROSS);

		return j / ACROSS_GROUP * (COLUMNS / ACROSS * ACROSS_GROUP) + self * ACROSS_GROUP +
		       j % ACROSS_GROUP;
	}
};

/* Starts to copy this thread's share of EXTENT x DEPTH values of a source, from k on. If
 * SOURCE::along_k, values with neighbouring k are adjacent, and neighbouring threads copy them.
 * WHOLE: no value is outside. */
template <typename TILE, int EXTENT, bool WHOLE, typename SOURCE>
SGPU_DEVICE void sgpu_tile_copy(const SOURCE &source, uint64_t k,
				typename TILE::T (&to)[TILE::DEPTH][EXTENT + TILE::PAD])
{
#pragma unroll
	for (int i = 0; i < EXTENT * TILE::DEPTH / TILE::THREADS; i++) {
		int e = (int)threadIdx.x + i * TILE::THREADS;
		int line = SOURCE::along_k ? e / TILE::DEPTH : e % EXTENT;
		int step = SOURCE::along_k ? e % TILE::DEPTH : e / EXTENT;
		const typename TILE::T *from = source.template where<WHOLE>(line, k + step);

		if (WHOLE || from) {
			__pipeline_memcpy_async(&to[step][line], from, sizeof(*from));
		} else {
			to[step][line] = 0;
		}
	}
}

/* Starts one step's copies as one group. A step beyond the last copies nothing. */
template <typename TILE, typename A, typename B>
SGPU_DEVICE void sgpu_tile_begin(const A &a, const B &b, uint64_t k, uint64_t depth,
				 typename TILE::buffers &shared, int stage)
{
	bool whole = k < depth && depth - k >= TILE::DEPTH;

	if (whole && a.inside(TILE::ROWS)) {
		sgpu_tile_copy<TILE, TILE::ROWS, true>(a, k, shared.a[stage]);
	} else if (k < depth) {
		sgpu_tile_copy<TILE, TILE::ROWS, false>(a, k, shared.a[stage]);
	}
	if (whole && b.inside(TILE::COLUMNS)) {
		sgpu_tile_copy<TILE, TILE::COLUMNS, true>(b, k, shared.b[stage]);
	} else if (k < depth) {
		sgpu_tile_copy<TILE, TILE::COLUMNS, false>(b, k, shared.b[stage]);
	}
	__pipeline_commit();
}

/* Adds the products for one k, each by T STEP::add(T sum, T a, T b). */
template <typename TILE, typename STEP>
SGPU_DEVICE void sgpu_tile_step(const typename TILE::T (&a)[TILE::ROWS + TILE::PAD],
				const typename TILE::T (&b)[TILE::COLUMNS + TILE::PAD],
				typename TILE::sums &sums)
{
	using down = sgpu_pack<typename TILE::T, TILE::DOWN_GROUP>;
	using across = sgpu_pack<typename TILE::T, TILE::ACROSS_GROUP>;
	down x[TILE::DOWN / TILE::DOWN_GROUP];
	across y[TILE::ACROSS / TILE::ACROSS_GROUP];

#pragma unroll
	for (int i = 0; i < TILE::DOWN / TILE::DOWN_GROUP; i++) {
		x[i] = *reinterpret_cast<const down *>(&a[TILE::row(i * TILE::DOWN_GROUP)]);
	}
#pragma unroll
	for (int j = 0; j < TILE::ACROSS / TILE::ACROSS_GROUP; j++) {
		y[j] = *reinterpret_cast<const across *>(&b[TILE::column(j * TILE::ACROSS_GROUP)]);
	}
#pragma unroll
	for (int i = 0; i < TILE::DOWN; i++) {
#pragma unroll
		for (int j = 0; j < TILE::ACROSS; j++) {
			sums[i][j] = STEP::add(
				sums[i][j], x[i / TILE::DOWN_GROUP].at[i % TILE::DOWN_GROUP],
				y[j / TILE::ACROSS_GROUP].at[j % TILE::ACROSS_GROUP]);
		}
	}
}

/* Adds the products of all k below `depth`; all threads of the block must take part. A source has
 * inside(EXTENT), whether all the tile's rows or columns exist, and where<WHOLE>(the tile's row or
 * column, k), an element's address, or NULL for 0, but never if WHOLE. */
template <typename TILE, typename STEP, typename A, typename B>
SGPU_DEVICE void sgpu_tile_product(const A &a, const B &b, uint64_t depth,
				   typename TILE::buffers &shared, typename TILE::sums &sums)
{
	int now = 0, next = TILE::STAGES - 1;

	__syncthreads(); /* threads may still read the previous tile's buffers */
	for (int stage = 0; stage < TILE::STAGES - 1; stage++) {
		sgpu_tile_begin<TILE>(a, b, (uint64_t)stage * TILE::DEPTH, depth, shared, stage);
	}
	for (uint64_t k = 0; k < depth; k += TILE::DEPTH) {
		__pipeline_wait_prior(TILE::STAGES - 2);
		__syncthreads(); /* this step's data have arrived; the last step's are used up */
		sgpu_tile_begin<TILE>(a, b, k + (TILE::STAGES - 1) * TILE::DEPTH, depth, shared,
				      next);
		if (depth - k >= TILE::DEPTH) {
#pragma unroll
			for (int p = 0; p < TILE::DEPTH; p++) {
				sgpu_tile_step<TILE, STEP>(shared.a[now][p], shared.b[now][p],
							   sums);
			}
		} else {
			/* leave out k >= depth: adding 0 would turn -0 into 0 */
			for (int p = 0; p < (int)(depth - k); p++) {
				sgpu_tile_step<TILE, STEP>(shared.a[now][p], shared.b[now][p],
							   sums);
			}
		}
		next = now;
		now = now + 1 < TILE::STAGES ? now + 1 : 0;
	}
	__pipeline_wait_prior(0);
}

/* A matrix whose elements along k are adjacent: `extent` rows, `ld` elements apart. */
template <typename T_> struct sgpu_along_k {
	using T = T_;
	static constexpr bool along_k = true;
	const T *data;
	uint64_t ld, extent, depth;

	__device__ __forceinline__ bool inside(int rows) const
	{
		return extent >= (uint64_t)rows;
	}
	template <bool WHOLE> __device__ __forceinline__ const T *where(int row, uint64_t k) const
	{
		return WHOLE || ((uint64_t)row < extent && k < depth)
			       ? data + ((uint64_t)row * ld + k)
			       : NULL;
	}
};

/* A matrix that is stored transposed: elements along k are `ld` apart. */
template <typename T_> struct sgpu_across_k {
	using T = T_;
	static constexpr bool along_k = false;
	const T *data;
	uint64_t ld, extent, depth;

	__device__ __forceinline__ bool inside(int columns) const
	{
		return extent >= (uint64_t)columns;
	}
	template <bool WHOLE>
	__device__ __forceinline__ const T *where(int column, uint64_t k) const
	{
		return WHOLE || ((uint64_t)column < extent && k < depth)
			       ? data + (k * ld + (uint64_t)column)
			       : NULL;
	}
};

/* The base of a source of which a thread copies one column; any element may be outside. */
struct sgpu_columns {
	static constexpr bool along_k = false;

	__device__ __forceinline__ bool inside(int) const
	{
		return false;
	}
};

/* Multiplies and adds with one rounding. */
struct sgpu_step_fused {
	SGPU_DEVICE float add(float sum, float a, float b)
	{
		return fmaf(a, b, sum);
	}
	SGPU_DEVICE double add(double sum, double a, double b)
	{
		return fma(a, b, sum);
	}
};

/* Multiplies and adds with two roundings, as the CPU does. */
struct sgpu_step_plain {
	SGPU_DEVICE float add(float sum, float a, float b)
	{
		return __fadd_rn(sum, __fmul_rn(a, b));
	}
};

#endif
