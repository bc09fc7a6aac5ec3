/* SPDX-License-Identifier: Apache-2.0
 *
 * A device stops all of its kernels or none. So a run that is stopped while others are on the
 * device first lets its kernels end; when they do not, the others lose theirs, too, since a kernel
 * that never ends stops them all anyway. With several devices a run may have work on each of them,
 * so they are stopped together.
 */
#include "run/presence.h"

#include <sgpu/base.h>

#include "run/run.h"

void sgpu_presence_init(struct sgpu_presence *presence, const struct sgpu_run_device *devices,
			int device_count)
{
	*presence = (struct sgpu_presence){ .devices = devices, .device_count = device_count };
	pthread_mutex_init(&presence->mutex, NULL);
	pthread_cond_init(&presence->changed, NULL);
}

void sgpu_presence_clear(struct sgpu_presence *presence)
{
	pthread_cond_destroy(&presence->changed);
	pthread_mutex_destroy(&presence->mutex);
}

/* The mutex is held. */
static void cancel_devices(struct sgpu_presence *presence, bool cancel)
{
	presence->cancelling = cancel;
	for (int i = 0; i < presence->device_count; i++) {
		sgpu_device_cancel(presence->devices[i].device, cancel);
	}
}

int sgpu_presence_enter(struct sgpu_presence *presence, bool *inside, const atomic_int *stop,
			struct sgpu_error *error)
{
	int rc;

	pthread_mutex_lock(&presence->mutex);
	while (presence->cancelling && atomic_load(stop) == SGPU_OK) {
		pthread_cond_wait(&presence->changed, &presence->mutex);
	}
	rc = atomic_load(stop);
	*inside = rc == SGPU_OK;
	presence->count += *inside;
	pthread_mutex_unlock(&presence->mutex);
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "the run was stopped");
}

bool sgpu_presence_leave(struct sgpu_presence *presence, bool *inside)
{
	bool was_inside;

	pthread_mutex_lock(&presence->mutex);
	was_inside = *inside;
	*inside = false;
	presence->count -= was_inside;
	if (was_inside && presence->cancelling) {
		cancel_devices(presence, false);
	}
	pthread_cond_broadcast(&presence->changed);
	pthread_mutex_unlock(&presence->mutex);
	return was_inside;
}

uint64_t sgpu_presence_stop(struct sgpu_presence *presence, const bool *inside, uint64_t stopped_ns)
{
	const uint64_t until = stopped_ns + SGPU_RUN_GRACE_NS;
	uint64_t when = 0;

	pthread_mutex_lock(&presence->mutex);
	if (!*inside) {
		pthread_cond_broadcast(&presence->changed);
	} else if (presence->count > 1 && sgpu_now_ns() < until) {
		when = until;
	} else if (!presence->cancelling) {
		cancel_devices(presence, true);
	}
	pthread_mutex_unlock(&presence->mutex);
	return when;
}
