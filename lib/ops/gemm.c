/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product for operations, in pieces of a fixed size through the pool: by a BLAS if the
 * product is large enough, else by the built-in kernel.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ops_private.h"

enum {
	GEMM_PIECE_ROWS = 96,	  /* a multiple of the kernel's 6 rows */
	GEMM_PIECE_COLUMNS = 512, /* a multiple of the vector's length */
	BLAS_PIECE_ROWS = 256,
	BLAS_PIECE_COLUMNS = 1024,
	BLAS_WORK_MIN = 1 << 26, /* multiplications, about 1 ms; loading the library takes 5 ms */
	CBLAS_ROW_MAJOR = 101,
	CBLAS_NO_TRANSPOSE = 111,
	CBLAS_TRANSPOSE = 112,
};

/* Rows [row, row + rows) and columns [column, column + columns) of product `batch`. */
struct piece {
	uint64_t batch, row, rows, column, columns;
};

/* ---- a BLAS, found at run time. One thread per call, since the pool has the threads ---- */
static struct {
	void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
		      const float *a, int lda, const float *b, int ldb, float beta, float *c,
		      int ldc);
	void (*dgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k,
		      double alpha, const double *a, int lda, const double *b, int ldb, double beta,
		      double *c, int ldc);
} blas;

#if SGPU_BLAS
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Copies a function's address from dlsym; C has no cast from data to function pointers. */
static void take_symbol(void *library, const char *name, void *function_pointer)
{
	void *symbol = dlsym(library, name);

	memcpy(function_pointer, &symbol, sizeof(symbol));
}

static void *open_library(void)
{
	static const char *const names[] = { "libopenblas.so.0", "libblas.so.3" };
	void *library = NULL;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(names) && !library; i++) {
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	}
	return library;
}

static void find_blas(void)
{
	const char *wanted = getenv("SGPU_BLAS");
	void (*set_threads)(int count) = NULL;
	sigset_t before;
	void *library;

	if (wanted && strcmp(wanted, "0") == 0) {
		return;
	}
	/* Keeps threads that the library starts from receiving the program's signals. */
	sgpu_signals_block(&before);
	library = open_library();
	if (library) {
		take_symbol(library, "openblas_set_num_threads", &set_threads);
		take_symbol(library, "cblas_sgemm", &blas.sgemm);
		take_symbol(library, "cblas_dgemm", &blas.dgemm);
	}
	if (set_threads) {
		set_threads(1);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}
#endif

/* ---- pieces ---- */
static struct piece piece_at(const struct sgpu_gemm *gemm, uint64_t index, uint64_t rows,
			     uint64_t columns)
{
	uint64_t down = sgpu_ops_ceil(gemm->m, rows), across = sgpu_ops_ceil(gemm->n, columns);
	struct piece piece = {
		.batch = index / (down * across),
		.row = index / across % down * rows,
		.column = index % across * columns,
	};

	piece.rows = sgpu_ops_min(gemm->m - piece.row, rows);
	piece.columns = sgpu_ops_min(gemm->n - piece.column, columns);
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

	if (work < BLAS_WORK_MIN || gemm->k > INT_MAX || gemm->lda > INT_MAX ||
	    gemm->ldb > INT_MAX || gemm->ldc > INT_MAX) {
		return false;
	}
#if SGPU_BLAS
	pthread_once(&once, find_blas);
#endif
	return blas.sgemm && blas.dgemm;
}

int sgpu_gemm(const struct sgpu_gemm *gemm, struct sgpu_launch *launch)
{
	bool by_blas = blas_fits(gemm), single = gemm->dtype == SGPU_F32;
	uint64_t down = sgpu_ops_ceil(gemm->m, by_blas ? BLAS_PIECE_ROWS : GEMM_PIECE_ROWS);
	uint64_t across = sgpu_ops_ceil(gemm->n, by_blas ? BLAS_PIECE_COLUMNS : GEMM_PIECE_COLUMNS);
	struct sgpu_gemm job = *gemm;

	return sgpu_ops_for(launch, gemm->batch * down * across, 1,
			    by_blas ? (single ? f32_body_blas : f64_body_blas)
				    : (single ? f32_body : f64_body),
			    &job);
}
