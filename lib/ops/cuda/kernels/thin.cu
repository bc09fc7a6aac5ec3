/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix times a few vectors. Where k walks along the matrix's memory, a warp adds up an element;
 * else a block adds up 32 elements side by side, each in SLICES slices of k. Both add in an order
 * of their own, the same every time.
 */
#include "ops/cuda/kernels/gemm.cuh"

enum { WARPS = SGPU_CUDA_BLOCK / SGPU_CUDA_WARP, SLICES = WARPS };

/* Elements from one vector to the next, and from one k to the next; in c and output, from one
 * vector of the matrix to the next and from one of the few to the next. */
struct thin {
	uint64_t batch, count, few, k; /* products, vectors of the matrix, few vectors */
	uint64_t matrix_vector, matrix_k, matrix_batch;
	uint64_t few_vector, few_k, few_batch;
	uint64_t out_vector, out_few, out_batch;
	double alpha, beta;
};

static __device__ __forceinline__ float multiply_add(float a, float b, float sum)
{
	return fmaf(a, b, sum);
}

static __device__ __forceinline__ double multiply_add(double a, double b, double sum)
{
	return fma(a, b, sum);
}

/* Adds elements first, first + step, ... of a vector of the matrix times the few vectors. */
template <typename T>
static __device__ __forceinline__ void add_products(const thin &t, const T *matrix, const T *few,
						    uint64_t first, uint64_t step,
						    T (&sums)[SGPU_THIN_MAX])
{
#pragma unroll
	for (int i = 0; i < SGPU_THIN_MAX; i++) {
		sums[i] = 0;
	}
#pragma unroll 4
	for (uint64_t k = first; k < t.k; k += step) {
		T value = matrix[k * t.matrix_k];

#pragma unroll
		for (int i = 0; i < SGPU_THIN_MAX; i++) {
			if (i < (int)t.few) {
				sums[i] = multiply_add(value, few[i * t.few_vector + k * t.few_k],
						       sums[i]);
			}
		}
	}
}

template <typename T>
static __device__ __forceinline__ void put(const thin &t, T sum, uint64_t at, const T *c, T *output)
{
	T product = (T)t.alpha * sum, beta = (T)t.beta;

	output[at] = beta == 0 ? product : product + beta * c[at];
}

template <typename T>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)
	along_k(thin t, const T *matrix, const T *few, const T *c, T *output)
{
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;
	uint64_t item = (uint64_t)blockIdx.x * WARPS + threadIdx.x / SGPU_CUDA_WARP;

	for (; item < t.batch * t.count; item += (uint64_t)gridDim.x * WARPS) {
		uint64_t batch = item / t.count, vector = item % t.count;
		T sums[SGPU_THIN_MAX];

		add_products(t, matrix + batch * t.matrix_batch + vector * t.matrix_vector,
			     few + batch * t.few_batch, lane, SGPU_CUDA_WARP, sums);
#pragma unroll
		for (int i = 0; i < SGPU_THIN_MAX; i++) {
			T sum = sgpu_cuda_warp_reduce(sums[i], sgpu_cuda_sum());

			if (lane == 0 && i < (int)t.few) {
				put(t, sum,
				    batch * t.out_batch + vector * t.out_vector + i * t.out_few, c,
				    output);
			}
		}
	}
}

template <typename T>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)
	across_k(thin t, const T *matrix, const T *few, const T *c, T *output)
{
	__shared__ T shared[SLICES][SGPU_THIN_MAX][SGPU_CUDA_WARP];
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP, slice = threadIdx.x / SGPU_CUDA_WARP;
	uint64_t groups = (t.count + SGPU_CUDA_WARP - 1) / SGPU_CUDA_WARP;

	for (uint64_t item = blockIdx.x; item < t.batch * groups; item += gridDim.x) {
		uint64_t batch = item / groups, vector = item % groups * SGPU_CUDA_WARP + lane;
		T sums[SGPU_THIN_MAX] = {};

		if (vector < t.count) {
			add_products(t, matrix + batch * t.matrix_batch + vector * t.matrix_vector,
				     few + batch * t.few_batch, slice, SLICES, sums);
		}
#pragma unroll
		for (int i = 0; i < SGPU_THIN_MAX; i++) {
			shared[slice][i][lane] = sums[i];
		}
		__syncthreads();
		if (slice < t.few && vector < t.count) { /* a warp for each of the few */
			T sum = shared[0][slice][lane];

			for (int i = 1; i < SLICES; i++) {
				sum += shared[i][slice][lane];
			}
			put(t, sum, batch * t.out_batch + vector * t.out_vector + slice * t.out_few,
			    c, output);
		}
		__syncthreads();
	}
}

/* a is the matrix where n is small, and b where m is. */
static thin describe(const struct sgpu_gemm *g, bool few_rows)
{
	thin t = {};

	t.batch = g->batch;
	t.k = g->k;
	t.alpha = g->alpha;
	t.beta = g->beta;
	t.out_batch = g->stride_c;
	t.count = few_rows ? g->n : g->m;
	t.few = few_rows ? g->m : g->n;
	t.out_vector = few_rows ? 1 : g->ldc;
	t.out_few = few_rows ? g->ldc : 1;
	t.matrix_batch = few_rows ? g->stride_b : g->stride_a;
	t.few_batch = few_rows ? g->stride_a : g->stride_b;
	/* a row of op(a), a column of op(b): where the next one is, and where the next k is */
	uint64_t row = g->transpose_a ? 1 : g->lda, row_k = g->transpose_a ? g->lda : 1;
	uint64_t column = g->transpose_b ? g->ldb : 1, column_k = g->transpose_b ? 1 : g->ldb;

	t.matrix_vector = few_rows ? column : row;
	t.matrix_k = few_rows ? column_k : row_k;
	t.few_vector = few_rows ? row : column;
	t.few_k = few_rows ? row_k : column_k;
	return t;
}

template <typename T>
static int start(struct sgpu_launch *launch, const char *what, const thin &t, const T *matrix,
		 const T *few, const T *c, T *output)
{
	if (t.matrix_k == 1 && t.k >= SGPU_CUDA_WARP) {
		return sgpu_cuda_start(launch, what, along_k<T>,
				       sgpu_cuda_grid(t.batch * t.count, WARPS), SGPU_CUDA_BLOCK, 0,
				       t, matrix, few, c, output);
	}
	return sgpu_cuda_start(
		launch, what, across_k<T>,
		sgpu_cuda_grid(t.batch * ((t.count + SGPU_CUDA_WARP - 1) / SGPU_CUDA_WARP), 1),
		SGPU_CUDA_BLOCK, 0, t, matrix, few, c, output);
}

int sgpu_thin_gemm(struct sgpu_launch *launch, const char *what, enum sgpu_dtype dtype,
		   const struct sgpu_gemm *gemm, const void *a, const void *b, const void *c,
		   void *output)
{
	bool few_rows = gemm->m <= SGPU_THIN_MAX;
	const void *matrix = few_rows ? b : a, *few = few_rows ? a : b;
	thin t = describe(gemm, few_rows);
	int result = 0;

	SGPU_CUDA_FLOATS(dtype, T,
			 result = start<T>(launch, what, t, (const T *)matrix, (const T *)few,
					   (const T *)c, (T *)output));
	return result;
}
