/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to a stream of the CUDA device: the checks that each passes, and its enqueueing.
 */
#include <device/cuda/kernels.h>
#include <device/cuda/stream.h>

bool sgpu_cuda_cancelled(const struct sgpu_device *device)
{
	return atomic_load(&device->cancel_ns) != 0;
}

/* ---- copies and clears, of at least a byte ---- */
static CUresult move(struct sgpu_stream *stream, const struct sgpu_work *work,
		     struct sgpu_cuda_record *record)
{
	(void)record;
	switch (work->kind) {
	case SGPU_WORK_COPY_IN:
		return sgpu_cu.cuMemcpyHtoDAsync(work->out, work->from, work->size, stream->native);
	case SGPU_WORK_COPY_OUT:
		return sgpu_cu.cuMemcpyDtoHAsync(work->to, work->in, work->size, stream->native);
	default:
		return sgpu_cu.cuMemsetD8Async(work->out, 0, work->size, stream->native);
	}
}

/* Gives the next set of counters, which are zero. When all sets are used, all are cleared.
 */
static CUresult counters(struct sgpu_stream *stream, unsigned **words)
{
	CUresult result = CUDA_SUCCESS;

	if (!stream->counters) {
		if (sgpu_cuda_private_alloc(stream->device, SGPU_CUDA_COUNTER_BYTES,
					    &stream->counters, NULL) < 0) {
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		stream->counters_used = SGPU_CUDA_COUNTER_SETS;
	}
	if (stream->counters_used == SGPU_CUDA_COUNTER_SETS) {
		result = sgpu_cu.cuMemsetD8Async(stream->counters, 0, SGPU_CUDA_COUNTER_BYTES,
						 stream->native);
		stream->counters_used = result == CUDA_SUCCESS ? 0 : SGPU_CUDA_COUNTER_SETS;
	}
	if (result == CUDA_SUCCESS) {
		*words = (unsigned *)(uintptr_t)stream->counters +
			 (size_t)stream->counters_used * SGPU_LAUNCH_COUNTERS;
		stream->counters_used++;
	}
	return result;
}

/* ---- sealed chunks ---- */
/* Prepares the words for the kernel's report. */
static CUresult ask_report(struct sgpu_stream *stream, struct sgpu_cuda_record *record,
			   struct sgpu_cuda_report *report)
{
	unsigned *words = NULL;
	CUresult result;

	record->status = sgpu_cuda_status_take(stream->device);
	if (!record->status) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	record->status->host[0] = -1; /* no bad chunk */
	result = counters(stream, &words);
	report->verdict = record->status->device;
	report->counter = (uint64_t)(uintptr_t)words;
	return result;
}

/* Returns the device address of the host memory that a short run reads or writes, or 0.
 */
static CUdeviceptr reached(struct sgpu_device *device, const struct sgpu_work *work)
{
	const bool write = work->kind == SGPU_WORK_SEAL_TO;
	const uint64_t size = write ? sgpu_run_sealed_size(work->size, work->last) : work->size;

	return size > SGPU_REACHED_MAX
		       ? 0
		       : sgpu_cuda_reach(device, write ? work->to : work->from, size, write);
}

static CUresult chunks(struct sgpu_stream *stream, const struct sgpu_work *work,
		       struct sgpu_cuda_record *record)
{
	const bool opens = work->kind == SGPU_WORK_OPEN || work->kind == SGPU_WORK_OPEN_FROM;
	const bool here = work->kind <= SGPU_WORK_SEAL; /* both sides are device memory */
	struct sgpu_cuda_report report;
	CUresult result;
	CUdeviceptr state;

	record->kind = opens ? SGPU_CUDA_OPEN : SGPU_CUDA_SEAL;
	record->key = work->key;
	record->out = work->out;
	record->out_size = opens  ? sgpu_opened_size(work->size)
			   : here ? sgpu_run_sealed_size(work->size, work->last)
				  : 0;
	result = ask_report(stream, record, &report);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cuda_key_use(stream, work->key, &state);
	}
	if (result == CUDA_SUCCESS) {
		result = (CUresult)(opens ? sgpu_cuda_open : sgpu_cuda_seal)(
			stream->native, (int)stream->device->info.compute_units, state, work->first,
			work->last, work->in, work->size, work->out,
			here ? SGPU_CUDA_FASTEST : SGPU_CUDA_SMALL, &report, &record->expected);
	}
	return result;
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
	int rc;

	if (stream->recording) {
		return sgpu_cuda_graph_add(stream, function, argument, ranges, count, task);
	}
	rc = sgpu_device_check(device, ranges, count, task);
	if (rc == SGPU_OK) {
		rc = sgpu_cuda_begin(stream, task);
	}
	if (rc < 0) {
		return rc;
	}
	if (sgpu_cuda_cancelled(device)) {
		record.code = SGPU_ECANCELED;
		return sgpu_cuda_commit(stream, &record, CUDA_SUCCESS, "");
	}
	record.status = sgpu_cuda_status_take(device);
	if (record.status) {
		launch.status = (int64_t *)(uintptr_t)record.status->device;
		result = counters(stream, &launch.counters);
	}
	if (result == CUDA_SUCCESS) {
		/* Take the time now: the first kernel may run before the last is enqueued.
		 */
		record.enqueue_ns = sgpu_now_ns();
		record.code = function(&launch, argument);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot launch");
}

/* ---- requests ---- */
static const struct {
	CUresult (*enqueue)(struct sgpu_stream *stream, const struct sgpu_work *work,
			    struct sgpu_cuda_record *record);
	const char *failure;
} ways[] = {
	[SGPU_WORK_COPY_IN] = { move, "cannot copy to the device" },
	[SGPU_WORK_COPY_OUT] = { move, "cannot copy from the device" },
	[SGPU_WORK_CLEAR] = { move, "cannot clear device memory" },
	[SGPU_WORK_DIGEST] = { sgpu_cuda_digest, "cannot digest on the device" },
	[SGPU_WORK_MEASURE] = { sgpu_cuda_measure, "cannot measure on the device" },
	[SGPU_WORK_OPEN] = { chunks, "cannot open on the device" },
	[SGPU_WORK_SEAL] = { chunks, "cannot seal on the device" },
	[SGPU_WORK_OPEN_FROM] = { chunks, "cannot open on the device" },
	[SGPU_WORK_SEAL_TO] = { chunks, "cannot seal on the device" },
};

int sgpu_cuda_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	struct sgpu_cuda_record record = { .task = work->task };
	struct sgpu_device_range ranges[2];
	const int count = sgpu_work_ranges(work, ranges);
	const bool moves = work->kind <= SGPU_WORK_CLEAR;
	struct sgpu_work here = *work;
	CUresult result = CUDA_SUCCESS;
	int rc = sgpu_device_check(stream->device, ranges, count, work->task);

	if (rc == SGPU_OK && work->kind >= SGPU_WORK_OPEN_FROM) {
		sgpu_devptr *host = work->kind == SGPU_WORK_SEAL_TO ? &here.out : &here.in;

		*host = reached(stream->device, work);
		rc = *host ? SGPU_OK
			   : sgpu_task_refuse(work->task, SGPU_EUSAGE,
					      "the device does not reach the host's memory");
	}
	rc = rc == SGPU_OK ? sgpu_cuda_begin(stream, work->task) : rc;
	if (rc < 0) {
		return rc;
	}
	if (!moves && sgpu_cuda_cancelled(stream->device)) {
		record.code = SGPU_ECANCELED;
	} else if (!moves || work->size > 0) {
		result = ways[work->kind].enqueue(stream, &here, &record);
	}
	return sgpu_cuda_commit(stream, &record, result, ways[work->kind].failure);
}

static bool reaches(struct sgpu_device *device, const void *memory, uint64_t size, bool write)
{
	return size <= SGPU_REACHED_MAX && sgpu_cuda_reach(device, memory, size, write) != 0;
}

const struct sgpu_device_memory_calls sgpu_cuda_memory_calls = {
	.alloc = sgpu_cuda_alloc,
	.free = sgpu_cuda_free,
	.host_alloc = sgpu_cuda_host_alloc,
	.host_free = sgpu_cuda_host_free,
	.host_register = sgpu_cuda_host_register,
	.host_unregister = sgpu_cuda_host_unregister,
	.limit = sgpu_cuda_memory_limit,
	.check = sgpu_cuda_check_range,
};

const struct sgpu_device_key_calls sgpu_cuda_key_calls = {
	.load = sgpu_cuda_keys_load,
	.free = sgpu_cuda_key_free,
	.reaches = reaches,
	.agree = sgpu_cuda_agree,
};
