/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operations share: the rows of the table, vectors by CPU, conversions, the matrix
 * product, and checks for infer functions.
 *
 * Rules for a CPU implementation: the result depends neither on the number of workers (pieces of
 * sgpu_pool_for start at fixed multiples; partial results are added in the order of the pieces) nor
 * on the CPU's vectors (sums keep a fixed number of lanes that are added in a fixed order). Copies
 * of data on the stack are wiped.
 */
#ifndef SGPU_OPS_OPS_PRIVATE_H
#define SGPU_OPS_OPS_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/base.h>
#include <sgpu/manifest.h>
#include <sgpu/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On a function with a hot loop: compiled for several levels of x86-64, chosen when the program
 * starts. What it calls in the loop must be inlined (SGPU_INLINE) to profit. Sanitizers would
 * instrument what chooses, which runs before they are ready. */
#if SGPU_CLONES && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
	!defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SGPU_CLONES_ATTR \
	__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SGPU_CLONES_ATTR
#endif
#ifdef __CUDACC__ /* the same text serves kernels */
#define SGPU_INLINE static __host__ __device__ __forceinline__
#else
#define SGPU_INLINE static inline __attribute__((always_inline))
#endif

/* The rows: one in each file of cpu/. */
extern const struct sgpu_op sgpu_op_activation_gradient, sgpu_op_argmax, sgpu_op_black_scholes,
	sgpu_op_cast, sgpu_op_conv2d, sgpu_op_conv2d_gradient, sgpu_op_copy, sgpu_op_cross_entropy,
	sgpu_op_dense, sgpu_op_gaussian3d, sgpu_op_gemm, sgpu_op_histogram, sgpu_op_max_pool2d,
	sgpu_op_max_pool2d_gradient, sgpu_op_morphology3d, sgpu_op_nearest, sgpu_op_reduce,
	sgpu_op_reshape, sgpu_op_scale, sgpu_op_sgd, sgpu_op_slice, sgpu_op_softmax,
	sgpu_op_squared_error, sgpu_op_threshold, sgpu_op_vector_add;

/* ---- for infer ----
 * A required input always has a type here. An optional input is SGPU_NONE when it is absent, and
 * also when the manifest gives it without a type (call->present tells): infer may fill the latter.
 * All return false after they reported a diagnostic. */
/* Same element type and same shape. */
bool sgpu_ops_same_type(const struct sgpu_op_call *call, struct sgpu_op_report *report, int first,
			int second);
/* Same element type. */
bool sgpu_ops_same_dtype(const struct sgpu_op_call *call, struct sgpu_op_report *report, int first,
			 int second);

struct sgpu_type sgpu_ops_type(enum sgpu_dtype dtype, int rank, const uint64_t *shape);
/* Elements of a type that was checked before (its product fits). */
uint64_t sgpu_ops_count(const struct sgpu_type *type);
/* Product of shape[from] ... shape[to - 1]. */
uint64_t sgpu_ops_extent(const struct sgpu_type *type, int from, int to);

/* Operations along the last axis cut rows that are longer than this into parts of it, whose results
 * stand in the scratch memory and are combined in order. */
enum { SGPU_ROW_PART = 1 << 16 };
SGPU_INLINE uint64_t sgpu_ops_parts(uint64_t width)
{
	return width / SGPU_ROW_PART + (width % SGPU_ROW_PART != 0);
}

/* ---- conversions of `count` elements that start at element `begin` of data of a type ----
 * Loading is exact for every type. Storing rounds to nearest, ties to even, once; integers
 * saturate, and NaN becomes 0. */
void sgpu_ops_load_f64(enum sgpu_dtype dtype, const void *data, uint64_t begin, uint64_t count,
		       double *to);
void sgpu_ops_store_f64(enum sgpu_dtype dtype, void *data, uint64_t begin, uint64_t count,
			const double *from);

/* ---- matrix product: c = alpha op(a) op(b) + beta c ----
 * Row-major; op(a) is m x k, op(b) is k x n, c is m x n; ld: elements from one stored row to the
 * next. With beta 0 c is not read, with alpha 0 neither a nor b. The calling thread holds a token
 * of the pool. Returns 0 or SGPU_ECANCELED. */
struct sgpu_gemm {
	uint64_t m, n, k;
	bool transpose_a, transpose_b; /* a is stored k x m, b is stored n x k */
	uint64_t lda, ldb, ldc;
	double alpha, beta;
	/* Several products, each this many elements after the one before; batch 0 is 1. */
	uint64_t batch, stride_a, stride_b, stride_c;
};
SGPU_MUST_CHECK int sgpu_gemm_f32(const struct sgpu_gemm *gemm, const float *a, const float *b,
				  float *c, struct sgpu_pool *pool);
SGPU_MUST_CHECK int sgpu_gemm_f64(const struct sgpu_gemm *gemm, const double *a, const double *b,
				  double *c, struct sgpu_pool *pool);
/* What a call of gemm asks for. */
struct sgpu_gemm sgpu_op_gemm_describe(const struct sgpu_op_call *call);
/* "openblas", "blas" or "built in": who computes large products. */
const char *sgpu_gemm_provider(void);

/* ---- activations, in the order of enum sgpu_activation ---- */
extern const char *const sgpu_ops_activations[]; /* the choices of a parameter */
void sgpu_ops_activate_f32(int activation, float *values, uint64_t count);

/* sgpu_pool_for with its code and text. */
SGPU_MUST_CHECK int sgpu_ops_for(struct sgpu_pool *pool, uint64_t count, uint64_t grain,
				 void (*body)(void *argument, uint64_t begin, uint64_t end),
				 void *argument, struct sgpu_error *error);

/* What copy does, for operations that leave the bytes as they are. */
SGPU_MUST_CHECK int sgpu_ops_copy(struct sgpu_op_call *call, struct sgpu_pool *pool,
				  struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
