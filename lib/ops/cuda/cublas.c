/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS by dlopen. One handle per device, used under a lock, briefly: a call only enqueues. A call
 * gives the same bytes every time: f32 is computed in f32 (no TF32), atomics add nothing, and the
 * workspace, which we provide, has a fixed size.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ops/cuda/ops_cuda.h"
#include "ops/ops_private.h"

enum {
	DEVICES_MAX = 64,
	WORKSPACE = 8 << 20,
	/* Values of cuBLAS's enumerations. */
	OP_N = 0,
	OP_T = 1,
	ATOMICS_NOT_ALLOWED = 0,
	PEDANTIC_MATH = 2,
};

/* Multiplications from which a product goes to cuBLAS: loading it takes longer than a hundred
 * smaller products. A long k and a small output need fewer: cuBLAS, unlike gemm.cu, divides k. */
static const double work_min = 0x1p30, long_work_min = 0x1p26;
enum { LONG_K = 1 << 14, LONG_OUTPUT_MAX = 1 << 17 };

typedef void *handle_type;

static struct {
	bool found;
	char text[192]; /* "13.1.0, libcublas.so.13", or why cuBLAS is not used */
	int (*create)(handle_type *handle);
	int (*destroy)(handle_type handle);
	int (*set_stream)(handle_type handle, cudaStream_t stream);
	int (*set_workspace)(handle_type handle, void *memory, size_t size);
	int (*set_math)(handle_type handle, int mode);
	int (*set_atomics)(handle_type handle, int mode);
	int (*get_property)(int type, int *value);
	const char *(*status_text)(int status);
	int (*sgemm)(handle_type handle, int transpose_a, int transpose_b, int64_t m, int64_t n,
		     int64_t k, const float *alpha, const float *a, int64_t lda, int64_t stride_a,
		     const float *b, int64_t ldb, int64_t stride_b, const float *beta, float *c,
		     int64_t ldc, int64_t stride_c, int64_t batch);
	int (*dgemm)(handle_type handle, int transpose_a, int transpose_b, int64_t m, int64_t n,
		     int64_t k, const double *alpha, const double *a, int64_t lda, int64_t stride_a,
		     const double *b, int64_t ldb, int64_t stride_b, const double *beta, double *c,
		     int64_t ldc, int64_t stride_c, int64_t batch);
} library;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the handles */
static handle_type handles[DEVICES_MAX];

static bool take_symbol(void *from, const char *name, void *function_pointer)
{
	void *symbol = dlsym(from, name);

	memcpy(function_pointer, &symbol, sizeof(symbol));
	if (!symbol) {
		snprintf(library.text, sizeof(library.text),
			 "too old, it has no '%s': 12.0 or newer is needed", name);
	}
	return symbol != NULL;
}

/* Looks for the library by name, then in the folders where toolkits install it. */
static void *open_library(char name[128])
{
	const char *home = getenv("CUDA_HOME"), *standard = "/usr/local/cuda";
	const char *const folders[] = { "", home ? home : standard, standard };
	void *opened = NULL;

	for (int i = 0; i < 6 && !opened; i++) {
		if (snprintf(name, 128, "%s%slibcublas.so.%d", folders[i / 2],
			     i < 2 ? "" : "/lib64/", i % 2 ? 12 : 13) < 128) {
			opened = dlopen(name, RTLD_NOW | RTLD_LOCAL);
		}
	}
	return opened;
}

static bool take_symbols(void *from)
{
	return take_symbol(from, "cublasCreate_v2", &library.create) &&
	       take_symbol(from, "cublasDestroy_v2", &library.destroy) &&
	       take_symbol(from, "cublasSetStream_v2", &library.set_stream) &&
	       take_symbol(from, "cublasSetWorkspace_v2", &library.set_workspace) &&
	       take_symbol(from, "cublasSetMathMode", &library.set_math) &&
	       take_symbol(from, "cublasSetAtomicsMode", &library.set_atomics) &&
	       take_symbol(from, "cublasGetProperty", &library.get_property) &&
	       take_symbol(from, "cublasGetStatusString", &library.status_text) &&
	       take_symbol(from, "cublasSgemmStridedBatched_64", &library.sgemm) &&
	       take_symbol(from, "cublasDgemmStridedBatched_64", &library.dgemm);
}

static void find(void)
{
	const char *wanted = getenv("SGPU_BLAS");
	int version[3] = { 0 };
	sigset_t before;
	char name[128];
	void *opened;

	if (wanted && strcmp(wanted, "0") == 0) {
		snprintf(library.text, sizeof(library.text), "not used: SGPU_BLAS is 0");
		return;
	}
	/* Keeps threads that the library starts from receiving the program's signals. */
	sgpu_signals_block(&before);
	opened = open_library(name);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!opened) {
		snprintf(library.text, sizeof(library.text),
			 "neither libcublas.so.13 nor .12 is in the library path, CUDA_HOME/lib64 "
			 "or /usr/local/cuda/lib64; NVIDIA's package libcublas-13-0 has it");
		return;
	}
	if (!take_symbols(opened)) {
		return;
	}
	for (int i = 0; i < 3; i++) {
		if (library.get_property(i, &version[i])) {
			version[i] = 0;
		}
	}
	library.found = true;
	snprintf(library.text, sizeof(library.text), "%d.%d.%d, %s", version[0], version[1],
		 version[2], name);
}

static bool there(void)
{
	pthread_once(&once, find);
	return library.found;
}

bool sgpu_cuda_cublas_status(char *text, size_t size)
{
	bool found = there();

	snprintf(text, size, "%s", library.text);
	return found;
}

bool sgpu_cublas_fits(const struct sgpu_gemm *gemm)
{
	double outputs = (double)gemm->batch * (double)gemm->m * (double)gemm->n,
	       work = outputs * (double)gemm->k;
	bool is_long = gemm->k >= LONG_K && outputs <= LONG_OUTPUT_MAX;

	return work >= (is_long ? long_work_min : work_min) && there();
}

/* ---- errors ---- */
static int check(struct sgpu_launch *launch, int status)
{
	return status == 0 ? 0
			   : sgpu_fail(launch->error, SGPU_EDEVICE, "cuBLAS: %s",
				       library.status_text(status));
}

int sgpu_cuda_runtime_check(struct sgpu_launch *launch, cudaError_t code)
{
	return code == cudaSuccess
		       ? 0
		       : sgpu_fail(launch->error,
				   code == cudaErrorMemoryAllocation ? SGPU_ENOMEM : SGPU_EDEVICE,
				   "%s (%s)", cudaGetErrorString(code), cudaGetErrorName(code));
}

/* ---- a device's handle; the lock is held ---- */
/* The device's pool of memory keeps unused workspaces, so that no call waits for the driver. */
static int keep_memory(struct sgpu_launch *launch, int device)
{
	uint64_t keep = UINT64_MAX;
	cudaMemPool_t pool;
	int rc = sgpu_cuda_runtime_check(launch, cudaDeviceGetDefaultMemPool(&pool, device));

	return rc ? rc
		  : sgpu_cuda_runtime_check(
			    launch,
			    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
}

static int make_handle(struct sgpu_launch *launch, int device)
{
	sigset_t before;
	handle_type handle = NULL;
	int rc = keep_memory(launch, device);

	sgpu_signals_block(&before);
	rc = rc ? rc : check(launch, library.create(&handle));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	rc = rc ? rc : check(launch, library.set_math(handle, PEDANTIC_MATH));
	rc = rc ? rc : check(launch, library.set_atomics(handle, ATOMICS_NOT_ALLOWED));
	if (rc && handle) {
		library.destroy(handle);
	}
	handles[device] = rc ? NULL : handle;
	return rc;
}

static int get_handle(struct sgpu_launch *launch, handle_type *handle)
{
	int device = 0, rc = sgpu_cuda_runtime_check(launch, cudaGetDevice(&device));

	if (!rc && (device < 0 || device >= DEVICES_MAX)) {
		rc = sgpu_fail(launch->error, SGPU_EDEVICE,
			       "device %d is beyond the %d that are supported", device,
			       DEVICES_MAX);
	}
	if (!rc && !handles[device]) {
		rc = make_handle(launch, device);
	}
	*handle = rc ? NULL : handles[device];
	return rc;
}

/* ---- the product ---- */
/* cuBLAS stores columns, we store rows: op(b)^T op(a)^T is the transposed product. */
static int enqueue(struct sgpu_launch *launch, handle_type handle, const struct sgpu_gemm *g)
{
	int first = g->transpose_b ? OP_T : OP_N, second = g->transpose_a ? OP_T : OP_N;
	int64_t m = (int64_t)g->n, n = (int64_t)g->m, k = (int64_t)g->k, lda = (int64_t)g->ldb,
		ldb = (int64_t)g->lda, ldc = (int64_t)g->ldc, batch = (int64_t)g->batch;
	int64_t step_a = (int64_t)g->stride_b, step_b = (int64_t)g->stride_a,
		step_c = (int64_t)g->stride_c;
	float alpha = (float)g->alpha, beta = (float)g->beta;

	return check(launch, g->dtype == SGPU_F32
				     ? library.sgemm(handle, first, second, m, n, k, &alpha, g->b,
						     lda, step_a, g->a, ldb, step_b, &beta,
						     g->output, ldc, step_c, batch)
				     : library.dgemm(handle, first, second, m, n, k, &g->alpha,
						     g->b, lda, step_a, g->a, ldb, step_b, &g->beta,
						     g->output, ldc, step_c, batch));
}

/* Called with the lock held. Setting the stream resets the workspace, so the stream comes first. */
static int run(struct sgpu_launch *launch, const struct sgpu_gemm *gemm)
{
	cudaStream_t stream = (cudaStream_t)launch->native;
	void *workspace = NULL;
	handle_type handle;
	int rc = get_handle(launch, &handle), ended;

	rc = rc ? rc
		: sgpu_cuda_runtime_check(launch, cudaMallocAsync(&workspace, WORKSPACE, stream));
	rc = rc ? rc : check(launch, library.set_stream(handle, stream));
	rc = rc ? rc : check(launch, library.set_workspace(handle, workspace, WORKSPACE));
	rc = rc ? rc : enqueue(launch, handle, gemm);
	if (workspace) {
		ended = sgpu_cuda_runtime_check(launch,
						cudaMemsetAsync(workspace, 0, WORKSPACE, stream));
		rc = rc ? rc : ended;
		ended = sgpu_cuda_runtime_check(launch, cudaFreeAsync(workspace, stream));
		rc = rc ? rc : ended;
	}
	return rc;
}

int sgpu_cublas_gemm(struct sgpu_launch *launch, const struct sgpu_gemm *gemm)
{
	uint64_t elements = (gemm->batch - 1) * gemm->stride_c + gemm->m * gemm->ldc;
	int rc = 0;

	if (gemm->beta != 0) { /* c has the output's layout, without gaps */
		rc = sgpu_cuda_runtime_check(
			launch,
			cudaMemcpyAsync(gemm->output, gemm->c,
					elements * sgpu_dtype_size(gemm->dtype),
					cudaMemcpyDeviceToDevice, (cudaStream_t)launch->native));
	}
	if (!rc) {
		pthread_mutex_lock(&lock);
		rc = run(launch, gemm);
		pthread_mutex_unlock(&lock);
	}
	return rc;
}
