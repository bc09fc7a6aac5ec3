/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to a stream: the checks that each passes, and its enqueueing.
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

/* Gives `count` sets of zero counters, for one launch. When too few are left, all are cleared. */
static CUresult counters(struct sgpu_stream *stream, int count, unsigned **words)
{
	CUresult result = CUDA_SUCCESS;

	if (!stream->counters) {
		if (sgpu_cuda_private_alloc(stream->device, SGPU_CUDA_COUNTER_BYTES,
					    &stream->counters, NULL) < 0) {
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		stream->counters_used = 0;
	}
	if (stream->counters_used + (unsigned)count > SGPU_CUDA_COUNTER_SETS) {
		result = sgpu_cu.cuMemsetD8Async(stream->counters, 0, SGPU_CUDA_COUNTER_BYTES,
						 stream->native);
		stream->counters_used = result == CUDA_SUCCESS ? 0 : SGPU_CUDA_COUNTER_SETS;
	}
	if (result == CUDA_SUCCESS) {
		*words = (unsigned *)(uintptr_t)stream->counters +
			 (size_t)stream->counters_used * SGPU_LAUNCH_COUNTERS;
		stream->counters_used += (unsigned)count;
	}
	return result;
}

/* ---- sealed chunks ---- */
static bool opens(const struct sgpu_work *work)
{
	return work->kind == SGPU_WORK_OPEN || work->kind == SGPU_WORK_OPEN_FROM;
}

static uint64_t written(const struct sgpu_work *work)
{
	return opens(work) ? sgpu_opened_size(work->size)
			   : sgpu_run_sealed_size(work->size, work->last);
}

/* before: the key of the run before in the same launch, or NULL. */
static CUresult prepare(struct sgpu_stream *stream, const struct sgpu_work *work,
			struct sgpu_device_key *before, const unsigned *words,
			struct sgpu_cuda_record *record, struct sgpu_cuda_run *run)
{
	record->opens = opens(work);
	record->key = work->key;
	record->out = work->out;
	record->out_size = work->kind == SGPU_WORK_SEAL_TO ? 0 : written(work);
	record->status = sgpu_cuda_status_take(stream->device);
	if (!record->status) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	record->status->host[0] = -1; /* no bad chunk */
	*run = (struct sgpu_cuda_run){ .in = work->in,
				       .out = work->out,
				       .size = work->size,
				       .first = work->first,
				       .last = work->last,
				       .verdict = record->status->device,
				       .counter = (uint64_t)(uintptr_t)words };
	return sgpu_cuda_key_use(stream, work->key, before, &run->state);
}

static CUresult chunks(struct sgpu_stream *stream, const struct sgpu_work *work,
		       struct sgpu_cuda_record *records, int count)
{
	const enum sgpu_cuda_kernel kernel =
		work->kind >= SGPU_WORK_OPEN_FROM ? SGPU_CUDA_SMALL : SGPU_CUDA_FASTEST;
	struct sgpu_cuda_run runs[SGPU_CUDA_RUNS];
	unsigned *words = NULL;
	CUresult result = counters(stream, count, &words);

	for (int i = 0; result == CUDA_SUCCESS && i < count; i++) {
		result = prepare(stream, &work[i], i > 0 ? work[i - 1].key : NULL,
				 words + (size_t)i * SGPU_LAUNCH_COUNTERS, &records[i], &runs[i]);
	}
	if (result == CUDA_SUCCESS) {
		result = (CUresult)sgpu_cuda_run_chunks(stream->native,
							(int)stream->device->info.compute_units,
							opens(work), runs, count, kernel);
	}
	for (int i = 0; result == CUDA_SUCCESS && i < count; i++) {
		records[i].expected = runs[i].expected;
	}
	return result;
}

/* Whether the piece is one short run. */
static bool is_short(const struct sgpu_work *work)
{
	return work->kind >= SGPU_WORK_OPEN &&
	       (opens(work) ? work->size : written(work)) <= SGPU_REACHED_MAX;
}

static bool meet(CUdeviceptr a, uint64_t a_size, CUdeviceptr b, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

/* Whether one launch, which keeps no order, can do the piece together with `group`. */
static bool joins(const struct sgpu_work *group, int count, const struct sgpu_work *work)
{
	bool can = is_short(group) && is_short(work) && opens(group) == opens(work);

	for (int i = 0; can && i < count; i++) {
		const struct sgpu_work *other = &group[i];

		can = !meet(work->out, written(work), other->out, written(other)) &&
		      !meet(work->out, written(work), other->in, other->size) &&
		      !meet(work->in, work->size, other->out, written(other));
	}
	return can;
}

/* ---- launches ---- */
int sgpu_cuda_launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		     const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_record record = { .task = task };
	struct sgpu_task ignored = { 0 };
	struct sgpu_launch launch = { .device = device,
				      .native = stream->native,
				      .error = task ? &task->error : &ignored.error };
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	int rc;

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
		result = counters(stream, 1, &launch.counters);
	}
	if (result == CUDA_SUCCESS) {
		/* Take the time now: the first kernel may run before all are enqueued. */
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
	[SGPU_WORK_OPEN] = { NULL, "cannot open on the device" },
	[SGPU_WORK_SEAL] = { NULL, "cannot seal on the device" },
	[SGPU_WORK_OPEN_FROM] = { NULL, "cannot open on the device" },
	[SGPU_WORK_SEAL_TO] = { NULL, "cannot seal on the device" },
};

/* here: the same work, with the device's address of host memory for a short run. */
static int admit(struct sgpu_device *device, const struct sgpu_work *work, struct sgpu_work *here)
{
	const bool write = work->kind == SGPU_WORK_SEAL_TO;
	struct sgpu_device_range ranges[2];
	const int count = sgpu_work_ranges(work, ranges);
	int rc = sgpu_device_check(device, ranges, count, work->task);

	*here = *work;
	if (rc == SGPU_OK && work->kind >= SGPU_WORK_OPEN_FROM) {
		const uint64_t size = write ? written(work) : work->size;
		sgpu_devptr *host = write ? &here->out : &here->in;

		*host = is_short(work) ? sgpu_cuda_reach(device, write ? work->to : work->from,
							 size, write)
				       : 0;
		rc = *host ? SGPU_OK
			   : sgpu_task_refuse(work->task, SGPU_EUSAGE,
					      "the device does not reach the host's memory");
	}
	return rc;
}

static int enqueue_together(struct sgpu_stream *stream, const struct sgpu_work *work, int count)
{
	const bool moves = work->kind <= SGPU_WORK_CLEAR, runs = work->kind >= SGPU_WORK_OPEN;
	struct sgpu_cuda_record records[SGPU_CUDA_RUNS];
	CUresult result = CUDA_SUCCESS;
	int rc = sgpu_cuda_begin(stream, work->task);
	bool cancelled;

	if (rc < 0) {
		return rc;
	}
	cancelled = !moves && sgpu_cuda_cancelled(stream->device);
	for (int i = 0; i < count; i++) {
		records[i] = (struct sgpu_cuda_record){ .task = work[i].task,
							.code = cancelled ? SGPU_ECANCELED : 0 };
	}
	if (runs && !cancelled) {
		result = chunks(stream, work, records, count);
	} else if (!cancelled && (!moves || work->size > 0)) {
		result = ways[work->kind].enqueue(stream, work, records);
	}
	return sgpu_cuda_commit_all(stream, records, count, result, ways[work->kind].failure);
}

int sgpu_cuda_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work, int count)
{
	struct sgpu_work here[SGPU_CUDA_RUNS];
	int rc = SGPU_OK, refused = SGPU_OK, done = 0, next = 0;

	while (rc == SGPU_OK && refused == SGPU_OK && done < count) {
		for (next = 0; next < SGPU_CUDA_RUNS && done + next < count; next++) {
			refused = admit(stream->device, &work[done + next], &here[next]);
			if (refused < 0 || (next > 0 && !joins(here, next, &here[next]))) {
				break;
			}
		}
		rc = next > 0 ? enqueue_together(stream, here, next) : SGPU_OK;
		done += next;
	}
	return rc < 0 ? rc : refused;
}
