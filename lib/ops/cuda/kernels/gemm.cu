/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm, and the matrix product of other operations: by cuBLAS or by the kernels here. Sums have the
 * order of k with one rounding for each product.
 */
#include "ops/cuda/kernels/tile.cuh"

/* A large tile reads less; small ones occupy more multiprocessors when there are few tiles. */
template <typename T> struct tiles;
template <> struct tiles<float> {
	using large = sgpu_tile<float, 128, 128, 8, 8, 8>;
	using medium = sgpu_tile<float, 64, 64, 16, 4, 4>;
	using small = sgpu_tile<float, 32, 32, 32, 2, 2>;
};
template <> struct tiles<double> {
	using large = sgpu_tile<double, 64, 64, 8, 4, 4>;
	using medium = sgpu_tile<double, 32, 64, 8, 2, 4>;
	using small = sgpu_tile<double, 32, 32, 16, 2, 2>;
};

/* Rows of tiles that are computed together, so that their columns stay in the cache. */
enum { GROUP = 8 };

/* Finds tile `index` in a product of `down` x `across` tiles. */
static __device__ void place_tile(uint64_t index, uint64_t down, uint64_t across, uint64_t *row,
				  uint64_t *column)
{
	uint64_t group = index / (GROUP * across), within = index % (GROUP * across);
	uint64_t rows = sgpu_ops_min(down - group * GROUP, GROUP);

	*row = group * GROUP + within % rows;
	*column = within / rows;
}

template <typename TILE, typename SOURCE_A, typename SOURCE_B>
static __global__ void __launch_bounds__(TILE::THREADS, TILE::RESIDENT)
	product(struct sgpu_gemm gemm, const typename TILE::T *a, const typename TILE::T *b,
		const typename TILE::T *c, typename TILE::T *output)
{
	using T = typename TILE::T;
	__shared__ typename TILE::buffers shared;
	uint64_t down = sgpu_ops_ceil(gemm.m, TILE::ROWS),
		 across = sgpu_ops_ceil(gemm.n, TILE::COLUMNS);
	T alpha = (T)gemm.alpha, beta = (T)gemm.beta;

	for (uint64_t tile = blockIdx.x; tile < gemm.batch * down * across; tile += gridDim.x) {
		uint64_t batch = tile / (down * across), row, column;
		T sums[TILE::DOWN][TILE::ACROSS] = {};

		place_tile(tile % (down * across), down, across, &row, &column);
		row *= TILE::ROWS;
		column *= TILE::COLUMNS;
		const T *at_a =
			a + batch * gemm.stride_a + row * (SOURCE_A::along_k ? gemm.lda : 1);
		const T *at_b =
			b + batch * gemm.stride_b + column * (SOURCE_B::along_k ? gemm.ldb : 1);
		SOURCE_A from_a = { at_a, gemm.lda, gemm.m - row, gemm.k };
		SOURCE_B from_b = { at_b, gemm.ldb, gemm.n - column, gemm.k };

		sgpu_tile_product<TILE, sgpu_step_fused>(from_a, from_b, gemm.k, shared, sums);
#pragma unroll
		for (int i = 0; i < TILE::DOWN; i++) {
			uint64_t y = row + TILE::row(i),
				 line = batch * gemm.stride_c + y * gemm.ldc;

#pragma unroll
			for (int j = 0; j < TILE::ACROSS; j++) {
				uint64_t x = column + TILE::column(j);

				if (y < gemm.m && x < gemm.n) {
					T product = alpha * sums[i][j];

					output[line + x] =
						beta == 0 ? product : product + beta * c[line + x];
				}
			}
		}
	}
}

static uint64_t count_tiles(const struct sgpu_gemm *gemm, uint64_t rows, uint64_t columns)
{
	return gemm->batch * sgpu_ops_ceil(gemm->m, rows) * sgpu_ops_ceil(gemm->n, columns);
}

template <typename TILE, typename T = typename TILE::T>
static int start_tiles(struct sgpu_launch *launch, const struct sgpu_gemm *gemm)
{
	void (*kernel)(struct sgpu_gemm, const T *, const T *, const T *, T *);

	if (gemm->transpose_a) {
		kernel = gemm->transpose_b ? product<TILE, sgpu_across_k<T>, sgpu_along_k<T>>
					   : product<TILE, sgpu_across_k<T>, sgpu_across_k<T>>;
	} else {
		kernel = gemm->transpose_b ? product<TILE, sgpu_along_k<T>, sgpu_along_k<T>>
					   : product<TILE, sgpu_along_k<T>, sgpu_across_k<T>>;
	}
	return sgpu_cuda_start(launch, kernel,
			       sgpu_cuda_blocks(count_tiles(gemm, TILE::ROWS, TILE::COLUMNS)),
			       TILE::THREADS, 0, *gemm, gemm->a, gemm->b, gemm->c, gemm->output);
}

template <typename T>
static int start_built_in(struct sgpu_launch *launch, const struct sgpu_gemm *gemm)
{
	using large = typename tiles<T>::large;
	using medium = typename tiles<T>::medium;
	using small = typename tiles<T>::small;
	bool thin = gemm->m <= (uint64_t)small::ROWS || gemm->n <= (uint64_t)small::COLUMNS;
	uint64_t enough = sgpu_cuda_multiprocessors();

	if (!thin && count_tiles(gemm, large::ROWS, large::COLUMNS) >= enough) {
		return start_tiles<large>(launch, gemm);
	}
	if (!thin && count_tiles(gemm, medium::ROWS, medium::COLUMNS) >= enough) {
		return start_tiles<medium>(launch, gemm);
	}
	return start_tiles<small>(launch, gemm);
}

int sgpu_cuda_gemm_built_in(struct sgpu_launch *launch, const struct sgpu_gemm *gemm)
{
	return SGPU_CUDA_FLOATS(gemm->dtype, T, start_built_in<T>(launch, gemm));
}

int sgpu_cuda_gemm(struct sgpu_launch *launch, const struct sgpu_gemm *gemm)
{
	return sgpu_cublas_fits(gemm) ? sgpu_cublas_gemm(launch, gemm)
				      : sgpu_cuda_gemm_built_in(launch, gemm);
}

extern "C" int sgpu_gemm_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_gemm gemm = sgpu_op_gemm_describe(call);

	return sgpu_cuda_gemm(launch, &gemm);
}
