/* SPDX-License-Identifier: Apache-2.0
 *
 * What the runs of a runner share: streams, engines, prepared jobs, and who may have work on the
 * devices.
 */
#ifndef SGPU_RUN_RUNNER_H
#define SGPU_RUN_RUNNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "run/job.h"
#include "run/plan.h"
#include "run/run.h"

enum { SGPU_IDLE_STREAMS_MAX = 4 * SGPU_PLAN_STREAMS_MAX };

struct sgpu_run_device {
	int number; /* in the order of the runner's configuration */
	struct sgpu_device *device;
	struct sgpu_engine *engine;
	pthread_mutex_t mutex; /* guards the streams that no run uses */
	int idle_count;
	struct sgpu_stream *idle[SGPU_IDLE_STREAMS_MAX];
};

/* Takes an idle stream, or makes one. */
SGPU_MUST_CHECK int sgpu_streams_take(struct sgpu_run_device *device, struct sgpu_stream **stream,
				      struct sgpu_error *error);
/* Gives a stream back, and clears the pointer; accepts a pointer to NULL. Unless it is known to be
 * idle, waits for its work. */
void sgpu_streams_give(struct sgpu_run_device *device, struct sgpu_stream **stream, bool idle);

/* ---- presence: how many runs may have work on the devices, and whether these were told to stop
 * ---- */
struct sgpu_presence {
	const struct sgpu_run_device *devices;
	int device_count;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int count;	 /* runs that have entered */
	int uncleared;	 /* runs that have left, but whose data the devices still have */
	bool cancelling; /* the devices were told to stop: no run may enter */
	int alone;	 /* runs that are inside, or wait, and have a module */
	bool bound;	 /* a module has been here: only runs of `owner` may enter */
	char owner[SGPU_KID_SIZE + 1];
};

/* The devices are borrowed. */
void sgpu_presence_init(struct sgpu_presence *presence, const struct sgpu_run_device *devices,
			int device_count);
void sgpu_presence_clear(struct sgpu_presence *presence);
/* `inside` is a member of the run: whether it has entered. It changes under the mutex. */
/* Lets a run enter; it must do so before it gives work to the devices. Waits while these are being
 * stopped. A kernel of a module can address all that the process has mapped: a run with one
 * (has_module) waits until no other is inside or has left data there, and keeps the others out
 * until it leaves. After that the process takes no batch of another owner. `ended` is asked now and
 * then while the run waits: why it must end, or SGPU_OK. Errors: that; SGPU_ERETRY: the batch is of
 * another owner. */
SGPU_MUST_CHECK int sgpu_presence_enter(struct sgpu_presence *presence, bool *inside,
					int (*ended)(void *argument), void *argument,
					bool has_module, const char *owner,
					struct sgpu_error *error);
/* Lets a run leave that has no more work on the devices. Returns whether it was inside: then
 * sgpu_presence_cleared must follow. */
bool sgpu_presence_leave(struct sgpu_presence *presence, bool *inside, bool has_module);
/* Notes that the devices have no data any more of a run that has left. */
void sgpu_presence_cleared(struct sgpu_presence *presence);
/* Must be called now and then for a run that was stopped at `stopped_ns`. If the run has entered,
 * stops the devices: immediately if it is alone, else SGPU_RUN_GRACE_NS after `stopped_ns`. */
void sgpu_presence_stop(struct sgpu_presence *presence, const bool *inside, uint64_t stopped_ns);

/* The kind of the runner's devices, and its limits. */
struct sgpu_run_traits {
	bool opens_on_device;
	bool pins;
	bool shared_files;	      /* as in struct sgpu_runner_config */
	struct sgpu_plan_costs costs; /* SGPU_PLAN_COSTS, except in tests */
};

/* The sealed paths between a runner's devices, opened when they are first needed. */
struct sgpu_links {
	pthread_mutex_t mutex;
	struct sgpu_peer *peers[SGPU_RUN_DEVICES_MAX][SGPU_RUN_DEVICES_MAX];
};

struct sgpu_runner {
	struct sgpu_run_traits traits;
	struct sgpu_run_device devices[SGPU_RUN_DEVICES_MAX];
	int device_count;
	struct sgpu_links links;
	struct sgpu_prepared_table prepared;
	struct sgpu_presence presence;
	pthread_mutex_t mutex; /* guards `begun` */
	/* by device: how many runs have it as their first */
	unsigned begun[SGPU_RUN_DEVICES_MAX];
};

#endif
