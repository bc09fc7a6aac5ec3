/* SPDX-License-Identifier: Apache-2.0
 *
 * What the runs of a runner share, and the list of runs that have not ended.
 */
#ifndef SGPU_RUN_RUNNER_H
#define SGPU_RUN_RUNNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/io.h"
#include "run/run.h"
#include "run/graph.h"
#include "run/job.h"
#include "run/launch.h"
#include "run/loop.h"
#include "run/memory.h"
#include "run/private.h"

/* Presence: how many runs may have work on the devices, and whether these were told to stop. */

struct sgpu_run_device;

struct sgpu_presence {
	const struct sgpu_run_device *devices;
	int device_count;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int count;	 /* runs that have entered */
	bool cancelling; /* the devices were told to stop: no run may enter */
	int alone;	 /* runs that are inside, or wait, and have a module */
	bool bound;	 /* a module has been here: only runs of `owner` may enter */
	char owner[SGPU_KID_SIZE + 1];
};

/* The devices are borrowed. */
void sgpu_presence_init(struct sgpu_presence *presence, const struct sgpu_run_device *devices,
			int device_count);
void sgpu_presence_clear(struct sgpu_presence *presence);
/* `inside` is a member of the run: whether it has entered. It changes under the mutex, since a run
 * may leave while another thread stops it. */
/* Lets a run enter; it must do so before it gives work to the devices. Waits while these are being
 * stopped. A kernel of a module can address all that the process has mapped: a run with one
 * (has_module) waits until no other is inside, and keeps the others out until it leaves. After that
 * the process takes no batch of another owner. Errors: *stop, if it is set; SGPU_ERETRY: the batch
 * is of another owner. */
SGPU_MUST_CHECK int sgpu_presence_enter(struct sgpu_presence *presence, bool *inside,
					const atomic_int *stop, bool has_module, const char *owner,
					struct sgpu_error *error);
/* Lets a run leave that has no more work on the devices. Returns whether it was inside. */
bool sgpu_presence_leave(struct sgpu_presence *presence, bool *inside, bool has_module);
/* Must be called for a run that was stopped at `stopped_ns`. If the run has entered, stops the
 * devices: immediately if it is alone, else SGPU_RUN_GRACE_NS after `stopped_ns`. If it waits in
 * sgpu_presence_enter, ends that wait. Returns when to call again, or 0. */
uint64_t sgpu_presence_stop(struct sgpu_presence *presence, const bool *inside,
			    uint64_t stopped_ns);

struct sgpu_runner {
	struct sgpu_run_traits traits;
	struct sgpu_loop *loop;
	struct sgpu_threads *threads;
	struct sgpu_run_device devices[SGPU_RUN_DEVICES_MAX];
	int device_count;
	struct sgpu_links links;
	struct sgpu_prepared_table prepared;
	struct sgpu_presence presence;
	pthread_mutex_t mutex; /* guards `runs`, and `ended` of each run */
	pthread_cond_t ended;
	struct sgpu_run *runs;
	/* by device: how many runs under way have it as their first */
	unsigned begun[SGPU_RUN_DEVICES_MAX];
};

/* On the loop's thread, with the lock: carries out a stop or a deadline that is due. Returns the
 * time of the next check; 0: none. */
uint64_t sgpu_run_look(struct sgpu_run *run);

struct sgpu_inputs;
struct sgpu_launches;
struct sgpu_moves;
struct sgpu_outputs;

struct sgpu_run {
	struct sgpu_run_base base;
	struct sgpu_runner *runner;
	struct sgpu_run *next; /* in the runner's list */
	int first;	       /* its first device */
	sgpu_run_done_fn done;
	void *argument;

	struct sgpu_run_trace trace;
	struct sgpu_job job;
	struct sgpu_memory memory;
	struct sgpu_graph *graph;
	struct sgpu_modules *modules;
	struct sgpu_launches *launches;
	struct sgpu_inputs *inputs;
	struct sgpu_moves *moves;
	struct sgpu_outputs *outputs;

	struct sgpu_tar_reader *tar;
	struct sgpu_note reader, finisher, admitted, read;
	struct sgpu_io_guard guard;
	atomic_bool cancel; /* sgpu_run_cancel was called */
	bool inside;	    /* the run has entered; only for sgpu_presence_* */
	atomic_bool busy;   /* a long call to the device may be under way */
	/* for the loop only */
	bool begun, have_read, stop_seen, finishing;
	/* for the reader, then for the finisher; any thread may read them when the run has ended */
	int code;
	struct sgpu_error error;
	bool descriptor_failed; /* of the batch or of the response */
	_Atomic uint32_t ended; /* set under the runner's mutex */
};

#endif
