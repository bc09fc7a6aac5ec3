/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a GPU, and where they are mapped. A space is a reservation of addresses; a page is an
 * allocation of its own, since the driver maps only whole allocations (frames.c makes and keeps
 * them). The driver needs about as long to grant or revoke access to a page of 64 MiB as of 2 MiB,
 * so there are big pages of 64 MiB, too.
 */
#include <device/cuda/gpu.h>

/* ---- addresses ---- */
static int reserve(struct sgpu_device *device, uint64_t extent, sgpu_devptr *base,
		   struct sgpu_error *error)
{
	CUdeviceptr address = 0;
	int rc = sgpu_cuda_check(
		device, sgpu_cu.cuMemAddressReserve(&address, extent, SGPU_CUDA_PAGE_SMALL, 0, 0),
		"cannot reserve addresses for a space", error);

	*base = address;
	return rc;
}

/* ---- mapping ---- */
CUresult sgpu_cuda_page_access(struct sgpu_device *device, CUdeviceptr at, uint64_t size, bool on)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal },
		.flags = on ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE,
	};

	return sgpu_cu.cuMemSetAccess(at, size, &access, 1);
}

/* Unmaps the mapped pages of a range, with one call for consecutive ones. Since nobody knows what a
 * failure leaves mapped, it faults the device. */
static int unmap(struct sgpu_space *space, uint64_t at, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_device *device = space->frames->device;
	const uint64_t end = at + size;
	uint64_t run;
	int rc = sgpu_cuda_enter(device, error);

	for (; rc == SGPU_OK && at < end && sgpu_space_next_run(space, &at, &run) && at < end;
	     at += run) {
		run = run < end - at ? run : end - at;
		rc = sgpu_cuda_must(device, sgpu_cu.cuMemUnmap(space->range.address + at, run),
				    error);
	}
	return rc;
}

static int map(struct sgpu_space *space, uint64_t at, const uint32_t *list, size_t count,
	       uint64_t page_size, struct sgpu_error *error)
{
	struct sgpu_device *device = space->frames->device;
	const CUdeviceptr start = space->range.address + at;
	CUmemGenericAllocationHandle handle;
	int rc = sgpu_cuda_enter(device, error);
	uint64_t done = 0;

	for (size_t i = 0; i < count && rc == SGPU_OK; i++) {
		rc = sgpu_cuda_frame_handle(device, list[i], page_size, &handle, error);
		rc = rc ? rc
			: sgpu_cuda_check(device,
					  sgpu_cu.cuMemMap(start + done, page_size, 0, handle, 0),
					  "cannot map pages", error);
		done += rc == SGPU_OK ? page_size : 0;
	}
	if (rc == SGPU_OK && space->reachable) {
		rc = sgpu_cuda_check(device, sgpu_cuda_page_access(device, start, done, true),
				     "cannot map pages", error);
	}
	if (rc < 0 && done > 0) {
		(void)!sgpu_cuda_must(device, sgpu_cu.cuMemUnmap(start, done), NULL);
	}
	return rc;
}

static int change_access(struct sgpu_space *space, bool on, struct sgpu_error *error)
{
	struct sgpu_device *device = space->frames->device;
	int rc = sgpu_cuda_enter(device, error);
	uint64_t at = 0, size;

	while (rc == SGPU_OK && sgpu_space_next_run(space, &at, &size)) {
		rc = sgpu_cuda_check(
			device, sgpu_cuda_page_access(device, space->range.address + at, size, on),
			"cannot change the access to a space", error);
		at += size;
	}
	return rc;
}

static int lose(struct sgpu_space *space, struct sgpu_error *error)
{
	sgpu_cuda_fault(space->frames->device, SGPU_EDEVICE,
			"the access to a space cannot be taken away");
	return sgpu_cuda_faulted(space->frames->device, error);
}

/* A faulted device's addresses are freed with its context. */
static bool release(struct sgpu_space *space)
{
	struct sgpu_device *device = space->frames->device;

	if (unmap(space, 0, space->size, NULL) == SGPU_OK) {
		sgpu_cuda_note(device,
			       sgpu_cu.cuMemAddressFree(space->range.address, space->range.extent));
	}
	return true;
}

const struct sgpu_frame_calls sgpu_cuda_frame_calls = {
	.prepare = sgpu_cuda_frames_prepare,
	.reserve = reserve,
	.release = release,
	.map = map,
	.unmap = unmap,
	.access = change_access,
	.lose = lose,
};

void sgpu_cuda_pages_close(struct sgpu_device *device)
{
	sgpu_frames_empty(&device->pages.frames);
	sgpu_cuda_frames_close(device);
}

static int pages_info(struct sgpu_device *device, struct sgpu_pages_info *info,
		      struct sgpu_error *error)
{
	return sgpu_frames_info(&device->pages.frames, info, error);
}

static int space_create(struct sgpu_device *device, uint64_t size, struct sgpu_space **space,
			sgpu_devptr *base, struct sgpu_error *error)
{
	return sgpu_frames_space(&device->pages.frames, size, space, base, error);
}

const struct sgpu_device_page_calls sgpu_cuda_page_calls = {
	.info = pages_info,
	.space_create = space_create,
	.space_free = sgpu_frames_space_free,
	.map = sgpu_frames_map,
	.unmap = sgpu_frames_unmap,
	.access = sgpu_frames_access,
};
