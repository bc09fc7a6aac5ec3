/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA events, kept for reuse, and the device's clock against the host's.
 */
#include <stdlib.h>

#include <device/cuda/gpu.h>

/* The two clocks drift apart by some 10 us a second, and times that a float counts from a base that is a second ago
 * are good to 0.1 us. */
#define BASE_NS ((uint64_t)1000000000)

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
		     : sgpu_cu.cuEventCreate(event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}

void sgpu_cuda_event_give(struct sgpu_device *device, bool timed, CUevent event)
{
	struct sgpu_cuda_events *idle = &device->idle_events[timed];
	CUevent *more;

	if (!event || atomic_load(&device->faulted) != 0) {
		return; /* it goes with the context */
	}
	pthread_mutex_lock(&device->pool_lock);
	if (idle->count == idle->room && (more = realloc(idle->list, (idle->room * 2 + 64) * sizeof(CUevent)))) {
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

/* The clock's stream is empty, so the device is there at once. */
static struct sgpu_cuda_base *make_base(struct sgpu_device *device)
{
	struct sgpu_cuda_base *base = calloc(1, sizeof(*base));

	if (!base) {
		return NULL;
	}
	base->references = 1;
	if (sgpu_cuda_event_take(device, true, &base->event) == CUDA_SUCCESS) {
		if (sgpu_cu.cuEventRecord(base->event, device->clock) == CUDA_SUCCESS) {
			base->host_ns = sgpu_now_ns();
			return base;
		}
		sgpu_cuda_event_give(device, true, base->event);
	}
	free(base);
	return NULL;
}

void sgpu_cuda_base_give(struct sgpu_device *device, struct sgpu_cuda_base *base)
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

struct sgpu_cuda_base *sgpu_cuda_base_take(struct sgpu_device *device, uint64_t now)
{
	struct sgpu_cuda_base *base, *old = NULL, *new = NULL;

	pthread_mutex_lock(&device->pool_lock);
	base = device->base;
	base->references++;
	pthread_mutex_unlock(&device->pool_lock);
	if (now - base->host_ns <= BASE_NS || now < base->host_ns || !(new = make_base(device))) {
		return base;
	}
	pthread_mutex_lock(&device->pool_lock);
	old = device->base;
	device->base = new;
	new->references++;
	pthread_mutex_unlock(&device->pool_lock);
	sgpu_cuda_base_give(device, old);
	sgpu_cuda_base_give(device, base);
	return new;
}

uint64_t sgpu_cuda_time_of(struct sgpu_device *device, CUevent event, const struct sgpu_cuda_base *base,
			   uint64_t from)
{
	uint64_t now = sgpu_now_ns(), time = now;
	float elapsed = 0;
	CUresult result = sgpu_cu.cuEventElapsedTime(&elapsed, base->event, event);

	if (result == CUDA_SUCCESS) {
		time = base->host_ns + (uint64_t)(elapsed > 0 ? (double)elapsed * 1e6 : 0);
	} else {
		sgpu_cuda_note(device, result);
	}
	time = time < from ? from : time;
	return time > now ? now : time;
}

int sgpu_cuda_clock_open(struct sgpu_device *device, struct sgpu_error *error)
{
	CUresult result = sgpu_cu.cuStreamCreate(&device->clock, CU_STREAM_NON_BLOCKING);
	int round;

	if (result != CUDA_SUCCESS) {
		return sgpu_cuda_fail(error, result, "cannot create a stream");
	}
	/* The first record of a stream takes long. */
	for (round = 0; round < 3; round++) {
		sgpu_cuda_base_give(device, device->base);
		device->base = make_base(device);
		if (!device->base || sgpu_cu.cuStreamSynchronize(device->clock) != CUDA_SUCCESS) {
			return sgpu_fail(error, SGPU_EDEVICE, "cannot read the device's clock");
		}
	}
	return SGPU_OK;
}

void sgpu_cuda_clock_close(struct sgpu_device *device)
{
	bool faulted = atomic_load(&device->faulted) != 0;

	sgpu_cuda_base_give(device, device->base);
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
