/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading the driver's library, and what its results mean.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <device/cuda/gpu.h>

struct sgpu_cuda_driver sgpu_cu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int outcome;
static struct sgpu_error reason;

const char *sgpu_cuda_name(CUresult result)
{
	static _Thread_local char number[32];
	const char *name = NULL;

	if (sgpu_cu.cuGetErrorName && sgpu_cu.cuGetErrorName(result, &name) == CUDA_SUCCESS &&
	    name) {
		return name;
	}
	snprintf(number, sizeof(number), "CUDA error %d", (int)result);
	return number;
}

const char *sgpu_cuda_text(CUresult result)
{
	const char *text = NULL;

	return sgpu_cu.cuGetErrorString &&
			       sgpu_cu.cuGetErrorString(result, &text) == CUDA_SUCCESS && text
		       ? text
		       : "no text for it";
}

bool sgpu_cuda_sticky(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_MPS_CLIENT_TERMINATED:
	case CUDA_ERROR_KEY_ROTATION:
	case CUDA_ERROR_UNKNOWN:
		return true;
	default:
		return false;
	}
}

int sgpu_cuda_fail(struct sgpu_error *error, CUresult result, const char *what)
{
	int rc = result == CUDA_ERROR_OUT_OF_MEMORY   ? SGPU_ENOMEM
		 : result == CUDA_ERROR_NOT_SUPPORTED ? SGPU_EUNAVAILABLE
						      : SGPU_EDEVICE;

	return sgpu_fail(error, rc, "%s: %s (%s)", what, sgpu_cuda_name(result),
			 sgpu_cuda_text(result));
}

/* Explains why cuInit failed or found no device. */
static int init_failed(CUresult result, struct sgpu_error *error)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (result == CUDA_ERROR_NO_DEVICE) {
		if (visible) {
			sgpu_fail(error, SGPU_EUNAVAILABLE,
				  "no GPU is visible: CUDA_VISIBLE_DEVICES is '%s'", visible);
			return sgpu_hint(error, "unset CUDA_VISIBLE_DEVICES or name a GPU in it, "
						"or use the device 'cpu'");
		}
		sgpu_fail(error, SGPU_EUNAVAILABLE, "the NVIDIA driver shows no GPU");
		return sgpu_hint(error, "see nvidia-smi -L; a container needs the GPU passed into "
					"it (--gpus all); or use "
					"the device 'cpu'");
	}
	sgpu_fail(error, SGPU_EUNAVAILABLE, "CUDA cannot be initialised: %s (%s)",
		  sgpu_cuda_name(result), sgpu_cuda_text(result));
	if (access("/dev/nvidiactl", F_OK) != 0) {
		return sgpu_hint(error, "the NVIDIA driver's kernel module is not loaded (there is "
					"no /dev/nvidiactl): load "
					"it, or use the device 'cpu'");
	}
	if (result == CUDA_ERROR_SYSTEM_NOT_READY) {
		return sgpu_hint(
			error,
			"a machine with NVSwitch needs nvidia-fabricmanager, and one in "
			"confidential "
			"computing mode nvidia-smi conf-compute -srs 1; or use the device 'cpu'");
	}
	return sgpu_hint(error, "see nvidia-smi and the kernel's log, or use the device 'cpu'");
}

bool sgpu_cuda_find(void *library, const char *name, void *function)
{
	void *address = dlsym(library, name);

	/* C does not convert an object pointer to a function pointer. */
	memcpy(function, &address, sizeof(address));
	return address != NULL;
}

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

/* Finds the functions that are there. Returns the name of a missing one, or NULL. */
static const char *find_all(void *library)
{
	const char *missing = NULL;

#define FIND(name)                                                 \
	if (!sgpu_cuda_find(library, TEXT(name), &sgpu_cu.name)) { \
		missing = TEXT(name);                              \
	}
	SGPU_CUDA_FUNCTIONS(FIND)
#undef FIND
	return missing;
}

static int load(struct sgpu_error *error)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const int needed =
		CUDA_VERSION / 1000 * 1000; /* any driver of the same major version serves it */
	const char *missing;
	CUresult result;

	if (!library) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "the NVIDIA driver's libcuda.so.1 cannot be loaded");
		return sgpu_hint(error, "install the NVIDIA driver (Debian: nvidia-driver), pass "
					"the GPU into the container "
					"(--gpus all), or use the device 'cpu'");
	}
	missing = find_all(library);
	if (!sgpu_cu.cuDriverGetVersion ||
	    sgpu_cu.cuDriverGetVersion(&sgpu_cu.version) != CUDA_SUCCESS) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "libcuda.so.1 is no NVIDIA driver's: it tells no version");
		return sgpu_hint(error, "install the NVIDIA driver, or use the device 'cpu'");
	}
	if (sgpu_cu.version < needed) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "the NVIDIA driver is too old: it serves CUDA %d.%d, sgpu needs %d.%d",
			  sgpu_cu.version / 1000, sgpu_cu.version % 1000 / 10, needed / 1000,
			  needed % 1000 / 10);
		return sgpu_hint(error, "update the NVIDIA driver, build sgpu with an older CUDA "
					"(NVCC=), or use the "
					"device 'cpu'");
	}
	if (missing) {
		sgpu_fail(error, SGPU_EUNAVAILABLE, "the NVIDIA driver's libcuda.so.1 has no '%s'",
			  missing);
		return sgpu_hint(error, "install a newer NVIDIA driver, or use the device 'cpu'");
	}
	result = sgpu_cu.cuInit(0);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuDeviceGetCount(&sgpu_cu.count);
	}
	if (result == CUDA_SUCCESS && sgpu_cu.count <= 0) {
		result = CUDA_ERROR_NO_DEVICE;
	}
	return result == CUDA_SUCCESS ? SGPU_OK : init_failed(result, error);
}

static void load_once(void)
{
	outcome = load(&reason);
}

int sgpu_cuda_driver_load(struct sgpu_error *error)
{
	pthread_once(&once, load_once);
	if (outcome < 0 && error) {
		*error = reason;
	}
	return outcome;
}
