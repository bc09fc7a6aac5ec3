/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stream of the CUDA device does: the checks that every request passes, and enqueueing it.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/kernels.h>
#include <crypto/kt128.h>
#include <device/cuda/gpu.h>

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

static int copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
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

static int copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size,
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

static int clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
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

/* One run of chunks, with where it comes from and where it goes. */
struct chunks {
	struct sgpu_device_key *key;
	uint64_t first;
	bool last, open;
	CUdeviceptr in, out;
	uint64_t size;	     /* bytes at `in` */
	uint64_t clear_size; /* bytes of device memory that are cleared after a failure */
	enum sgpu_cuda_kernel kernel;
};

static int enqueue_chunks(struct sgpu_stream *stream, const struct chunks *c,
			  struct sgpu_task *task)
{
	struct sgpu_cuda_record record = { .kind = c->open ? SGPU_CUDA_OPEN : SGPU_CUDA_SEAL,
					   .task = task,
					   .key = c->key,
					   .out = c->out,
					   .out_size = c->clear_size };
	struct sgpu_cuda_report report;
	CUresult result;
	CUdeviceptr state;
	int code = sgpu_cuda_begin(stream, task);

	if (code < 0) {
		return code;
	}
	if (sgpu_cuda_cancelled(stream->device)) {
		record.code = SGPU_ECANCELED;
		return sgpu_cuda_commit(stream, &record, CUDA_SUCCESS, "");
	}
	result = ask_report(stream, &record, &report);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cuda_key_use(stream, c->key, &state);
	}
	if (result == CUDA_SUCCESS) {
		result = (CUresult)(c->open ? sgpu_cuda_open : sgpu_cuda_seal)(
			stream->native, state, c->first, c->last, c->in, c->size, c->out, c->kernel,
			&report, &record.expected);
	}
	return sgpu_cuda_commit(stream, &record, result,
				c->open ? "cannot open on the device"
					: "cannot seal on the device");
}

static int open_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
		       bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
		       struct sgpu_task *task)
{
	int code = check_both(stream->device, in, size, out, sgpu_opened_size(size), task);

	return code == SGPU_OK ? enqueue_chunks(stream,
						&(struct chunks){ key, first, last, true, in, out,
								  size, sgpu_opened_size(size),
								  SGPU_CUDA_FASTEST },
						task)
			       : code;
}

static int seal_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
		       bool last, sgpu_devptr in, uint64_t size, sgpu_devptr out,
		       struct sgpu_task *task)
{
	const uint64_t sealed = size + (size / SGPU_CHUNK + last) * SGPU_TAG_SIZE;
	int code;

	if (!last && size % SGPU_CHUNK != 0) {
		return SGPU_EUSAGE;
	}
	code = check_both(stream->device, in, size, out, sealed, task);
	return code == SGPU_OK ? enqueue_chunks(stream,
						&(struct chunks){ key, first, last, false, in, out,
								  size, sealed, SGPU_CUDA_FASTEST },
						task)
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

static int open_from(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
		     bool last, const void *in, uint64_t size, sgpu_devptr out,
		     struct sgpu_task *task)
{
	CUdeviceptr from;
	int code = sgpu_cuda_check_range(stream->device, out, sgpu_opened_size(size), task);

	code = code == SGPU_OK ? find_host(stream->device, in, size, false, &from, task) : code;
	return code == SGPU_OK
		       ? enqueue_chunks(stream,
					&(struct chunks){ key, first, last, true, from, out, size,
							  sgpu_opened_size(size), SGPU_CUDA_SMALL },
					task)
		       : code;
}

static int seal_to(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first,
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
	return code == SGPU_OK ? enqueue_chunks(stream,
						&(struct chunks){ key, first, last, false, in, to,
								  size, 0, SGPU_CUDA_SMALL },
						task)
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

/* ---- digests ---- */
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

static int digest_memory(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
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
	if (sgpu_cuda_cancelled(device)) {
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

/* ---- measures ---- */
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
		   measure->custom.size, measure->result, SGPU_KT128_SIZE);
}

void sgpu_cuda_measure_free(struct sgpu_device *device, struct sgpu_cuda_measure **measure)
{
	if (*measure && (*measure)->digests) {
		sgpu_cuda_host_free(device, (*measure)->digests, digests_size(*measure));
	}
	sgpu_free_wiped(measure, sizeof(**measure));
}

static struct sgpu_cuda_measure *create_measure(struct sgpu_device *device, uint64_t size,
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
static CUresult enqueue_measure(struct sgpu_stream *stream, const struct sgpu_cuda_measure *measure,
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

static int measure_memory(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
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
	record.measure = create_measure(device, size, key, digest);
	if (record.measure) {
		result = enqueue_measure(stream, record.measure, memory, size);
	}
	return sgpu_cuda_commit(stream, &record, result, "cannot measure on the device");
}

static int check_range(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
		       struct sgpu_task *task)
{
	return sgpu_cuda_check_range(stream->device, memory, size, task);
}

static bool reaches(struct sgpu_device *device, const void *memory, uint64_t size, bool write)
{
	return sgpu_cuda_reach(device, memory, size, write) != 0;
}

const struct sgpu_device_memory_calls sgpu_cuda_memory_calls = {
	.alloc = sgpu_cuda_alloc,
	.free = sgpu_cuda_free,
	.host_alloc = sgpu_cuda_host_alloc,
	.host_free = sgpu_cuda_host_free,
	.host_register = sgpu_cuda_host_register,
	.host_unregister = sgpu_cuda_host_unregister,
	.limit = sgpu_cuda_memory_limit,
	.copy_in = copy_in,
	.copy_out = copy_out,
	.clear = clear,
	.check = check_range,
	.digest = digest_memory,
	.measure = measure_memory,
};

const struct sgpu_device_key_calls sgpu_cuda_key_calls = {
	.load = sgpu_cuda_key_load,
	.free = sgpu_cuda_key_free,
	.open_chunks = open_chunks,
	.seal_chunks = seal_chunks,
	.reaches = reaches,
	.open_from = open_from,
	.seal_to = seal_to,
	.agree = sgpu_cuda_agree,
};
