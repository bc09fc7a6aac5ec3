/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA events, kept for reuse; the device's clock against the host's; and the times of work, by
 * events or %globaltimer.
 */
#include <math.h>
#include <stdlib.h>

#include <device/cuda/stream.h>
#include <device/cuda/kernels.h>
#include <device/cuda/moment.h>

/* The age at which a base is replaced: the clocks drift apart by some 10 us a second, and a float
 * is exact to 0.1 us one second after the base. */
#define BASE_NS ((uint64_t)1000000000)
/* Taking a base may last CLOSE_NS without another try, PATIENCE_NS at most, and FIRST_NS at most
 * for the first base, which loads a kernel. */
#define CLOSE_NS ((uint64_t)50000)
#define PATIENCE_NS ((uint64_t)3000000)
#define FIRST_NS ((uint64_t)10000000000)
enum { TRIES = 3, STAMPS = 65536 };

CUresult sgpu_cuda_event_take(struct sgpu_device *device, bool timed, CUevent *event)
{
	struct sgpu_cuda_events *idle = &device->idle_events[timed];
	bool found;

	pthread_mutex_lock(&device->pool_lock);
	found = idle->count > 0;
	if (found) {
		*event = idle->list[--idle->count];
	}
	pthread_mutex_unlock(&device->pool_lock);
	return found ? CUDA_SUCCESS
		     : sgpu_cu.cuEventCreate(event,
					     timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}

CUresult sgpu_cuda_event_after(struct sgpu_device *device, bool timed, CUstream native,
			       CUevent *event)
{
	CUresult result = sgpu_cuda_event_take(device, timed, event);

	return result == CUDA_SUCCESS ? sgpu_cu.cuEventRecord(*event, native) : result;
}

void sgpu_cuda_event_give(struct sgpu_device *device, bool timed, CUevent event)
{
	struct sgpu_cuda_events *idle = &device->idle_events[timed];
	CUevent *more;

	if (!event || atomic_load(&device->faulted) != 0) {
		return; /* the event is destroyed with the context */
	}
	pthread_mutex_lock(&device->pool_lock);
	if (idle->count == idle->room &&
	    (more = realloc(idle->list, (idle->room * 2 + 64) * sizeof(CUevent)))) {
		idle->list = more;
		idle->room = idle->room * 2 + 64;
	}
	if (idle->count < idle->room) {
		idle->list[idle->count++] = event;
		event = NULL;
	}
	pthread_mutex_unlock(&device->pool_lock);
	if (event) {
		(void)sgpu_cu.cuEventDestroy(event);
	}
}

/* ---- times by %globaltimer ----
 * Kernels of one thread store them in words of device memory. Host memory would be slower in
 * confidential computing mode, which moves it first, and the next task would be charged with
 * that. */
static int stamps_open(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cuda_stamps *stamps = &device->stamps;

	stamps->idle = malloc(STAMPS * sizeof(*stamps->idle));
	if (!stamps->idle) {
		return sgpu_fail_nomem(error);
	}
	/* Word 0 is never idle: take_moment() stores a base's time there. */
	for (stamps->count = 0; stamps->count < STAMPS - 1; stamps->count++) {
		stamps->idle[stamps->count] = STAMPS - 1 - stamps->count;
	}
	return sgpu_cuda_check(device,
			       sgpu_cu.cuMemAlloc(&stamps->memory, STAMPS * sizeof(uint64_t)),
			       "cannot allocate memory for times", error);
}

static void stamps_close(struct sgpu_device *device)
{
	if (device->stamps.memory && atomic_load(&device->faulted) == 0) {
		(void)sgpu_cu.cuMemFree(device->stamps.memory);
	}
	free(device->stamps.idle);
}

static CUresult stamp_put(struct sgpu_device *device, CUstream native, CUdeviceptr *stamp)
{
	struct sgpu_cuda_stamps *stamps = &device->stamps;

	pthread_mutex_lock(&device->pool_lock);
	*stamp = stamps->count == 0
			 ? 0
			 : stamps->memory + sizeof(uint64_t) * stamps->idle[--stamps->count];
	pthread_mutex_unlock(&device->pool_lock);
	return *stamp == 0 ? CUDA_ERROR_OUT_OF_MEMORY
			   : (CUresult)sgpu_cuda_store_time(native, *stamp);
}

static void stamp_give(struct sgpu_device *device, CUdeviceptr stamp)
{
	struct sgpu_cuda_stamps *stamps = &device->stamps;

	if (stamp) {
		pthread_mutex_lock(&device->pool_lock);
		stamps->idle[stamps->count++] =
			(uint32_t)((stamp - stamps->memory) / sizeof(uint64_t));
		pthread_mutex_unlock(&device->pool_lock);
	}
}

static CUresult stamp_read(struct sgpu_device *device, CUdeviceptr stamp, uint64_t *time)
{
	CUresult result = sgpu_cu.cuMemcpyDtoHAsync(time, stamp, sizeof(*time), device->clock);

	return result == CUDA_SUCCESS ? sgpu_cu.cuStreamSynchronize(device->clock) : result;
}

/* ---- bases ---- */
/* Takes the time on the clock stream, and the host's before and after. The stream is empty, but the
 * GPU may work for another process or be full of kernels. Fails after `patience`. */
static bool take_moment(struct sgpu_device *device, struct sgpu_cuda_base *base)
{
	const uint64_t before = sgpu_now_ns(), patience = device->base ? PATIENCE_NS : FIRST_NS;
	CUresult result = sgpu_cu.cuStreamQuery(device->clock);

	if (result == CUDA_SUCCESS) {
		result = device->stamps_time ? (CUresult)sgpu_cuda_store_time(device->clock,
									      device->stamps.memory)
					     : sgpu_cu.cuEventRecord(base->event, device->clock);
	}
	if (result == CUDA_SUCCESS) {
		do {
			result = sgpu_cu.cuStreamQuery(device->clock);
			base->error_ns = sgpu_now_ns() - before;
		} while (result == CUDA_ERROR_NOT_READY && base->error_ns < patience);
		base->host_ns = before + base->error_ns / 2;
	}
	return result == CUDA_SUCCESS;
}

static struct sgpu_cuda_base *make_base(struct sgpu_device *device)
{
	struct sgpu_cuda_base *base = calloc(1, sizeof(*base));
	bool taken;

	if (!base) {
		return NULL;
	}
	base->references = 1;
	taken = device->stamps_time ||
		sgpu_cuda_event_take(device, true, &base->event) == CUDA_SUCCESS;
	base->error_ns = UINT64_MAX;
	for (int i = 0; taken && i < TRIES && base->error_ns > CLOSE_NS; i++) {
		taken = take_moment(device, base);
	}
	if (taken && device->stamps_time) {
		taken = stamp_read(device, device->stamps.memory, &base->device_ns) == CUDA_SUCCESS;
	}
	if (!taken) {
		sgpu_cuda_event_give(device, true, base->event);
		free(base);
		return NULL;
	}
	return base;
}

static void base_give(struct sgpu_device *device, struct sgpu_cuda_base *base)
{
	bool last;

	if (!base) {
		return;
	}
	pthread_mutex_lock(&device->pool_lock);
	last = --base->references == 0;
	pthread_mutex_unlock(&device->pool_lock);
	if (last) {
		sgpu_cuda_event_give(device, true, base->event);
		free(base);
	}
}

static struct sgpu_cuda_base *base_take(struct sgpu_device *device, uint64_t now)
{
	struct sgpu_cuda_base *base, *old = NULL, *new = NULL;
	bool old_enough;

	pthread_mutex_lock(&device->pool_lock);
	base = device->base;
	base->references++;
	/* At most one thread in BASE_NS tries to make a new base. */
	old_enough = now > device->base_tried_ns && now - device->base_tried_ns > BASE_NS;
	device->base_tried_ns = old_enough ? now : device->base_tried_ns;
	pthread_mutex_unlock(&device->pool_lock);
	if (!old_enough || !(new = make_base(device))) {
		return base;
	}
	pthread_mutex_lock(&device->pool_lock);
	old = device->base;
	device->base = new;
	new->references++;
	pthread_mutex_unlock(&device->pool_lock);
	base_give(device, old);
	base_give(device, base);
	return new;
}

CUresult sgpu_cuda_mark(struct sgpu_stream *stream, struct sgpu_cuda_record *record)
{
	struct sgpu_device *device = stream->device;

	record->base = base_take(device, sgpu_now_ns());
	if (device->stamps_time) {
		return stamp_put(device, stream->native, &record->stamp);
	}
	return sgpu_cuda_event_after(device, true, stream->native, &record->event);
}

void sgpu_cuda_unmark(struct sgpu_device *device, struct sgpu_cuda_record *record)
{
	sgpu_cuda_event_give(device, record->kind != SGPU_CUDA_CALL, record->event);
	stamp_give(device, record->stamp);
	base_give(device, record->base);
}

bool sgpu_cuda_time_of(struct sgpu_device *device, const struct sgpu_cuda_record *record,
		       uint64_t from, uint64_t *time)
{
	const uint64_t now = sgpu_now_ns();
	double since_ns = NAN;
	uint64_t stamp = 0;
	float elapsed = 0;
	bool possible;
	CUresult result;

	if (record->stamp) {
		result = stamp_read(device, record->stamp, &stamp);
		since_ns = (double)(int64_t)(stamp - record->base->device_ns);
	} else {
		result = sgpu_cu.cuEventElapsedTime(&elapsed, record->base->event, record->event);
		since_ns = (double)elapsed * 1e6;
	}
	sgpu_cuda_note(device, result);
	since_ns = result == CUDA_SUCCESS ? since_ns : NAN;
	pthread_mutex_lock(&device->pool_lock);
	possible = sgpu_cuda_moment(record->base->host_ns, record->base->error_ns, since_ns, from,
				    now, time);
	if (possible) {
		/* If the time had to be moved into its possible range, the base is wrong by as
		 * much. Move the base, too, so that the differences of later times stay true. */
		record->base->host_ns = *time - (uint64_t)(int64_t)since_ns;
	}
	pthread_mutex_unlock(&device->pool_lock);
	return possible;
}

int sgpu_cuda_clock_open(struct sgpu_device *device, struct sgpu_error *error)
{
	CUresult result = sgpu_cu.cuStreamCreate(&device->clock, CU_STREAM_NON_BLOCKING);
	int rc = SGPU_OK;

	if (result != CUDA_SUCCESS) {
		return sgpu_cuda_fail(error, result, "cannot create a stream");
	}
	if (device->stamps_time) {
		rc = stamps_open(device, error);
	}
	/* Make it three times: a stream's first event and a kernel's first launch take long. */
	for (int round = 0; round < 3 && rc == SGPU_OK; round++) {
		base_give(device, device->base);
		device->base = NULL;
		device->base = make_base(device);
		if (!device->base || sgpu_cu.cuStreamSynchronize(device->clock) != CUDA_SUCCESS) {
			return sgpu_fail(error, SGPU_EDEVICE, "cannot read the device's clock");
		}
	}
	device->base_tried_ns = sgpu_now_ns();
	return rc;
}

void sgpu_cuda_clock_close(struct sgpu_device *device)
{
	bool faulted = atomic_load(&device->faulted) != 0;

	base_give(device, device->base);
	for (int timed = 0; timed < 2; timed++) {
		struct sgpu_cuda_events *idle = &device->idle_events[timed];

		while (idle->count > 0 && !faulted) {
			(void)sgpu_cu.cuEventDestroy(idle->list[--idle->count]);
		}
		free(idle->list);
	}
	stamps_close(device);
	if (device->clock && !faulted) {
		(void)sgpu_cu.cuStreamDestroy(device->clock);
	}
}
