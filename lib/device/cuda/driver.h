/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA Driver API, from the driver's libcuda.so.1, loaded when first needed.
 */
#ifndef SGPU_DEVICE_CUDA_DRIVER_H
#define SGPU_DEVICE_CUDA_DRIVER_H

#include <stdbool.h>

#include <cuda.h>

#include <sgpu/error.h>

/* Packed by hand: each line has functions of one kind. */
/* clang-format off */
/* Every function used; cuda.h maps these names to the versions that it declares. */
#define SGPU_CUDA_FUNCTIONS(F) \
	F(cuGetErrorName) F(cuGetErrorString) F(cuDriverGetVersion) \
	F(cuInit) F(cuDeviceGetCount) F(cuDeviceGet) F(cuDeviceGetName) F(cuDeviceGetUuid) \
	F(cuDeviceGetAttribute) F(cuDeviceGetPCIBusId) F(cuDeviceTotalMem) F(cuDeviceCanAccessPeer) \
	F(cuDevicePrimaryCtxRetain) \
	F(cuCtxSetCurrent) F(cuCtxSynchronize) F(cuMemGetInfo) \
	F(cuMemAlloc) F(cuMemFree) F(cuMemHostAlloc) F(cuMemFreeHost) F(cuMemHostGetDevicePointer) \
	F(cuMemHostRegister) F(cuMemHostUnregister) \
	F(cuMemcpyHtoDAsync) F(cuMemcpyDtoHAsync) F(cuMemsetD8Async) \
	F(cuStreamCreate) F(cuStreamDestroy) F(cuStreamWaitEvent) \
	F(cuStreamSynchronize) F(cuStreamQuery) \
	F(cuEventCreate) F(cuEventDestroy) F(cuEventRecord) F(cuEventQuery) F(cuEventElapsedTime) \
	F(cuModuleLoadDataEx) F(cuModuleUnload) F(cuModuleGetFunction) F(cuModuleGetFunctionCount) \
	F(cuModuleEnumerateFunctions) F(cuFuncLoad) F(cuFuncGetParamInfo) F(cuFuncSetAttribute) F(cuLaunchKernel) \
	F(cuMemGetAllocationGranularity) F(cuMemAddressReserve) F(cuMemAddressFree) F(cuMemCreate) F(cuMemRelease) \
	F(cuMemMap) F(cuMemUnmap) F(cuMemSetAccess)
/* clang-format on */

struct sgpu_cuda_driver {
#define SGPU_CUDA_MEMBER(name) __typeof__(name) *name;
	SGPU_CUDA_FUNCTIONS(SGPU_CUDA_MEMBER)
#undef SGPU_CUDA_MEMBER
	int version; /* newest CUDA version that the driver serves: 13000 is 13.0 */
	int count;
};

/* Filled once sgpu_cuda_driver_load has succeeded. */
extern struct sgpu_cuda_driver sgpu_cu;

/* Loads the driver once, from any thread. SGPU_EUNAVAILABLE: what is missing and how to get it. */
SGPU_MUST_CHECK int sgpu_cuda_driver_load(struct sgpu_error *error);

bool sgpu_cuda_find(void *library, const char *name, void *function);
/* Fills in an error, "WHAT: CUDA_ERROR_... (its text)". Returns SGPU_ENOMEM, SGPU_EUNAVAILABLE or
 * SGPU_EDEVICE. */
int sgpu_cuda_fail(struct sgpu_error *error, CUresult result, const char *what);
/* Returns a result's name, or its number as text; valid until this thread's next call. */
const char *sgpu_cuda_name(CUresult result);
const char *sgpu_cuda_text(CUresult result);
bool sgpu_cuda_sticky(CUresult result);

#endif
