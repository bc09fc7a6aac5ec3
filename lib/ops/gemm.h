/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product's inside: pieces, and who computes one.
 */
#ifndef SGPU_OPS_GEMM_H
#define SGPU_OPS_GEMM_H

#include <stdint.h>

#include "ops_private.h"

/* A piece: rows [row, row + rows) and columns [column, column + columns) of product `batch`. */
struct sgpu_gemm_piece {
	uint64_t batch, row, rows, column, columns;
};

/* A BLAS that was found, or NULL members. */
struct sgpu_blas {
	const char *name;
	void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
		      const float *a, int lda, const float *b, int ldb, float beta, float *c,
		      int ldc);
	void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k,
		      double alpha, const double *a, int lda, const double *b, int ldb, double beta,
		      double *c, int ldc);
};

/* Looks for one at the first call. Thread-safe. */
const struct sgpu_blas *sgpu_blas_find(void);

#endif
