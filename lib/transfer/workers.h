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

/* spin_ns: how long a worker looks for work before it sleeps, at most. step: does one piece of
 * work; false: there was none. Called by several workers at once. */
SGPU_MUST_CHECK int sgpu_workers_create(unsigned count, uint64_t spin_ns,
					bool (*step)(void *argument), void *argument,
					struct sgpu_workers **workers, struct sgpu_error *error);
/* Accepts NULL. */
void sgpu_workers_free(struct sgpu_workers **workers);
/* Starts the threads if they do not run. SGPU_ESYSTEM where not even one can be started. */
SGPU_MUST_CHECK int sgpu_workers_start(struct sgpu_workers *workers, struct sgpu_error *error);
/* There is work for `count` workers more. Calls nothing of a device; cheap where enough are awake.
 */
void sgpu_workers_wake(struct sgpu_workers *workers, unsigned count);

/* How long a thread that waits may look before it sleeps, as its workers do. */
uint64_t sgpu_workers_spin(const struct sgpu_workers *workers);
/* Passes a moment of waiting: the *rounds-th one, which starts at 0. */
void sgpu_worker_pause(unsigned *rounds);

#endif
