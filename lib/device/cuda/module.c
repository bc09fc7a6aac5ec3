/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that came as data: a cubin, a fatbin or PTX text, which the driver compiles.
 */
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include <device/cuda/stream.h>

enum { LOG = 384, SHARED_STANDARD = 48 << 10 };

struct sgpu_device_module {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	CUmodule native;
};

/* ---- all kernels ----
 * CUDA loads a kernel when first used, which keeps the start short, but a load may wait for running
 * kernels. Kernels of operations end, but a module's kernel may not, and no deadline could stop a
 * load that waits for it. So all kernels are loaded before the first module.
 *
 * The linker redirects the runtime's registration of each kernel here (--wrap, in the Makefile). */
/* Declared as compiled objects call it (crt/host_runtime.h). */
void __real___cudaRegisterFunction(void **image, const char *kernel, char *function,
				   const char *name, int limit, void *thread, void *block,
				   void *block_size, void *grid_size, int *warp);
void __wrap___cudaRegisterFunction(void **image, const char *kernel, char *function,
				   const char *name, int limit, void *thread, void *block,
				   void *block_size, void *grid_size, int *warp);

/* This build's kernels, registered while the shared object is loaded. */
static const void **kernels;
static size_t kernel_count, kernel_room;
static bool incomplete;

void __wrap___cudaRegisterFunction(void **image, const char *kernel, char *function,
				   const char *name, int limit, void *thread, void *block,
				   void *block_size, void *grid_size, int *warp)
{
	const void **more;

	if (kernel_count == kernel_room) {
		more = realloc(kernels, (2 * kernel_room + 64) * sizeof(*kernels));
		kernels = more ? more : kernels;
		kernel_room = more ? 2 * kernel_room + 64 : kernel_room;
	}
	if (kernel_count < kernel_room) {
		kernels[kernel_count++] = kernel;
	} else {
		incomplete = true;
	}
	__real___cudaRegisterFunction(image, kernel, function, name, limit, thread, block,
				      block_size, grid_size, warp);
}

static int load_kernels(struct sgpu_device *device, struct sgpu_error *error)
{
	struct cudaFuncAttributes attributes;
	cudaError_t result = cudaSuccess;

	if (atomic_load(&device->kernels_loaded)) {
		return SGPU_OK;
	}
	if (incomplete || kernel_count == 0) {
		return sgpu_fail(error, SGPU_ENOMEM, "the kernels of this build are not all known");
	}
	for (size_t i = 0; i < kernel_count && result == cudaSuccess; i++) {
		result = cudaFuncGetAttributes(&attributes, kernels[i]);
	}
	if (result != cudaSuccess) {
		return sgpu_cuda_check(device, (CUresult)result, "cannot load the kernels", error);
	}
	atomic_store(&device->kernels_loaded, true);
	return SGPU_OK;
}

/* ---- modules ---- */
/* Loads a copy of the image with zeros appended: the driver reads PTX up to a zero byte, and a
 * cubin as far as its headers say. */
static CUresult load(const void *image, size_t size, CUmodule *module, char log[LOG])
{
	CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { log, (void *)(uintptr_t)(LOG - 1) };
	uint8_t *copy = size < SIZE_MAX - 64 ? calloc(1, size + 64) : NULL;
	CUresult result;

	if (!copy) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(copy, image, size);
	result = sgpu_cu.cuModuleLoadDataEx(module, copy, 2, options, values);
	sgpu_free_wiped(&copy, size + 64);
	return result;
}

static CUresult load_functions(CUmodule module)
{
	CUfunction *functions = NULL;
	unsigned count = 0, i;
	CUresult result = sgpu_cu.cuModuleGetFunctionCount(&count, module);

	if (result == CUDA_SUCCESS && count > 0) {
		functions = calloc(count, sizeof(CUfunction));
		result = functions ? sgpu_cu.cuModuleEnumerateFunctions(functions, count, module)
				   : CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = sgpu_cu.cuFuncLoad(functions[i]);
	}
	free(functions);
	return result;
}

static int refused(CUresult result, char *log, struct sgpu_error *error)
{
	log[strcspn(log, "\n")] = '\0';
	return sgpu_fail(error, SGPU_EINVALID,
			 "the module is nothing that this device takes: %s%s%s",
			 sgpu_cuda_name(result), log[0] ? ": " : "", log);
}

static int module_load(struct sgpu_device *device, const void *image, size_t size,
		       struct sgpu_device_module **module, struct sgpu_error *error)
{
	struct sgpu_device_module *new;
	char log[LOG] = "";
	CUresult result;
	int rc = sgpu_cuda_enter(device, error);

	if (rc < 0) {
		return rc;
	}
	if (size == 0) {
		return sgpu_fail(error, SGPU_EINVALID, "the module is empty");
	}
	rc = load_kernels(device, error);
	if (rc < 0) {
		return rc;
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	result = load(image, size, &new->native, log);
	if (result == CUDA_SUCCESS) {
		result = load_functions(new->native);
		if (result != CUDA_SUCCESS) {
			(void)sgpu_cu.cuModuleUnload(new->native);
		}
	}
	if (result == CUDA_SUCCESS) {
		new->object.backend = &sgpu_cuda_backend;
		new->device = device;
		*module = new;
		return SGPU_OK;
	}
	free(new);
	switch (result) {
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_INVALID_SOURCE:
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
		return refused(result, log, error);
	default:
		return sgpu_cuda_check(device, result, "cannot load the module", error);
	}
}

static void module_free(struct sgpu_device_module *module)
{
	if (sgpu_cuda_enter(module->device, NULL) == SGPU_OK) {
		sgpu_cuda_note(module->device, sgpu_cu.cuModuleUnload(module->native));
	}
	free(module);
}

/* A kernel with more parameters than the caller's arguments would read memory after them. */
static int check_args(CUfunction function, const char *name, const size_t *sizes, int count,
		      struct sgpu_error *error)
{
	size_t offset, size;
	int i;

	for (i = 0; i < count; i++) {
		if (sgpu_cu.cuFuncGetParamInfo(function, (size_t)i, &offset, &size) !=
		    CUDA_SUCCESS) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "function '%s' of the module takes %d arguments, not %d",
					 name, i, count);
		}
		if (size != sizes[i]) {
			return sgpu_fail(
				error, SGPU_EINVALID,
				"argument %d of function '%s' of the module has %zu bytes, not %zu",
				i, name, size, sizes[i]);
		}
	}
	if (sgpu_cu.cuFuncGetParamInfo(function, (size_t)count, &offset, &size) == CUDA_SUCCESS) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "function '%s' of the module takes more than %d arguments", name,
				 count);
	}
	return SGPU_OK;
}

/* The context is current. */
static int prepare(struct sgpu_device_module *module, const char *name,
		   const struct sgpu_module_shape *shape, const size_t *sizes, int count,
		   CUfunction *function, struct sgpu_error *error)
{
	CUresult result = sgpu_cu.cuModuleGetFunction(function, module->native, name);
	int rc;

	if (result == CUDA_ERROR_NOT_FOUND) {
		return sgpu_fail(error, SGPU_EINVALID, "the module has no function '%s'", name);
	}
	rc = sgpu_cuda_check(module->device, result, "cannot find a function in the module", error);
	if (rc == SGPU_OK) {
		rc = check_args(*function, name, sizes, count, error);
	}
	/* More than 48 KiB of dynamic shared memory must be requested. */
	if (rc == SGPU_OK && shape->shared_bytes > SHARED_STANDARD &&
	    (shape->shared_bytes > INT32_MAX ||
	     sgpu_cu.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					(int)shape->shared_bytes) != CUDA_SUCCESS)) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "function '%s' of the module cannot have %u bytes of shared memory",
			       name, shape->shared_bytes);
	}
	return rc;
}

static int module_launch(struct sgpu_stream *stream, struct sgpu_device_module *module,
			 const char *function, const struct sgpu_module_shape *shape,
			 void *const *args, const size_t *arg_sizes, int arg_count,
			 const struct sgpu_module_memory *memory, struct sgpu_task *task)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_record record = { .task = task };
	struct sgpu_error ignored, *error = task ? &task->error : &ignored;
	CUresult result = CUDA_SUCCESS;
	CUfunction native;
	int rc = sgpu_cuda_begin(stream, task);

	(void)memory; /* a function on the GPU reaches all memory that is mapped */
	if (rc < 0) {
		return rc;
	}
	if (sgpu_cuda_cancelled(device)) {
		record.code = SGPU_ECANCELED;
		return sgpu_cuda_commit(stream, &record, CUDA_SUCCESS, "");
	}
	rc = prepare(module, function, shape, arg_sizes, arg_count, &native, error);
	if (rc == SGPU_OK) {
		/* The driver copies the arguments, and changes none. */
		result = sgpu_cu.cuLaunchKernel(native, shape->grid[0], shape->grid[1],
						shape->grid[2], shape->block[0], shape->block[1],
						shape->block[2], shape->shared_bytes,
						stream->native, (void **)(uintptr_t)args, NULL);
	}
	if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) {
		rc = sgpu_fail(
			error, SGPU_EINVALID,
			"function '%s' of the module cannot run with this grid and block: %s",
			function, sgpu_cuda_name(result));
	}
	if (rc < 0) {
		pthread_mutex_unlock(&stream->lock);
		if (task) {
			task->code = rc;
		}
		return rc;
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot launch a function of the module");
}

const struct sgpu_device_module_calls sgpu_cuda_module_calls = {
	.load = module_load,
	.free = module_free,
	.launch = module_launch,
};
