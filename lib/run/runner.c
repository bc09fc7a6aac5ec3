/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner, and what its runs share on the devices.
 */
#include "run/private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/base.h>

#include "transfer/transfer.h"

/* A device stops all of its kernels or none. Beside other runs, a stopped run's kernels first get
 * time to end. If they do not, all kernels are stopped: one that never ends would block the others
 * anyway. All devices stop together, since a run may use several. */

/* The mutex is held. cancel false: the devices go on. */
static void cancel_devices(struct sgpu_runner *runner, bool cancel)
{
	runner->presence.cancelling = cancel;
	for (int i = 0; i < runner->device_count; i++) {
		sgpu_device_cancel(runner->devices[i].device, cancel);
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

int sgpu_presence_enter(struct sgpu_run *run, int (*ended)(void *run), struct sgpu_error *error)
{
	struct sgpu_presence *presence = &run->runner->presence;
	const bool has_module = run->job.has_module;
	const char *owner = run->job.owner;
	int rc;

	pthread_mutex_lock(&presence->mutex);
	presence->alone += has_module;
	while ((rc = ended(run)) == SGPU_OK && !is_of_another(presence, owner) &&
	       (presence->cancelling ||
		(has_module ? presence->count + presence->uncleared : presence->alone) > 0)) {
		wait_for_change(presence);
	}
	if (rc == SGPU_OK && is_of_another(presence, owner)) {
		rc = SGPU_ERETRY;
	}
	run->inside = rc == SGPU_OK;
	presence->count += run->inside;
	if (run->inside && has_module) {
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

void sgpu_presence_leave(struct sgpu_run *run)
{
	struct sgpu_presence *presence = &run->runner->presence;

	pthread_mutex_lock(&presence->mutex);
	if (run->inside) {
		run->inside = false;
		run->uncleared = true;
		presence->count--;
		presence->uncleared++;
		presence->alone -= run->job.has_module;
		if (presence->cancelling) {
			cancel_devices(run->runner, false);
		}
		pthread_cond_broadcast(&presence->changed);
	}
	pthread_mutex_unlock(&presence->mutex);
}

void sgpu_presence_cleared(struct sgpu_run *run)
{
	struct sgpu_presence *presence = &run->runner->presence;

	pthread_mutex_lock(&presence->mutex);
	presence->uncleared -= run->uncleared;
	run->uncleared = false;
	pthread_cond_broadcast(&presence->changed);
	pthread_mutex_unlock(&presence->mutex);
}

void sgpu_presence_stop(struct sgpu_run *run)
{
	struct sgpu_presence *presence = &run->runner->presence;

	pthread_mutex_lock(&presence->mutex);
	if (run->inside && !presence->cancelling &&
	    (presence->count == 1 ||
	     sgpu_now_ns() >= atomic_load(&run->stop_ns) + SGPU_RUN_GRACE_NS)) {
		cancel_devices(run->runner, true);
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
enum { DRIVER_QUEUES = 8 }; /* of a GPU: with more streams, some would share a queue */

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
	pthread_mutex_init(&r->prepared.mutex, NULL);
	pthread_mutex_init(&r->presence.mutex, NULL);
	pthread_cond_init(&r->presence.changed, NULL);
	rc = config->more_count < SGPU_RUN_DEVICES_MAX
		     ? sgpu_device_get_info(config->device, &info, error)
		     : sgpu_fail(error, SGPU_EUSAGE, "a runner has 1 to %d devices",
				 SGPU_RUN_DEVICES_MAX);
	if (rc == SGPU_OK) {
		r->pins = info.pins_host_memory;
		r->costs = SGPU_PLAN_COSTS;
		if (info.opens_on_device) {
			r->costs.streams = DRIVER_QUEUES;
		}
	}
	for (int i = 0; rc == SGPU_OK && i <= config->more_count; i++) {
		struct sgpu_run_device *d = &r->devices[r->device_count];

		d->number = r->device_count++;
		d->device = i == 0 ? config->device : config->more[i - 1];
		pthread_mutex_init(&d->mutex, NULL);
		rc = sgpu_engine_create(d->device, &engine, &d->engine, error);
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
		sgpu_peer_close(&r->peers[i / r->device_count][i % r->device_count]);
	}
	sgpu_prepared_table_clear(&r->prepared);
	pthread_cond_destroy(&r->presence.changed);
	pthread_mutex_destroy(&r->presence.mutex);
	pthread_mutex_destroy(&r->mutex);
	free(r);
	*runner = NULL;
}
