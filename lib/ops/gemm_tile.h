/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in matrix product of one element type, included once for each: define GEMM_T and
 * GEMM_NAME(x) first.
 *
 * A piece is computed in steps of GEMM_KC of the inner dimension. Rows of a and columns of b are
 * packed into panels that stay in the caches; a kernel keeps 6 rows of one vector of c in
 * registers. An element of c is the sum of the steps in order, each the sum of its products in
 * order, so that neither vector length nor pieces change a bit.
 */
#define GEMM_ROWS 6
#define GEMM_LANES (64 / sizeof(GEMM_T))
#define GEMM_KC (1024 / sizeof(GEMM_T))
/* `loose` has the alignment of one element, since rows of c start anywhere. */
typedef GEMM_T GEMM_NAME(vector) __attribute__((vector_size(64)));
typedef GEMM_T GEMM_NAME(loose)
	__attribute__((vector_size(64), aligned(sizeof(GEMM_T)), may_alias));

struct GEMM_NAME(panels) {
	GEMM_T a[GEMM_PIECE_ROWS * GEMM_KC] __attribute__((aligned(64)));
	GEMM_T b[GEMM_LANES * GEMM_KC] __attribute__((aligned(64)));
};

/* Packs rows of op(a) in groups of GEMM_ROWS, column by column; missing rows are 0. */
SGPU_INLINE void GEMM_NAME(pack_a)(const struct sgpu_gemm *gemm, const GEMM_T *a, uint64_t row,
				   uint64_t rows, uint64_t inner, uint64_t depth, GEMM_T *panel)
{
	for (uint64_t i = 0; i < rows; i += GEMM_ROWS) {
		for (uint64_t r = 0; r < GEMM_ROWS; r++) {
			uint64_t at = row + i + r;

			for (uint64_t p = 0; p < depth; p++) {
				panel[p * GEMM_ROWS + r] = i + r >= rows ? 0
							   : gemm->transpose_a
								   ? a[(inner + p) * gemm->lda + at]
								   : a[at * gemm->lda + inner + p];
			}
		}
		panel += depth * GEMM_ROWS;
	}
}

/* Packs one vector of columns of op(b), row by row; missing columns are 0. */
SGPU_INLINE void GEMM_NAME(pack_b)(const struct sgpu_gemm *gemm, const GEMM_T *b, uint64_t column,
				   uint64_t columns, uint64_t inner, uint64_t depth, GEMM_T *panel)
{
	if (!gemm->transpose_b && columns == GEMM_LANES) {
		for (uint64_t p = 0; p < depth; p++) {
			*(GEMM_NAME(vector) *)(panel + p * GEMM_LANES) =
				*(const GEMM_NAME(loose) *)(b + (inner + p) * gemm->ldb + column);
		}
		return;
	}
	for (uint64_t j = 0; j < GEMM_LANES; j++) {
		uint64_t at = column + j;

		for (uint64_t p = 0; p < depth; p++) {
			panel[p * GEMM_LANES + j] = j >= columns ? 0
						    : gemm->transpose_b
							    ? b[at * gemm->ldb + inner + p]
							    : b[(inner + p) * gemm->ldb + at];
		}
	}
}

/* Stores alpha times the sum, plus beta times c; beta 0 does not read c. */
SGPU_INLINE void GEMM_NAME(put)(const GEMM_NAME(vector) * sum, GEMM_T alpha, GEMM_T beta,
				uint64_t columns, GEMM_T *c)
{
	if (columns == GEMM_LANES) {
		GEMM_NAME(loose) *to = (GEMM_NAME(loose) *)c;

		*to = beta == 0 ? alpha * *sum : alpha * *sum + beta * *to;
		return;
	}
	for (uint64_t j = 0; j < columns; j++) {
		c[j] = beta == 0 ? alpha * (*sum)[j] : alpha * (*sum)[j] + beta * c[j];
	}
}

SGPU_INLINE void GEMM_NAME(kernel)(const GEMM_T *a, const GEMM_T *b, uint64_t depth,
				   GEMM_NAME(vector) sum[GEMM_ROWS])
{
	GEMM_NAME(vector) c0 = { 0 }, c1 = { 0 }, c2 = { 0 }, c3 = { 0 }, c4 = { 0 }, c5 = { 0 };

	for (uint64_t p = 0; p < depth; p++) {
		GEMM_NAME(vector) v = *(const GEMM_NAME(vector) *)b;

		c0 += a[0] * v;
		c1 += a[1] * v;
		c2 += a[2] * v;
		c3 += a[3] * v;
		c4 += a[4] * v;
		c5 += a[5] * v;
		a += GEMM_ROWS;
		b += GEMM_LANES;
	}
	sum[0] = c0;
	sum[1] = c1;
	sum[2] = c2;
	sum[3] = c3;
	sum[4] = c4;
	sum[5] = c5;
}

SGPU_CLONES_ATTR static void GEMM_NAME(piece)(const struct sgpu_gemm *gemm,
					      const struct piece *piece,
					      struct GEMM_NAME(panels) * panels)
{
	const GEMM_T *a = (const GEMM_T *)gemm->a + piece->batch * gemm->stride_a,
		     *b = (const GEMM_T *)gemm->b + piece->batch * gemm->stride_b;
	GEMM_T *c = (GEMM_T *)gemm->output + piece->batch * gemm->stride_c;
	GEMM_T alpha = (GEMM_T)gemm->alpha, beta = (GEMM_T)gemm->beta;
	uint64_t inner = 0, depth;
	GEMM_NAME(vector) sum[GEMM_ROWS];

	do {
		depth = sgpu_ops_min(gemm->k - inner, GEMM_KC);
		GEMM_NAME(pack_a)(gemm, a, piece->row, piece->rows, inner, depth, panels->a);
		for (uint64_t j = 0; j < piece->columns; j += GEMM_LANES) {
			uint64_t column = piece->column + j;
			uint64_t columns = sgpu_ops_min(piece->columns - j, GEMM_LANES);

			GEMM_NAME(pack_b)(gemm, b, column, columns, inner, depth, panels->b);
			for (uint64_t i = 0; i < piece->rows; i += GEMM_ROWS) {
				GEMM_NAME(kernel)(panels->a + i * depth, panels->b, depth, sum);
				for (uint64_t r = 0; r < GEMM_ROWS && i + r < piece->rows; r++) {
					GEMM_NAME(put)
					(&sum[r], alpha, inner ? 1 : beta, columns,
					 c + (piece->row + i + r) * gemm->ldc + column);
				}
			}
		}
		inner += depth;
	} while (inner < gemm->k);
}

static void GEMM_NAME(body)(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_gemm *gemm = argument;
	struct GEMM_NAME(panels) panels;

	for (uint64_t i = begin; i < end; i++) {
		struct piece piece = piece_at(gemm, i, GEMM_PIECE_ROWS, GEMM_PIECE_COLUMNS);

		GEMM_NAME(piece)(gemm, &piece, &panels);
	}
	sgpu_wipe(&panels, sizeof(panels));
}

static void GEMM_NAME(body_blas)(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_gemm *gemm = argument;

	for (uint64_t i = begin; i < end; i++) {
		struct piece p = piece_at(gemm, i, BLAS_PIECE_ROWS, BLAS_PIECE_COLUMNS);
		const GEMM_T *a = (const GEMM_T *)gemm->a + p.batch * gemm->stride_a +
				  p.row * (gemm->transpose_a ? 1 : gemm->lda);
		const GEMM_T *b = (const GEMM_T *)gemm->b + p.batch * gemm->stride_b +
				  p.column * (gemm->transpose_b ? gemm->ldb : 1);
		GEMM_T *c = (GEMM_T *)gemm->output + p.batch * gemm->stride_c + p.row * gemm->ldc +
			    p.column;

		blas.GEMM_BLAS(
			CBLAS_ROW_MAJOR, gemm->transpose_a ? CBLAS_TRANSPOSE : CBLAS_NO_TRANSPOSE,
			gemm->transpose_b ? CBLAS_TRANSPOSE : CBLAS_NO_TRANSPOSE, (int)p.rows,
			(int)p.columns, (int)gemm->k, (GEMM_T)gemm->alpha, a, (int)gemm->lda, b,
			(int)gemm->ldb, (GEMM_T)gemm->beta, c, (int)gemm->ldc);
	}
}

#undef GEMM_ROWS
#undef GEMM_LANES
#undef GEMM_KC
