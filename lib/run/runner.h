/* SPDX-License-Identifier: Apache-2.0
 *
 * What the runs of a runner share, and the list of those that have not ended.
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

/* The runs that may have work on the devices, and whether these were told to stop. */

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
/* `inside` belongs to the run. It is false at first and changes under the mutex, since a run may
 * leave while another thread stops it. */
/* Enters a run, before it gives work to the devices. Waits while these are being stopped. Errors:
 * *stop, once it is set. */
SGPU_MUST_CHECK int sgpu_presence_enter(struct sgpu_presence *presence, bool *inside,
					const atomic_int *stop, struct sgpu_error *error);
/* Leaves, when no work of the run is pending on the devices any more. Returns whether it was
 * inside. */
bool sgpu_presence_leave(struct sgpu_presence *presence, bool *inside);
/* To be called for a run that was stopped at `stopped_ns`. If the run has entered, ends its
 * kernels: at once if it is alone, else SGPU_RUN_GRACE_NS after the stop. If it waits in
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
	pthread_mutex_t mutex; /* the list, and whether a run has ended */
	pthread_cond_t ended;
	struct sgpu_run *runs;
	/* runs under way, by the device that is their first */
	unsigned begun[SGPU_RUN_DEVICES_MAX];
};

/* Adds a run to the list. Its first device becomes the one that is the first of fewest runs. */
void sgpu_runner_add(struct sgpu_run *run);
/* Takes a run off the list. The mutex is held. */
void sgpu_runner_remove(struct sgpu_run *run);
/* On the loop's thread: sees whether the run is to be stopped; returns when to look again, or 0. */
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
	struct sgpu_blocking reader, finisher;
	struct sgpu_note admitted, read;
	struct sgpu_io_guard guard;
	atomic_bool cancel; /* sgpu_run_cancel was called */
	bool inside;	    /* it has entered; for sgpu_presence_* alone */
	atomic_bool busy;   /* a call of the device may take long */
	/* for the loop only */
	bool begun, have_read, stop_seen, finishing;
	/* for the reader, then for the finisher, then for all to read */
	int code;
	struct sgpu_error error;
	bool descriptor_failed; /* the batch's or the response's */
	_Atomic uint32_t ended; /* set under the runner's mutex */
};

#endif
