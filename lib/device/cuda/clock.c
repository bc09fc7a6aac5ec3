/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA events, kept for reuse; and the times of work, by events against the host's clock. In
 * confidential computing mode, times between events are known to be wrong, even negative: work is
 * then not timed.
 */
#include <stdlib.h>

#include <device/cuda/gpu.h>

/* The age at which a base is replaced: the clocks drift apart by some 10 us a second, and a float
 * is exact to 0.1 us one second after the base. */
#define BASE_NS ((uint64_t)1000000000)
/* Taking a base may last CLOSE_NS without another try, PATIENCE_NS at most, and FIRST_NS at most
 * for the first base: a stream's first event takes long. */
#define CLOSE_NS ((uint64_t)50000)
#define PATIENCE_NS ((uint64_t)3000000)
#define FIRST_NS ((uint64_t)10000000000)
enum { TRIES = 3 };

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

/* ---- bases ---- */
/* Takes the time on the clock stream, and the host's before and after. The stream is empty, but the
 * GPU may work for another process or be full of kernels. Fails after `patience`. *error_ns: how
 * far base->host_ns may be from that moment. */
static bool take_moment(struct sgpu_device *device, struct sgpu_cuda_base *base, uint64_t *error_ns)
{
	const uint64_t before = sgpu_now_ns(), patience = device->base ? PATIENCE_NS : FIRST_NS;
	CUresult result = sgpu_cu.cuStreamQuery(device->clock);

	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuEventRecord(base->event, device->clock);
	}
	if (result == CUDA_SUCCESS) {
		do {
			result = sgpu_cu.cuStreamQuery(device->clock);
			*error_ns = sgpu_now_ns() - before;
		} while (result == CUDA_ERROR_NOT_READY && *error_ns < patience);
		base->host_ns = before + *error_ns / 2;
	}
	return result == CUDA_SUCCESS;
}

static struct sgpu_cuda_base *make_base(struct sgpu_device *device)
{
	struct sgpu_cuda_base *base = calloc(1, sizeof(*base));
	uint64_t error_ns = UINT64_MAX;
	bool taken;

	if (!base) {
		return NULL;
	}
	base->references = 1;
	taken = sgpu_cuda_event_take(device, true, &base->event) == CUDA_SUCCESS;
	for (int i = 0; taken && i < TRIES && error_ns > CLOSE_NS; i++) {
		taken = take_moment(device, base, &error_ns);
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
	CUresult result;

	record->base = base_take(device, sgpu_now_ns());
	result = sgpu_cuda_event_take(device, true, &record->event);
	return result == CUDA_SUCCESS ? sgpu_cu.cuEventRecord(record->event, stream->native)
				      : result;
}

void sgpu_cuda_unmark(struct sgpu_device *device, struct sgpu_cuda_record *record)
{
	sgpu_cuda_event_give(device, record->kind != SGPU_CUDA_CALL, record->event);
	base_give(device, record->base);
}

uint64_t sgpu_cuda_time_of(struct sgpu_device *device, const struct sgpu_cuda_record *record,
			   uint64_t from)
{
	const uint64_t now = sgpu_now_ns();
	uint64_t since, told;
	float elapsed = 0;
	CUresult result = sgpu_cu.cuEventElapsedTime(&elapsed, record->base->event, record->event);

	sgpu_cuda_note(device, result);
	if (result != CUDA_SUCCESS || now < from) {
		return now < from ? from : now;
	}
	since = (uint64_t)(int64_t)((double)elapsed * 1e6);
	pthread_mutex_lock(&device->pool_lock);
	told = record->base->host_ns + since;
	told = told < from ? from : told > now ? now : told;
	/* If the time had to be moved into its possible range, the base is wrong by as much. Move
	 * the base, too, so that the differences of later times stay true. */
	record->base->host_ns = told - since;
	pthread_mutex_unlock(&device->pool_lock);
	return told;
}

int sgpu_cuda_clock_open(struct sgpu_device *device, struct sgpu_error *error)
{
	CUresult result;

	if (!device->times) {
		return SGPU_OK;
	}
	result = sgpu_cu.cuStreamCreate(&device->clock, CU_STREAM_NON_BLOCKING);
	if (result != CUDA_SUCCESS) {
		return sgpu_cuda_fail(error, result, "cannot create a stream");
	}
	/* Make it three times: a stream's first event takes long. */
	for (int round = 0; round < 3; round++) {
		base_give(device, device->base);
		device->base = NULL;
		device->base = make_base(device);
		if (!device->base || sgpu_cu.cuStreamSynchronize(device->clock) != CUDA_SUCCESS) {
			return sgpu_fail(error, SGPU_EDEVICE, "cannot read the device's clock");
		}
	}
	device->base_tried_ns = sgpu_now_ns();
	return SGPU_OK;
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
	if (device->clock && !faulted) {
		(void)sgpu_cu.cuStreamDestroy(device->clock);
	}
}
