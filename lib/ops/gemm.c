/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product for operations: in pieces of a fixed size through the pool, by a BLAS when the
 * product is large enough to be worth it, else by the built-in kernel.
 */
#include <limits.h>

#include "gemm.h"

enum {
	GEMM_PIECE_ROWS = 96,	  /* a multiple of the kernel's 6 */
	GEMM_PIECE_COLUMNS = 512, /* a multiple of the vectors */
	BLAS_PIECE_ROWS = 256,
	BLAS_PIECE_COLUMNS = 1024,
	BLAS_WORK_MIN =
		1
		<< 26, /* multiplications, 1 ms: less does not pay for loading the library, 5 ms */
	CBLAS_ROW_MAJOR = 101,
	CBLAS_NO_TRANSPOSE = 111,
	CBLAS_TRANSPOSE = 112,
};

static uint64_t pieces_along(uint64_t extent, uint64_t step)
{
	return extent / step + (extent % step != 0);
}

static struct sgpu_gemm_piece piece_at(const struct sgpu_gemm *gemm, uint64_t index, uint64_t rows,
				       uint64_t columns)
{
	uint64_t down = pieces_along(gemm->m, rows), across = pieces_along(gemm->n, columns);
	struct sgpu_gemm_piece piece = {
		.batch = index / (down * across),
		.row = index / across % down * rows,
		.column = index % across * columns,
	};

	piece.rows = gemm->m - piece.row < rows ? gemm->m - piece.row : rows;
	piece.columns = gemm->n - piece.column < columns ? gemm->n - piece.column : columns;
	return piece;
}

#define GEMM_T float
#define GEMM_NAME(x) f32_##x
#define GEMM_BLAS sgemm
#include "gemm_tile.h"
#undef GEMM_T
#undef GEMM_NAME
#undef GEMM_BLAS

#define GEMM_T double
#define GEMM_NAME(x) f64_##x
#define GEMM_BLAS dgemm
#include "gemm_tile.h"

/* Whether a BLAS is installed, takes these sizes, and is worth calling. */
static bool blas_fits(const struct sgpu_gemm *gemm)
{
	double work = (double)gemm->m * (double)gemm->n * (double)gemm->k;

	return work >= BLAS_WORK_MIN && gemm->alpha != 0 && gemm->k <= INT_MAX &&
	       gemm->lda <= INT_MAX && gemm->ldb <= INT_MAX && gemm->ldc <= INT_MAX &&
	       sgpu_blas_find()->sgemm && sgpu_blas_find()->dgemm;
}

static int run_pieces(const struct sgpu_gemm *gemm, struct sgpu_pool *pool, bool blas,
		      void (*body)(void *argument, uint64_t begin, uint64_t end), void *job)
{
	uint64_t down = pieces_along(gemm->m, blas ? BLAS_PIECE_ROWS : GEMM_PIECE_ROWS);
	uint64_t across = pieces_along(gemm->n, blas ? BLAS_PIECE_COLUMNS : GEMM_PIECE_COLUMNS);

	if (gemm->m == 0 || gemm->n == 0) {
		return 0;
	}
	return sgpu_pool_for(pool, (gemm->batch ? gemm->batch : 1) * down * across, 1, body, job);
}

int sgpu_gemm_f32(const struct sgpu_gemm *gemm, const float *a, const float *b, float *c,
		  struct sgpu_pool *pool)
{
	struct f32_job job = { .gemm = gemm, .a = a, .b = b, .c = c };
	bool blas = blas_fits(gemm);

	return run_pieces(gemm, pool, blas, blas ? f32_body_blas : f32_body, &job);
}

int sgpu_gemm_f64(const struct sgpu_gemm *gemm, const double *a, const double *b, double *c,
		  struct sgpu_pool *pool)
{
	struct f64_job job = { .gemm = gemm, .a = a, .b = b, .c = c };
	bool blas = blas_fits(gemm);

	return run_pieces(gemm, pool, blas, blas ? f64_body_blas : f64_body, &job);
}
