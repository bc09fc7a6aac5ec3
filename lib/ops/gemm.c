/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product for operations, in pieces of a fixed size through the pool.
 */
#include "base/base.h"
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
	uint64_t down = sgpu_ops_ceil(gemm->m, GEMM_PIECE_ROWS),
		 across = sgpu_ops_ceil(gemm->n, GEMM_PIECE_COLUMNS);
	struct piece piece = {
		.batch = index / (down * across),
		.row = index / across % down * GEMM_PIECE_ROWS,
		.column = index % across * GEMM_PIECE_COLUMNS,
	};

	piece.rows = sgpu_ops_min(gemm->m - piece.row, GEMM_PIECE_ROWS);
	piece.columns = sgpu_ops_min(gemm->n - piece.column, GEMM_PIECE_COLUMNS);
	return piece;
}

#define GEMM_T float
#define GEMM_NAME(x) f32_##x
#include "gemm_tile.h"
#undef GEMM_T
#undef GEMM_NAME

#define GEMM_T double
#define GEMM_NAME(x) f64_##x
#include "gemm_tile.h"

int sgpu_gemm(const struct sgpu_gemm *gemm, struct sgpu_launch *launch)
{
	uint64_t down = sgpu_ops_ceil(gemm->m, GEMM_PIECE_ROWS),
		 across = sgpu_ops_ceil(gemm->n, GEMM_PIECE_COLUMNS);
	struct sgpu_gemm job = *gemm;

	return sgpu_ops_for(launch, gemm->batch * down * across, 1,
			    gemm->dtype == SGPU_F32 ? f32_body : f64_body, &job);
}
