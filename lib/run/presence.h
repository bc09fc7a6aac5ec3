/* SPDX-License-Identifier: Apache-2.0
 *
 * Which runs may have work on the devices, and whether these were told to stop what they do.
 */
#ifndef SGPU_RUN_PRESENCE_H
#define SGPU_RUN_PRESENCE_H

#include <pthread.h>
#include <stdatomic.h>

#include <sgpu/run.h>

struct sgpu_run_device;

struct sgpu_presence {
	const struct sgpu_run_device *devices;
	int device_count;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int count;	 /* runs that have entered */
	bool cancelling; /* the devices were told to stop: nobody may enter */
};

/* The devices are borrowed. */
void sgpu_presence_init(struct sgpu_presence *presence, const struct sgpu_run_device *devices,
			int device_count);
void sgpu_presence_clear(struct sgpu_presence *presence);
/* `inside` is of the run, false at first, and changes under the mutex: whoever stops a run may be
 * late. */
/* Before a run gives work to the device; waits while the device is being stopped. Errors: *stop,
 * once it is set. */
SGPU_MUST_CHECK int sgpu_presence_enter(struct sgpu_presence *presence, bool *inside,
					const atomic_int *stop, struct sgpu_error *error);
/* When nothing of the run is pending on the device any more. Returns whether it was inside. */
bool sgpu_presence_leave(struct sgpu_presence *presence, bool *inside);
/* A run was stopped at that time. Inside, its kernels are ended: at once when it is alone on the
 * device, else after SGPU_RUN_GRACE_NS. Outside, it waits no longer to enter. Returns when to ask
 * again, or 0. */
uint64_t sgpu_presence_stop(struct sgpu_presence *presence, const bool *inside,
			    uint64_t stopped_ns);

#endif
