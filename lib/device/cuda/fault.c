/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's errors: of the program, of the device, and those that make the context unusable, which
 * fault the device: pending work ends with the error, no more CUDA calls are made, and host data
 * are untouched. The driver then gives the process no new context on any GPU, so the process has to
 * be started again.
 */
#include <stdio.h>
#include <string.h>

#include <device/cuda/gpu.h>

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
}

int sgpu_cuda_must(struct sgpu_device *device, CUresult result, struct sgpu_error *error)
{
	char text[256];

	if (result == CUDA_SUCCESS) {
		return SGPU_OK;
	}
	if (result != CUDA_ERROR_NOT_READY) { /* else a fault has ended a wait */
		snprintf(text, sizeof(text), "%s (%s)", sgpu_cuda_name(result),
			 sgpu_cuda_text(result));
		sgpu_cuda_fault(device, SGPU_EDEVICE, text);
	}
	return sgpu_cuda_faulted(device, error);
}

int sgpu_cuda_check(struct sgpu_device *device, CUresult result, const char *what,
		    struct sgpu_error *error)
{
	if (result == CUDA_SUCCESS || sgpu_cuda_sticky(result)) {
		return sgpu_cuda_must(device, result, error);
	}
	return sgpu_cuda_fail(error, result, what);
}

/* A failure faults the device, because the caller then ends pending work as after a fault. */
int sgpu_cuda_enter(struct sgpu_device *device, struct sgpu_error *error)
{
	int rc = sgpu_cuda_faulted(device, error);

	return rc != 0 ? rc
		       : sgpu_cuda_must(device, sgpu_cu.cuCtxSetCurrent(device->context), error);
}

void sgpu_cuda_note(struct sgpu_device *device, CUresult result)
{
	/* If the device is faulted, later calls report it. */
	(void)!sgpu_cuda_check(device, result, "", NULL);
}
