/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's events, kept for reuse, and waiting for them.
 */
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include <device/cuda/gpu.h>

/* A waiting thread polls without pause for as long as most work takes, then sleeps between polls,
 * each time for 1/64 of its wait so far, within STEP_MIN_NS and STEP_MAX_NS. */
#define SPIN_NS ((uint64_t)2000000)
#define STEP_MIN_NS ((uint64_t)10000)
#define STEP_MAX_NS ((uint64_t)100000)

CUresult sgpu_cuda_event_take(struct sgpu_device *device, CUevent *event)
{
	struct sgpu_cuda_events *idle = &device->idle_events;
	bool found;

	pthread_mutex_lock(&device->pool_lock);
	found = idle->count > 0;
	if (found) {
		*event = idle->list[--idle->count];
	}
	pthread_mutex_unlock(&device->pool_lock);
	return found ? CUDA_SUCCESS : sgpu_cu.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
}

CUresult sgpu_cuda_event_after(struct sgpu_device *device, CUstream native, CUevent *event)
{
	CUresult result = sgpu_cuda_event_take(device, event);

	return result == CUDA_SUCCESS ? sgpu_cu.cuEventRecord(*event, native) : result;
}

void sgpu_cuda_event_give(struct sgpu_device *device, CUevent event)
{
	struct sgpu_cuda_events *idle = &device->idle_events;
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

void sgpu_cuda_events_close(struct sgpu_device *device)
{
	struct sgpu_cuda_events *idle = &device->idle_events;

	while (idle->count > 0 && atomic_load(&device->faulted) == 0) {
		(void)sgpu_cu.cuEventDestroy(idle->list[--idle->count]);
	}
	free(idle->list);
}

/* Sleeps until the event completes. The kernel lengthens sleeps by the thread's timer slack, 50 us
 * unless it is set. */
static CUresult sleep_until(struct sgpu_device *device, CUevent event, uint64_t begin)
{
	int slack = prctl(PR_GET_TIMERSLACK);
	CUresult result;
	uint64_t step;

	(void)prctl(PR_SET_TIMERSLACK, 1000UL);
	while ((result = sgpu_cu.cuEventQuery(event)) == CUDA_ERROR_NOT_READY &&
	       atomic_load(&device->faulted) == 0) {
		step = (sgpu_now_ns() - begin) / 64;
		step = step < STEP_MIN_NS ? STEP_MIN_NS : step;
		step = step > STEP_MAX_NS ? STEP_MAX_NS : step;
		nanosleep(&(struct timespec){ .tv_nsec = (long)step }, NULL);
	}
	if (slack > 0) {
		(void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
	}
	return result;
}

int sgpu_cuda_wait(struct sgpu_device *device, CUevent event, struct sgpu_error *error)
{
	uint64_t begin = sgpu_now_ns();
	CUresult result;

	while ((result = sgpu_cu.cuEventQuery(event)) == CUDA_ERROR_NOT_READY &&
	       atomic_load(&device->faulted) == 0) {
		if (!device->may_spin || sgpu_now_ns() - begin > SPIN_NS) {
			result = sleep_until(device, event, begin);
			break;
		}
	}
	if (result == CUDA_ERROR_NOT_READY) {
		return sgpu_cuda_faulted(device, error);
	}
	return sgpu_cuda_check(device, result, "cannot wait for the device", error);
}
