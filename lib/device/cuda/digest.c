/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests and measures of device memory. Kernels leave chaining values of a digest, or the digests
 * of a measure's pages, in pinned host memory; when the record ends, the CPU makes the result.
 */
#include <stdlib.h>

#include <crypto/kt128.h>
#include <device/cuda/kernels.h>
#include <device/cuda/stream.h>

struct sgpu_cuda_sum {
	struct sgpu_measure_custom custom; /* of a measure */
	bool measures;
	void *values; /* from sgpu_cuda_host_alloc */
	uint64_t size;
	uint8_t *result;
};

void sgpu_cuda_sum_finish(const struct sgpu_cuda_sum *sum)
{
	if (sum->measures) {
		sgpu_kt128(sum->values, sum->size, sum->custom.bytes, sum->custom.size, sum->result,
			   SGPU_KT128_SIZE);
	} else {
		sgpu_cuda_digest_finish(sum->values, sum->size, sum->result);
	}
}

void sgpu_cuda_sum_free(struct sgpu_device *device, struct sgpu_cuda_sum **sum)
{
	if (*sum && (*sum)->values) {
		sgpu_cuda_host_free(device, (*sum)->values, (*sum)->size);
	}
	sgpu_free_wiped(sum, sizeof(**sum));
}

static struct sgpu_cuda_sum *create(struct sgpu_device *device, uint64_t size, uint8_t *result)
{
	struct sgpu_cuda_sum *new = calloc(1, sizeof(*new));

	if (new) {
		new->size = size;
		new->result = result;
		if (sgpu_cuda_host_alloc(device, size, &new->values, NULL) < 0) {
			sgpu_cuda_sum_free(device, &new);
		}
	}
	return new;
}

CUresult sgpu_cuda_digest(struct sgpu_stream *stream, const struct sgpu_work *work,
			  struct sgpu_cuda_record *record)
{
	const size_t room = sgpu_cuda_digest_room(work->size);

	record->sum = create(stream->device, room, work->to);
	return record->sum ? (CUresult)sgpu_cuda_digest_enqueue(stream->native, work->in,
								work->size, record->sum->values)
			   : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A stream's work runs in order, so one scratch memory, made at its first measure, is enough. */
CUresult sgpu_cuda_measure(struct sgpu_stream *stream, const struct sgpu_work *work,
			   struct sgpu_cuda_record *record)
{
	const uint64_t pages =
		work->size / SGPU_MEASURE_PAGE + (work->size % SGPU_MEASURE_PAGE > 0);
	struct sgpu_device *device = stream->device;

	record->sum = create(device, pages * SGPU_KT128_SIZE, work->to);
	if (!record->sum ||
	    (!stream->scratch && sgpu_cuda_private_alloc(device, sgpu_cuda_measure_scratch(),
							 &stream->scratch, NULL) < 0)) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	record->sum->measures = true;
	sgpu_measure_custom(work->measure_key, &record->sum->custom);
	return (CUresult)sgpu_cuda_measure_enqueue(stream->native, work->in, work->size,
						   &record->sum->custom, stream->scratch,
						   record->sum->values);
}
