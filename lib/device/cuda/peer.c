/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of one GPU that another reaches, too. Each range is an allocation, mapped for these two
 * GPUs only: access between contexts (cuCtxEnablePeerAccess) would open all other memory, too.
 */
#include <stdlib.h>

#include <base/base.h>
#include <device/cuda/stream.h>

#define PEER_PAGE ((uint64_t)2 << 20)

/* One such range, listed in `memory.shared` of both devices. */
struct shared {
	/* the owner's entry; first, so that a cast gives the struct */
	struct sgpu_range here;
	struct sgpu_range there; /* the other device's entry */
	uint64_t extent;	 /* bytes, in whole pages */
	CUmemGenericAllocationHandle handle;
};

static int make(struct sgpu_device *device, struct sgpu_device *peer, struct shared *new,
		CUdeviceptr *address, struct sgpu_error *error)
{
	CUresult result = sgpu_cuda_handle_make(device, new->extent, &new->handle);

	if (result != CUDA_SUCCESS) {
		return sgpu_cuda_memory_refuse(device, result, new->extent, error);
	}
	result = sgpu_cu.cuMemAddressReserve(address, new->extent, PEER_PAGE, 0, 0);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemMap(*address, new->extent, 0, new->handle, 0);
		if (result == CUDA_SUCCESS) {
			result = sgpu_cuda_page_access(device, *address, new->extent, true);
			if (result == CUDA_SUCCESS) {
				result = sgpu_cuda_page_access(peer, *address, new->extent, true);
			}
			if (result == CUDA_SUCCESS) {
				result = sgpu_cuda_clear(device, *address, new->extent);
			}
			if (result == CUDA_SUCCESS) {
				return SGPU_OK;
			}
			(void)sgpu_cu.cuMemUnmap(*address, new->extent);
		}
		(void)sgpu_cu.cuMemAddressFree(*address, new->extent);
	}
	(void)sgpu_cu.cuMemRelease(new->handle);
	if (sgpu_cuda_sticky(result)) {
		return sgpu_cuda_check(device, result, "cannot share memory", error);
	}
	return sgpu_fail(error, SGPU_EUNAVAILABLE, "GPU %d does not reach memory of GPU %d: %s",
			 peer->ordinal, device->ordinal, sgpu_cuda_name(result));
}

static bool enter(struct sgpu_device *device, struct sgpu_range *range)
{
	bool entered;

	pthread_mutex_lock(&device->memory.lock);
	entered = sgpu_ranges_insert(&device->memory.shared, range);
	pthread_mutex_unlock(&device->memory.lock);
	return entered;
}

static struct sgpu_range *leave(struct sgpu_device *device, sgpu_devptr address)
{
	struct sgpu_range *range;

	pthread_mutex_lock(&device->memory.lock);
	range = sgpu_ranges_find(&device->memory.shared, address);
	if (range) {
		sgpu_ranges_remove(&device->memory.shared, range);
	}
	pthread_mutex_unlock(&device->memory.lock);
	return range;
}

/* A faulted device's memory is freed with its context. */
static void destroy(struct sgpu_device *device, struct shared *old, CUdeviceptr address)
{
	CUresult result;

	sgpu_cuda_clear_now(device, address, old->extent);
	if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		result = sgpu_cu.cuMemUnmap(address, old->extent);
		if (result == CUDA_SUCCESS) {
			(void)sgpu_cu.cuMemAddressFree(address, old->extent);
			result = sgpu_cu.cuMemRelease(old->handle);
		}
		sgpu_cuda_note(device, result);
	}
	sgpu_cuda_memory_uncount(device, old->extent);
	free(old);
}

int sgpu_cuda_shared_alloc(struct sgpu_device *device, struct sgpu_device *peer, uint64_t size,
			   sgpu_devptr *memory, struct sgpu_error *error)
{
	struct shared *new;
	CUdeviceptr address = 0;
	int reaches = 0, rc = sgpu_cuda_enter(device, error);

	if (rc < 0) {
		return rc;
	}
	if (device->ordinal == peer->ordinal ||
	    sgpu_cu.cuDeviceCanAccessPeer(&reaches, peer->handle, device->handle) != CUDA_SUCCESS ||
	    !reaches) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "GPU %d does not reach memory of GPU %d",
				 peer->ordinal, device->ordinal);
	}
	new = calloc(1, sizeof(*new));
	if (!new || size > INT64_MAX) {
		free(new);
		return sgpu_fail_nomem(error);
	}
	new->extent = (size / PEER_PAGE + 1) * PEER_PAGE;
	rc = sgpu_cuda_memory_count(device, new->extent, error);
	if (rc == SGPU_OK) {
		rc = make(device, peer, new, &address, error);
		if (rc < 0) {
			sgpu_cuda_memory_uncount(device, new->extent);
		}
	}
	if (rc < 0) {
		free(new);
		return rc;
	}
	new->here = new->there =
		(struct sgpu_range){ .address = address, .extent = size ? size : 1 };
	if (!enter(device, &new->here) || !enter(peer, &new->there)) {
		(void)leave(device, address);
		destroy(device, new, address);
		return sgpu_fail_nomem(error);
	}
	*memory = address;
	return SGPU_OK;
}

void sgpu_cuda_shared_free(struct sgpu_device *device, struct sgpu_device *peer, sgpu_devptr memory)
{
	struct shared *old;

	(void)leave(peer, memory);
	old = (struct shared *)(void *)leave(device, memory);
	if (old) {
		destroy(device, old, memory);
	}
}
