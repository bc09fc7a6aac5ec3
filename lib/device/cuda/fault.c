/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's errors: of the program, of the device, and those that make the context unusable. The last
 * kind faults the device: pending work ends with the error, no more CUDA calls are made, and host
 * data are untouched. After such a fault, the driver gives the process no new context on any GPU,
 * so the process has to be started again.
 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <device/cuda/stream.h>

/* A waiting thread polls without pause for as long as most work takes, then sleeps between polls,
 * each time for 1/64 of its wait so far, within STEP_MIN_NS and STEP_MAX_NS. */
#define SPIN_NS ((uint64_t)2000000)
#define STEP_MIN_NS ((uint64_t)10000)
#define STEP_MAX_NS ((uint64_t)100000)

/* This process's first fault, or "". */
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static char process_fault[256];

static void remember(const char *text)
{
	pthread_mutex_lock(&process_lock);
	if (process_fault[0] == '\0') {
		snprintf(process_fault, sizeof(process_fault), "%s", text);
	}
	pthread_mutex_unlock(&process_lock);
}

int sgpu_cuda_process_sound(struct sgpu_error *error)
{
	int rc = SGPU_OK;

	pthread_mutex_lock(&process_lock);
	if (process_fault[0] != '\0') {
		rc = sgpu_fail(error, SGPU_EDEVICE,
			       "this process can use no GPU any more, after a fault: %s",
			       process_fault);
		sgpu_hint(error, "start the program again");
	}
	pthread_mutex_unlock(&process_lock);
	return rc;
}

int sgpu_cuda_faulted(struct sgpu_device *device, struct sgpu_error *error)
{
	int rc = atomic_load(&device->faulted);

	if (rc != 0 && error) {
		pthread_mutex_lock(&device->fault_lock);
		*error = device->fault;
		pthread_mutex_unlock(&device->fault_lock);
	}
	return rc;
}

void sgpu_cuda_fault(struct sgpu_device *device, int rc, const char *text)
{
	pthread_mutex_lock(&device->fault_lock);
	if (atomic_load(&device->faulted) == 0) {
		sgpu_fail(&device->fault, rc, "the device's context ended: %s", text);
		atomic_store(&device->faulted, rc);
	}
	pthread_mutex_unlock(&device->fault_lock);
	if (rc != SGPU_ECANCELED) {
		remember(text);
	}
	sgpu_cuda_completer_wake(device);
}

/* A failure faults the device, because the caller then ends pending work as after a fault.
 */
int sgpu_cuda_enter(struct sgpu_device *device, struct sgpu_error *error)
{
	int rc = sgpu_cuda_faulted(device, error);
	CUresult result;

	if (rc != 0) {
		return rc;
	}
	result = sgpu_cu.cuCtxSetCurrent(device->context);
	if (result != CUDA_SUCCESS && !sgpu_cuda_sticky(result)) {
		sgpu_cuda_fault(device, SGPU_EDEVICE, sgpu_cuda_name(result));
		return sgpu_cuda_faulted(device, error);
	}
	return sgpu_cuda_check(device, result, "cannot use the device's context", error);
}

int sgpu_cuda_check(struct sgpu_device *device, CUresult result, const char *what,
		    struct sgpu_error *error)
{
	char text[256];

	if (result == CUDA_SUCCESS) {
		return SGPU_OK;
	}
	if (!sgpu_cuda_sticky(result)) {
		return sgpu_cuda_fail(error, result, what);
	}
	snprintf(text, sizeof(text), "%s (%s)", sgpu_cuda_name(result), sgpu_cuda_text(result));
	sgpu_cuda_fault(device, SGPU_EDEVICE, text);
	return sgpu_cuda_faulted(device, error);
}

void sgpu_cuda_note(struct sgpu_device *device, CUresult result)
{
	if (sgpu_cuda_check(device, result, "", NULL) != SGPU_OK) {
		return; /* if the device is faulted, later calls report it */
	}
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
