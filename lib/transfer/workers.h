/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker threads of an engine. Private to lib/transfer.
 */
#ifndef SGPU_TRANSFER_WORKERS_H
#define SGPU_TRANSFER_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/error.h>

struct sgpu_workers;

/* Something that has work for workers, from sgpu_workers_add to sgpu_workers_remove. */
struct sgpu_worker_job {
	/* Does one piece of work, on worker `thread`; false: there was none. Called by several
	 * workers at once. */
	bool (*step)(void *argument, unsigned thread);
	void *argument;
	/* private to workers.c */
	struct sgpu_worker_job *next;
	unsigned inside;
	bool removed;
};

/* No thread starts before the first job is added. spin_ns: how long a worker looks for work before
 * it sleeps, at most. */
SGPU_MUST_CHECK int sgpu_workers_create(unsigned count, uint64_t spin_ns,
					struct sgpu_workers **workers, struct sgpu_error *error);
/* All jobs have been removed. Accepts NULL. */
void sgpu_workers_free(struct sgpu_workers **workers);
unsigned sgpu_workers_count(const struct sgpu_workers *workers);

/* Starts the threads if need be. Where not even one can be started: SGPU_ESYSTEM, and the job is
 * not added. */
SGPU_MUST_CHECK int sgpu_workers_add(struct sgpu_workers *workers, struct sgpu_worker_job *job,
				     struct sgpu_error *error);
/* Returns when no worker is in the job's step, and none will be. */
void sgpu_workers_remove(struct sgpu_workers *workers, struct sgpu_worker_job *job);
/* There is work for `count` workers more. Calls nothing of a device; cheap where enough are awake.
 */
void sgpu_workers_wake(struct sgpu_workers *workers, unsigned count);

/* How long a thread that waits may look before it sleeps, as its workers do. */
uint64_t sgpu_workers_spin(const struct sgpu_workers *workers);
/* Passes a moment of waiting: the *rounds-th one, which starts at 0. */
void sgpu_worker_pause(unsigned *rounds);

#endif
