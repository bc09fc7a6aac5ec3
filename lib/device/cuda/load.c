/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading all kernels. CUDA loads one when it is first used, which keeps a start short, but may
 * wait for kernels that run. Those of the operations end by themselves. One of a module may not,
 * and would then hold up the first use of others, out of the reach of any deadline: so before there
 * is a module, everything is loaded.
 *
 * The linker leads the runtime's registration of each kernel here (--wrap, in the Makefile).
 */
#include <stdlib.h>

#include <cuda_runtime_api.h>

#include <device/cuda/gpu.h>

/* As compiled objects call it: crt/host_runtime.h. */
void __real___cudaRegisterFunction(void **image, const char *kernel, char *function,
				   const char *name, int limit, void *thread, void *block,
				   void *block_size, void *grid_size, int *warp);
void __wrap___cudaRegisterFunction(void **image, const char *kernel, char *function,
				   const char *name, int limit, void *thread, void *block,
				   void *block_size, void *grid_size, int *warp);

/* Filled while the shared object is loaded. */
static const void **kernels;
static size_t count, room;
static bool incomplete;

void __wrap___cudaRegisterFunction(void **image, const char *kernel, char *function,
				   const char *name, int limit, void *thread, void *block,
				   void *block_size, void *grid_size, int *warp)
{
	const void **more;

	if (count == room) {
		more = realloc(kernels, (2 * room + 64) * sizeof(*kernels));
		kernels = more ? more : kernels;
		room = more ? 2 * room + 64 : room;
	}
	if (count < room) {
		kernels[count++] = kernel;
	} else {
		incomplete = true;
	}
	__real___cudaRegisterFunction(image, kernel, function, name, limit, thread, block,
				      block_size, grid_size, warp);
}

int sgpu_cuda_load_kernels(struct sgpu_device *device, struct sgpu_error *error)
{
	struct cudaFuncAttributes attributes;
	cudaError_t result = cudaSuccess;
	bool loaded;

	pthread_mutex_lock(&device->pool_lock);
	loaded = device->kernels_loaded;
	pthread_mutex_unlock(&device->pool_lock);
	if (loaded) {
		return SGPU_OK;
	}
	if (incomplete || count == 0) {
		return sgpu_fail(error, SGPU_ENOMEM, "the kernels of this build are not all known");
	}
	for (size_t i = 0; i < count && result == cudaSuccess; i++) {
		result = cudaFuncGetAttributes(&attributes, kernels[i]);
	}
	if (result != cudaSuccess) {
		return sgpu_cuda_check(device, (CUresult)result, "cannot load the kernels", error);
	}
	pthread_mutex_lock(&device->pool_lock);
	device->kernels_loaded = true;
	pthread_mutex_unlock(&device->pool_lock);
	return SGPU_OK;
}
