/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product for operations: in pieces of a fixed size through the pool.
 */
#include "ops_private.h"

enum {
	GEMM_PIECE_ROWS = 96,	  /* a multiple of the kernel's 6 rows */
	GEMM_PIECE_COLUMNS = 512, /* a multiple of the vector's length */
};

/* A piece: rows [row, row + rows) and columns [column, column + columns) of product `batch`. */
struct piece {
	uint64_t batch, row, rows, column, columns;
};

static struct piece piece_at(const struct sgpu_gemm *gemm, uint64_t index)
{
	uint64_t down = sgpu_ops_ceil(gemm->m, GEMM_PIECE_ROWS);
	uint64_t across = sgpu_ops_ceil(gemm->n, GEMM_PIECE_COLUMNS);
	struct piece piece = {
		.batch = index / (down * across),
		.row = index / across % down * GEMM_PIECE_ROWS,
		.column = index % across * GEMM_PIECE_COLUMNS,
	};

	piece.rows = sgpu_ops_min(gemm->m - piece.row, GEMM_PIECE_ROWS);
	piece.columns = sgpu_ops_min(gemm->n - piece.column, GEMM_PIECE_COLUMNS);
	return piece;
}

struct job {
	const struct sgpu_gemm *gemm;
	const void *a, *b;
	void *c;
};

#define GEMM_T float
#define GEMM_NAME(x) f32_##x
#include "gemm_tile.h"
#undef GEMM_T
#undef GEMM_NAME

#define GEMM_T double
#define GEMM_NAME(x) f64_##x
#include "gemm_tile.h"

int sgpu_gemm(const struct sgpu_gemm *gemm, enum sgpu_dtype dtype, const void *a, const void *b,
	      void *c, struct sgpu_pool *pool, struct sgpu_error *error)
{
	struct job job = { .gemm = gemm, .a = a, .b = b, .c = c };
	uint64_t down = sgpu_ops_ceil(gemm->m, GEMM_PIECE_ROWS);
	uint64_t across = sgpu_ops_ceil(gemm->n, GEMM_PIECE_COLUMNS);

	if (gemm->m == 0 || gemm->n == 0) {
		return 0;
	}
	return sgpu_ops_for(pool, (gemm->batch ? gemm->batch : 1) * down * across, 1,
			    dtype == SGPU_F32 ? f32_body : f64_body, &job, error);
}
