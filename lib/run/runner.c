/* SPDX-License-Identifier: Apache-2.0
 *
 * A runner: made once a process, so that batches need not make streams or staging memory.
 */
#include "run/private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/base.h>

#include "transfer/transfer.h"

/* A device stops all of its kernels or none. So if a run is stopped while other runs are on the
 * device, its kernels first get time to end. If they do not, the other runs lose theirs, too: a
 * kernel that never ends would block them anyway. A run may have work on each of several devices,
 * so these are stopped together. */

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

/* Tells all devices to cancel their work, or to go on. The mutex is held. */
static void cancel_devices(struct sgpu_presence *presence, bool cancel)
{
	presence->cancelling = cancel;
	for (int i = 0; i < presence->device_count; i++) {
		sgpu_device_cancel(presence->devices[i].device, cancel);
	}
}

static bool is_of_another(const struct sgpu_presence *presence, const char *owner)
{
	return presence->bound && strcmp(presence->owner, owner) != 0;
}

/* Waits for a change, or for a moment, since nobody tells of a deadline. The mutex is held. */
static void wait_for_change(struct sgpu_presence *presence)
{
	const long moment_ns = 10000000;
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += moment_ns;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&presence->changed, &presence->mutex, &until);
}

int sgpu_presence_enter(struct sgpu_presence *presence, bool *inside, int (*ended)(void *argument),
			void *argument, bool has_module, const char *owner,
			struct sgpu_error *error)
{
	int rc;

	pthread_mutex_lock(&presence->mutex);
	presence->alone += has_module;
	while ((rc = ended(argument)) == SGPU_OK && !is_of_another(presence, owner) &&
	       (presence->cancelling ||
		(has_module ? presence->count + presence->uncleared : presence->alone) > 0)) {
		wait_for_change(presence);
	}
	if (rc == SGPU_OK && is_of_another(presence, owner)) {
		rc = SGPU_ERETRY;
	}
	*inside = rc == SGPU_OK;
	presence->count += *inside;
	if (*inside && has_module) {
		presence->bound = true;
		snprintf(presence->owner, sizeof(presence->owner), "%s", owner);
	} else {
		presence->alone -= has_module;
		pthread_cond_broadcast(&presence->changed);
	}
	pthread_mutex_unlock(&presence->mutex);
	return rc == SGPU_OK	   ? rc
	       : rc == SGPU_ERETRY ? sgpu_fail(error, rc,
					       "this process has run a module of another owner: "
					       "send the batch again")
				   : sgpu_fail(error, rc, "the run was stopped");
}

bool sgpu_presence_leave(struct sgpu_presence *presence, bool *inside, bool has_module)
{
	bool was_inside;

	pthread_mutex_lock(&presence->mutex);
	was_inside = *inside;
	*inside = false;
	presence->count -= was_inside;
	presence->uncleared += was_inside;
	presence->alone -= was_inside && has_module;
	if (was_inside && presence->cancelling) {
		cancel_devices(presence, false);
	}
	pthread_cond_broadcast(&presence->changed);
	pthread_mutex_unlock(&presence->mutex);
	return was_inside;
}

void sgpu_presence_cleared(struct sgpu_presence *presence)
{
	pthread_mutex_lock(&presence->mutex);
	presence->uncleared--;
	pthread_cond_broadcast(&presence->changed);
	pthread_mutex_unlock(&presence->mutex);
}

void sgpu_presence_stop(struct sgpu_presence *presence, const bool *inside, uint64_t stopped_ns)
{
	pthread_mutex_lock(&presence->mutex);
	if (*inside && !presence->cancelling &&
	    (presence->count == 1 || sgpu_now_ns() >= stopped_ns + SGPU_RUN_GRACE_NS)) {
		cancel_devices(presence, true);
	}
	pthread_mutex_unlock(&presence->mutex);
}

/* ---- streams of a device that no run uses ---- */
int sgpu_streams_take(struct sgpu_run_device *device, struct sgpu_stream **stream,
		      struct sgpu_error *error)
{
	*stream = NULL;
	pthread_mutex_lock(&device->mutex);
	if (device->idle_count > 0) {
		*stream = device->idle[--device->idle_count];
	}
	pthread_mutex_unlock(&device->mutex);
	return *stream ? SGPU_OK : sgpu_stream_create(device->device, stream, error);
}

void sgpu_streams_give(struct sgpu_run_device *device, struct sgpu_stream **stream, bool idle)
{
	if (!*stream) {
		return;
	}
	if (!idle && sgpu_stream_sync(*stream, NULL) != SGPU_OK) {
		sgpu_stream_free(stream);
		return;
	}
	pthread_mutex_lock(&device->mutex);
	if (device->idle_count < SGPU_IDLE_STREAMS_MAX) {
		device->idle[device->idle_count++] = *stream;
		*stream = NULL;
	}
	pthread_mutex_unlock(&device->mutex);
	sgpu_stream_free(stream);
}

/* ---- the runner ---- */
static int make_device(struct sgpu_runner *r, struct sgpu_device *device,
		       const struct sgpu_engine_config *engine, struct sgpu_error *error)
{
	struct sgpu_run_device *d = &r->devices[r->device_count];

	d->number = r->device_count++;
	d->device = device;
	pthread_mutex_init(&d->mutex, NULL);
	return sgpu_engine_create(device, engine, &d->engine, error);
}

int sgpu_runner_create(const struct sgpu_runner_config *config, struct sgpu_runner **runner,
		       struct sgpu_error *error)
{
	struct sgpu_runner *r = calloc(1, sizeof(*r));
	const struct sgpu_engine_config engine = { .workers = config->jobs,
						   .pinned_max = config->pinned_max,
						   .shared_files = config->shared_files };
	struct sgpu_device_info info;
	int rc;

	*runner = NULL;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&r->mutex, NULL);
	pthread_mutex_init(&r->links.mutex, NULL);
	pthread_mutex_init(&r->prepared.mutex, NULL);
	sgpu_presence_init(&r->presence, r->devices, config->more_count + 1);
	rc = config->more_count < SGPU_RUN_DEVICES_MAX
		     ? sgpu_device_get_info(config->device, &info, error)
		     : sgpu_fail(error, SGPU_EUSAGE, "a runner has 1 to %d devices",
				 SGPU_RUN_DEVICES_MAX);
	if (rc == SGPU_OK) {
		r->opens_on_device = info.opens_on_device;
		r->pins = info.pins_host_memory;
		r->shared_files = config->shared_files;
		r->costs = SGPU_PLAN_COSTS;
	}
	for (int i = 0; rc == SGPU_OK && i <= config->more_count; i++) {
		rc = make_device(r, i == 0 ? config->device : config->more[i - 1], &engine, error);
	}
	if (rc < 0) {
		sgpu_runner_free(&r);
	}
	*runner = r;
	return rc;
}

void sgpu_runner_free(struct sgpu_runner **runner)
{
	struct sgpu_runner *r = runner ? *runner : NULL;

	if (!r) {
		return;
	}
	for (int i = 0; i < r->device_count; i++) {
		struct sgpu_run_device *d = &r->devices[i];

		sgpu_engine_free(&d->engine);
		while (d->idle_count > 0) {
			sgpu_stream_free(&d->idle[--d->idle_count]);
		}
		pthread_mutex_destroy(&d->mutex);
	}
	for (int i = 0; i < r->device_count * r->device_count; i++) {
		sgpu_peer_close(&r->links.peers[i / r->device_count][i % r->device_count]);
	}
	pthread_mutex_destroy(&r->links.mutex);
	sgpu_prepared_table_clear(&r->prepared);
	sgpu_presence_clear(&r->presence);
	pthread_mutex_destroy(&r->mutex);
	free(r);
	*runner = NULL;
}
