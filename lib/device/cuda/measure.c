/* SPDX-License-Identifier: Apache-2.0
 *
 * The measure of the CUDA device's memory.
 */
#include <stdlib.h>

#include <device/cuda/gpu.h>
#include <device/cuda/measure.h>

/* One that is under way. */
struct sgpu_cuda_measure {
	struct sgpu_measure_custom custom;
	uint64_t pages;
	void *digests; /* of the pages; from the device's host memory */
	uint8_t *result;
};

static uint64_t digests_size(const struct sgpu_cuda_measure *measure)
{
	return measure->pages * SGPU_KT128_SIZE;
}

void sgpu_cuda_measure_finish(const struct sgpu_cuda_measure *measure)
{
	sgpu_kt128(measure->digests, digests_size(measure), measure->custom.bytes,
		   measure->custom.size, measure->result, SGPU_DIGEST_SIZE);
}

void sgpu_cuda_measure_free(struct sgpu_device *device, struct sgpu_cuda_measure **measure)
{
	if (*measure && (*measure)->digests) {
		sgpu_cuda_host_free(device, (*measure)->digests, digests_size(*measure));
	}
	sgpu_free_wiped(measure, sizeof(**measure));
}

static struct sgpu_cuda_measure *create(struct sgpu_device *device, uint64_t size,
					const uint8_t *key, uint8_t *result)
{
	struct sgpu_cuda_measure *new = calloc(1, sizeof(*new));

	if (new) {
		sgpu_measure_custom(key, &new->custom);
		new->pages = size / SGPU_MEASURE_PAGE + (size % SGPU_MEASURE_PAGE > 0);
		new->result = result;
		if (sgpu_cuda_host_alloc(device, digests_size(new), &new->digests, NULL) < 0) {
			sgpu_cuda_measure_free(device, &new);
		}
	}
	return new;
}

/* A stream has scratch memory of its own from its first measure on: its work runs in order. */
static CUresult enqueue(struct sgpu_stream *stream, const struct sgpu_cuda_measure *measure,
			sgpu_devptr memory, uint64_t size)
{
	struct sgpu_device *device = stream->device;
	CUdeviceptr *scratch = &stream->kept.scratch;

	if (!*scratch &&
	    sgpu_cuda_private_alloc(device, sgpu_cuda_measure_scratch(), scratch, NULL) < 0) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return (CUresult)sgpu_cuda_measure_enqueue(stream->native, memory, size, &measure->custom,
						   device->multiprocessors, *scratch,
						   measure->digests);
}

int sgpu_cuda_measure_memory(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
			     const uint8_t *key, uint8_t *digest, struct sgpu_task *task)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_record record = { .task = task };
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	int code = sgpu_cuda_check_range(device, memory, size, task);

	code = code == SGPU_OK ? sgpu_cuda_begin(stream, task) : code;
	if (code < 0) {
		return code;
	}
	if (sgpu_cuda_cancelled(device)) {
		record.code = SGPU_ECANCELED;
		return sgpu_cuda_commit(stream, &record, CUDA_SUCCESS, "");
	}
	record.measure = create(device, size, key, digest);
	if (record.measure) {
		result = enqueue(stream, record.measure, memory, size);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot measure on the device");
}
