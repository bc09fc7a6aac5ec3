/* SPDX-License-Identifier: Apache-2.0
 *
 * What the runs of a runner share, and the list of those that have not ended.
 */
#ifndef SGPU_RUN_RUNNER_H
#define SGPU_RUN_RUNNER_H

#include "run/presence.h"
#include "run/run.h"

/* A run in the list. */
struct sgpu_runner_entry {
	struct sgpu_runner_entry *next;
	int first; /* its first device */
	/* Sees whether the run is to be stopped, on the loop's thread; returns when to look again
	 * at the latest, or 0. */
	uint64_t (*look)(struct sgpu_runner_entry *entry);
};

struct sgpu_runner {
	struct sgpu_run_traits traits;
	struct sgpu_loop *loop;
	struct sgpu_threads *threads;
	struct sgpu_run_device devices[SGPU_RUN_DEVICES_MAX];
	int device_count;
	struct sgpu_links *links;
	struct sgpu_prepared_table *prepared;
	struct sgpu_presence presence;
	pthread_mutex_t mutex; /* the list, and whether a run has ended */
	pthread_cond_t ended;
	struct sgpu_runner_entry *entries;
	unsigned
		begun[SGPU_RUN_DEVICES_MAX]; /* runs under way, by the device that is their first */
};

/* Chooses the first device of the run: the one that is the first of fewest. */
void sgpu_runner_add(struct sgpu_runner *runner, struct sgpu_runner_entry *entry);
/* The mutex is held. */
void sgpu_runner_remove(struct sgpu_runner *runner, struct sgpu_runner_entry *entry);
/* The sooner of two times, of which 0 is never. */
static inline uint64_t sgpu_sooner(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

#endif
