/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's events, which are reused, and waiting for them.
 */
#include <stdlib.h>

#include <device/cuda/stream.h>

/* How long work may go on once it is cancelled. */
#define GRACE_NS ((uint64_t)5000000000)

CUresult sgpu_cuda_event_take(struct sgpu_device *device, CUevent *event)
{
	bool found;

	pthread_mutex_lock(&device->lock);
	found = device->event_count > 0;
	if (found) {
		*event = device->idle_events[--device->event_count];
	}
	pthread_mutex_unlock(&device->lock);
	return found ? CUDA_SUCCESS : sgpu_cu.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
}

CUresult sgpu_cuda_event_after(struct sgpu_device *device, CUstream native, CUevent *event)
{
	CUresult result = sgpu_cuda_event_take(device, event);

	return result == CUDA_SUCCESS ? sgpu_cu.cuEventRecord(*event, native) : result;
}

void sgpu_cuda_event_give(struct sgpu_device *device, CUevent event)
{
	bool room;

	if (!event || atomic_load(&device->faulted) != 0) {
		return; /* the event is destroyed with the context */
	}
	pthread_mutex_lock(&device->lock);
	room = device->event_count < SGPU_CUDA_EVENTS;
	if (room) {
		device->idle_events[device->event_count++] = event;
	}
	pthread_mutex_unlock(&device->lock);
	if (!room) {
		(void)sgpu_cu.cuEventDestroy(event);
	}
}

void sgpu_cuda_events_close(struct sgpu_device *device)
{
	while (device->event_count > 0 && atomic_load(&device->faulted) == 0) {
		(void)sgpu_cu.cuEventDestroy(device->idle_events[--device->event_count]);
	}
}

/* ---- waiting ---- */
bool sgpu_cuda_overdue(struct sgpu_device *device, uint64_t since_ns)
{
	const uint64_t cancelled = atomic_load(&device->cancel_ns);
	const uint64_t from = since_ns > cancelled ? since_ns : cancelled;

	if (cancelled != 0 && sgpu_now_ns() > from + GRACE_NS) {
		sgpu_cuda_fault(device, SGPU_ECANCELED, "work went on long after it was cancelled");
	}
	return atomic_load(&device->faulted) != 0;
}

/* Pauses before another look, unless there is nothing to wait for any more. */
static bool goes_on(struct sgpu_device *device, CUresult result, uint64_t begin_ns)
{
	if (result != CUDA_ERROR_NOT_READY || sgpu_cuda_overdue(device, begin_ns)) {
		return false;
	}
	sgpu_device_pause(begin_ns);
	return true;
}

int sgpu_cuda_wait(struct sgpu_device *device, CUevent event, struct sgpu_error *error)
{
	const uint64_t begin = sgpu_now_ns();
	CUresult result;

	do {
		result = sgpu_cu.cuEventQuery(event);
	} while (goes_on(device, result, begin));
	return sgpu_cuda_must(device, result, error);
}

void sgpu_cuda_wait_until_idle(struct sgpu_stream *stream)
{
	const uint64_t begin = sgpu_now_ns();
	CUresult result;

	do {
		result = sgpu_cu.cuStreamQuery(stream->native);
	} while (goes_on(stream->device, result, begin));
	(void)!sgpu_cuda_must(stream->device, result, NULL);
}
