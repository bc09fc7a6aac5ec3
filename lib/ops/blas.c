/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a BLAS at run time. It is used one thread a call: the pool decides who computes.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"

static struct sgpu_blas found = { .name = "built in" };

#if SGPU_BLAS
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Copies a function's address out of what dlsym returns; C has no cast between the two. */
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

static void find(void)
{
	const char *wanted = getenv("SGPU_BLAS");
	void (*set_threads)(int count) = NULL;
	sigset_t all, before;
	void *library;

	if (wanted && strcmp(wanted, "0") == 0) {
		return;
	}
	/* Threads that the library starts may not take the program's signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	library = open_library();
	if (library) {
		take_symbol(library, "openblas_set_num_threads", &set_threads);
		take_symbol(library, "cblas_sgemm", &found.sgemm);
		take_symbol(library, "cblas_dgemm", &found.dgemm);
	}
	if (set_threads) {
		set_threads(1);
	}
	if (found.sgemm && found.dgemm) {
		found.name = set_threads ? "openblas" : "blas";
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}
#endif

const struct sgpu_blas *sgpu_blas_find(void)
{
#if SGPU_BLAS
	pthread_once(&once, find);
#endif
	return &found;
}

const char *sgpu_gemm_provider(void)
{
	return sgpu_blas_find()->name;
}
