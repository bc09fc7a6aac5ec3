/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory of the caller that is registered with the device, and which host memory kernels reach
 * by themselves: that, and the device's own pinned memory.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/gpu.h>

struct sgpu_cuda_registered {
	uintptr_t begin;
	uint64_t size;
	CUdeviceptr address; /* where kernels reach it */
	bool writable;
	struct sgpu_cuda_registered *next;
};

/* Not known: then kernels do not reach it, and copies do all the same. */
static void remember(struct sgpu_device *device, const void *memory, uint64_t size, bool writable)
{
	struct sgpu_cuda_registered *new = calloc(1, sizeof(*new));

	if (!new || sgpu_cu.cuMemHostGetDevicePointer(&new->address, (void *)(uintptr_t)memory,
						      0) != CUDA_SUCCESS) {
		free(new);
		return;
	}
	new->begin = (uintptr_t)memory;
	new->size = size;
	new->writable = writable;
	pthread_mutex_lock(&device->host.lock);
	new->next = device->host.registered;
	device->host.registered = new;
	pthread_mutex_unlock(&device->host.lock);
}

static void forget(struct sgpu_device *device, const void *memory)
{
	struct sgpu_cuda_registered **link = &device->host.registered, *found;

	pthread_mutex_lock(&device->host.lock);
	while (*link && (*link)->begin != (uintptr_t)memory) {
		link = &(*link)->next;
	}
	found = *link;
	if (found) {
		*link = found->next;
	}
	pthread_mutex_unlock(&device->host.lock);
	free(found);
}

int sgpu_cuda_host_register(struct sgpu_device *device, const void *memory, uint64_t size,
			    struct sgpu_error *error)
{
	unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;
	bool writable = true;
	void *address = (void *)(uintptr_t)memory;
	int code = sgpu_cuda_enter(device, error);

	if (code < 0) {
		return code;
	}
	if (device->registers) {
		result = sgpu_cu.cuMemHostRegister(address, size, flags);
		if (result != CUDA_SUCCESS && !sgpu_cuda_sticky(result) &&
		    device->registers_read_only) {
			/* A mapping that may only be read. */
			writable = false;
			result = sgpu_cu.cuMemHostRegister(address, size,
							   flags | CU_MEMHOSTREGISTER_READ_ONLY);
		}
	}
	if (result == CUDA_SUCCESS) {
		remember(device, memory, size, writable);
		return SGPU_OK;
	}
	if (sgpu_cuda_sticky(result)) {
		return sgpu_cuda_check(device, result, "cannot register host memory", error);
	}
	if (strcmp(device->confidential, "on") == 0 ||
	    strcmp(device->confidential, "devtools") == 0) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "host memory cannot be registered: the GPU is in confidential "
				 "computing mode, which refuses it (%s)",
				 sgpu_cuda_name(result));
	}
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "host memory cannot be registered: %s (%s)",
			 sgpu_cuda_name(result), sgpu_cuda_text(result));
}

void sgpu_cuda_host_unregister(struct sgpu_device *device, const void *memory)
{
	forget(device, memory);
	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		sgpu_cuda_note(device, sgpu_cu.cuMemHostUnregister((void *)(uintptr_t)memory));
	}
}

CUdeviceptr sgpu_cuda_reach(struct sgpu_device *device, const void *memory, uint64_t size,
			    bool write)
{
	const uintptr_t begin = (uintptr_t)memory;
	CUdeviceptr address;

	/* In confidential computing mode the driver moves such memory as it likes. */
	if (!device->registers) {
		return 0;
	}
	address = sgpu_cuda_host_address(device, memory, size);
	pthread_mutex_lock(&device->host.lock);
	for (const struct sgpu_cuda_registered *r = device->host.registered; r && address == 0;
	     r = r->next) {
		if (begin >= r->begin && begin - r->begin <= r->size &&
		    size <= r->size - (begin - r->begin) && (r->writable || !write)) {
			address = r->address + (begin - r->begin);
		}
	}
	pthread_mutex_unlock(&device->host.lock);
	return address;
}

bool sgpu_cuda_reaches(struct sgpu_device *device, const void *memory, uint64_t size, bool write)
{
	return sgpu_cuda_reach(device, memory, size, write) != 0;
}

void sgpu_cuda_registered_close(struct sgpu_device *device)
{
	struct sgpu_cuda_registered *r;

	while ((r = device->host.registered)) {
		device->host.registered = r->next;
		free(r);
	}
}
