/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve of the CUDA device's memory.
 */
#include <device/cuda/digest.h>
#include <device/cuda/gpu.h>

/* The first digest of a device makes what all of them use. */
static struct sgpu_cuda_digests *digests_of(struct sgpu_device *device)
{
	struct sgpu_cuda_digests *digests;

	pthread_mutex_lock(&device->pool_lock);
	if (!device->digests) {
		device->digests = sgpu_cuda_digests_create();
	}
	digests = device->digests;
	pthread_mutex_unlock(&device->pool_lock);
	return digests;
}

int sgpu_cuda_digest_memory(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
			    const void *custom, size_t custom_size, uint8_t *digest,
			    struct sgpu_task *task)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_record record = { .task = task, .digest = digest };
	struct sgpu_cuda_digests *digests;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	int code = sgpu_cuda_check_range(device, memory, size, task);

	code = code == SGPU_OK ? sgpu_cuda_begin(stream, task) : code;
	if (code < 0) {
		return code;
	}
	if (atomic_load(&device->cancel_ns) != 0) {
		record.code = SGPU_ECANCELED;
		return sgpu_cuda_commit(stream, &record, CUDA_SUCCESS, "");
	}
	digests = digests_of(device);
	if (digests) {
		record.status = sgpu_cuda_status_take(device, 0);
	}
	if (record.status) {
		result = (CUresult)sgpu_cuda_digest_enqueue(
			digests, stream->native, memory, size, custom, custom_size,
			record.status->host, record.status->device);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot digest on the device");
}
