/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stream of the CUDA device does: the checks that every request passes, and enqueueing it.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/aead.h>
#include <device/cuda/gpu.h>
#include <ops/cuda/ops_cuda.h>

sgpu_op_fn sgpu_cuda_find_op(const char *name)
{
	return sgpu_cuda_op(name);
}

bool sgpu_cuda_cancelled(const struct sgpu_device *device)
{
	return atomic_load(&device->cancel_ns) != 0;
}

/* Begins work on a range of the device's memory. */
static int begin_on(struct sgpu_stream *stream, sgpu_devptr address, uint64_t size,
		    struct sgpu_task *task)
{
	int code = sgpu_cuda_check_range(stream->device, address, size, task);

	return code == SGPU_OK ? sgpu_cuda_begin(stream, task) : code;
}

int sgpu_cuda_copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
		      struct sgpu_task *task)
{
	struct sgpu_cuda_record record = { .task = task };
	CUresult result = CUDA_SUCCESS;
	int code = begin_on(stream, to, size, task);

	if (code < 0) {
		return code;
	}
	if (size > 0) {
		result = sgpu_cu.cuMemcpyHtoDAsync(to, from, size, stream->native);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot copy to the device");
}

int sgpu_cuda_copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size,
		       struct sgpu_task *task)
{
	struct sgpu_cuda_record record = { .task = task };
	CUresult result = CUDA_SUCCESS;
	int code = begin_on(stream, from, size, task);

	if (code < 0) {
		return code;
	}
	if (size > 0) {
		result = sgpu_cu.cuMemcpyDtoHAsync(to, from, size, stream->native);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot copy from the device");
}

int sgpu_cuda_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
		    struct sgpu_task *task)
{
	struct sgpu_cuda_record record = { .task = task };
	CUresult result = CUDA_SUCCESS;
	int code = begin_on(stream, memory, size, task);

	if (code < 0) {
		return code;
	}
	if (size > 0) {
		result = sgpu_cu.cuMemsetD8Async(memory, 0, size, stream->native);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot clear device memory");
}

/* Words that are zero: the next set, all of them cleared at once when they are used up. */
static CUresult counters(struct sgpu_stream *stream, unsigned **words)
{
	struct sgpu_cuda_native *kept = &stream->kept;
	CUresult result = CUDA_SUCCESS;

	if (!kept->counters) {
		if (sgpu_cuda_private_alloc(stream->device, SGPU_CUDA_COUNTER_BYTES,
					    &kept->counters, NULL) < 0) {
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		kept->counters_used = SGPU_CUDA_COUNTER_SETS;
	}
	if (kept->counters_used == SGPU_CUDA_COUNTER_SETS) {
		result = sgpu_cu.cuMemsetD8Async(kept->counters, 0, SGPU_CUDA_COUNTER_BYTES,
						 stream->native);
		kept->counters_used = result == CUDA_SUCCESS ? 0 : SGPU_CUDA_COUNTER_SETS;
	}
	if (result == CUDA_SUCCESS) {
		*words = (unsigned *)(uintptr_t)kept->counters +
			 (size_t)kept->counters_used * SGPU_LAUNCH_COUNTERS;
		kept->counters_used++;
	}
	return result;
}

/* ---- sealed chunks ---- */
static int check_both(struct sgpu_device *device, sgpu_devptr in, uint64_t size, sgpu_devptr out,
		      uint64_t out_size, struct sgpu_task *task)
{
	int code = sgpu_cuda_check_range(device, in, size, task);

	return code == SGPU_OK ? sgpu_cuda_check_range(device, out, out_size, task) : code;
}

/* Where the kernel tells what it did. */
static CUresult ask_report(struct sgpu_stream *stream, struct sgpu_cuda_record *record,
			   struct sgpu_cuda_report *report)
{
	unsigned *words = NULL;
	CUresult result;

	record->status = sgpu_cuda_status_take(stream->device, 0);
	if (!record->status) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	record->status->host[0] = -1; /* no bad chunk */
	result = counters(stream, &words);
	report->verdict = record->status->device;
	report->counter = (uint64_t)(uintptr_t)words;
	return result;
}

static int open_at(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
		   bool last, CUdeviceptr in, uint64_t size, sgpu_devptr out,
		   enum sgpu_cuda_kernel kernel, struct sgpu_task *task)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_record record = { .kind = SGPU_CUDA_OPEN,
					   .task = task,
					   .key = key,
					   .out = out,
					   .out_size = sgpu_opened_size(size) };
	struct sgpu_cuda_report report;
	CUresult result;
	CUdeviceptr state;
	int code = sgpu_cuda_begin(stream, task);

	if (code < 0) {
		return code;
	}
	if (sgpu_cuda_cancelled(device)) {
		record.code = SGPU_ECANCELED;
		return sgpu_cuda_commit(stream, &record, CUDA_SUCCESS, "");
	}
	result = ask_report(stream, &record, &report);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cuda_key_use(stream, key, &state);
	}
	if (result == CUDA_SUCCESS) {
		result = (CUresult)sgpu_cuda_open(stream->native, state, first, last, in, size, out,
						  kernel, &report, &record.expected);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot open on the device");
}

/* clear_size: bytes of the device's memory that a failure clears. */
static int seal_at(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
		   bool last, sgpu_devptr in, uint64_t size, CUdeviceptr out, uint64_t clear_size,
		   enum sgpu_cuda_kernel kernel, struct sgpu_task *task)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_record record = {
		.kind = SGPU_CUDA_SEAL, .task = task, .key = key, .out = out, .out_size = clear_size
	};
	struct sgpu_cuda_report report;
	CUresult result;
	CUdeviceptr state;
	int code = sgpu_cuda_begin(stream, task);

	if (code < 0) {
		return code;
	}
	if (sgpu_cuda_cancelled(device)) {
		record.code = SGPU_ECANCELED;
		return sgpu_cuda_commit(stream, &record, CUDA_SUCCESS, "");
	}
	result = ask_report(stream, &record, &report);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cuda_key_use(stream, key, &state);
	}
	if (result == CUDA_SUCCESS) {
		result = (CUresult)sgpu_cuda_seal(stream->native, state, first, last, in, size, out,
						  kernel, &report, &record.expected);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot seal on the device");
}

int sgpu_cuda_open_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
			  bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
			  struct sgpu_task *task)
{
	int code = check_both(stream->device, in, size, out, sgpu_opened_size(size), task);

	return code == SGPU_OK
		       ? open_at(stream, key, first, last, in, size, out, SGPU_CUDA_FASTEST, task)
		       : code;
}

int sgpu_cuda_seal_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
			  bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
			  struct sgpu_task *task)
{
	const uint64_t sealed = size + (size / SGPU_CHUNK + last) * SGPU_TAG_SIZE;
	int code;

	if (!last && size % SGPU_CHUNK != 0) {
		return SGPU_EUSAGE;
	}
	code = check_both(stream->device, in, size, out, sealed, task);
	return code == SGPU_OK ? seal_at(stream, key, first, last, in, size, out, sealed,
					 SGPU_CUDA_FASTEST, task)
			       : code;
}

/* Where kernels reach host memory for a short run; else the task fails. */
static int find_host(struct sgpu_device *device, const void *memory, uint64_t size, bool write,
		     CUdeviceptr *address, struct sgpu_task *task)
{
	int code = SGPU_OK;

	*address = size > SGPU_REACHED_MAX ? 0 : sgpu_cuda_reach(device, memory, size, write);
	if (*address == 0) {
		code = sgpu_fail(task ? &task->error : NULL, SGPU_EUSAGE,
				 "kernels do not reach %llu bytes of host memory",
				 (unsigned long long)size);
		if (task) {
			task->code = code;
		}
	}
	return code;
}

int sgpu_cuda_open_from(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
			bool last, const void *in, uint64_t size, sgpu_devptr out,
			struct sgpu_task *task)
{
	CUdeviceptr from;
	int code = sgpu_cuda_check_range(stream->device, out, sgpu_opened_size(size), task);

	code = code == SGPU_OK ? find_host(stream->device, in, size, false, &from, task) : code;
	return code == SGPU_OK
		       ? open_at(stream, key, first, last, from, size, out, SGPU_CUDA_SMALL, task)
		       : code;
}

int sgpu_cuda_seal_to(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
		      bool last, sgpu_devptr in, uint64_t size, void *out, struct sgpu_task *task)
{
	const uint64_t sealed = size + (size / SGPU_CHUNK + last) * SGPU_TAG_SIZE;
	CUdeviceptr to;
	int code;

	if (!last && size % SGPU_CHUNK != 0) {
		return SGPU_EUSAGE;
	}
	code = sgpu_cuda_check_range(stream->device, in, size, task);
	code = code == SGPU_OK ? find_host(stream->device, out, sealed, true, &to, task) : code;
	return code == SGPU_OK
		       ? seal_at(stream, key, first, last, in, size, to, 0, SGPU_CUDA_SMALL, task)
		       : code;
}

/* ---- launches ---- */
int sgpu_cuda_launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		     const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_record record = { .kind = SGPU_CUDA_LAUNCH, .task = task };
	struct sgpu_task ignored = { 0 };
	struct sgpu_launch launch = { .device = device,
				      .native = stream->native,
				      .error = task ? &task->error : &ignored.error };
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	int code = SGPU_OK, i;

	if (stream->recording) {
		return sgpu_cuda_graph_add(stream, function, argument, ranges, count, task);
	}
	for (i = 0; i < count && code == SGPU_OK; i++) {
		code = sgpu_cuda_check_range(device, ranges[i].address, ranges[i].size, task);
	}
	if (code == SGPU_OK) {
		code = sgpu_cuda_begin(stream, task);
	}
	if (code < 0) {
		return code;
	}
	if (sgpu_cuda_cancelled(device)) {
		record.code = SGPU_ECANCELED;
		return sgpu_cuda_commit(stream, &record, CUDA_SUCCESS, "");
	}
	record.status = sgpu_cuda_status_take(device, 0);
	if (record.status) {
		launch.status = (int64_t *)(uintptr_t)record.status->device;
		result = counters(stream, &launch.counters);
	}
	if (result == CUDA_SUCCESS) {
		/* The first of its kernels may run before the last is enqueued. */
		record.enqueue_ns = sgpu_now_ns();
		record.code = function(&launch, argument);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot launch");
}
