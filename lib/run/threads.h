/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads for work that blocks: reading a pipe, fetching files, loading a module, writing a
 * response. A thread is made when there are fewer than were reserved, and kept for the runner's
 * life.
 */
#ifndef SGPU_RUN_THREADS_H
#define SGPU_RUN_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/error.h>

struct sgpu_threads;

/* The giver keeps it until `work` is called; from then on it is the work's. */
struct sgpu_blocking {
	struct sgpu_blocking *next;
	void (*work)(struct sgpu_blocking *task);
	void *owner;
	int index;
};

/* spin_ns: how long a thread that has nothing to do looks for work before it sleeps, while there
 * are reservations. */
SGPU_MUST_CHECK int sgpu_threads_create(uint64_t spin_ns, struct sgpu_threads **threads,
					struct sgpu_error *error);
/* Nothing is under way. Accepts a pointer to NULL. */
void sgpu_threads_free(struct sgpu_threads **threads);
/* Sees to it that there is a thread for one more piece of work at once; release takes that back.
 * Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_threads_reserve(struct sgpu_threads *threads, struct sgpu_error *error);
void sgpu_threads_release(struct sgpu_threads *threads);
/* Work under a reservation: it starts at once. */
void sgpu_threads_give(struct sgpu_threads *threads, struct sgpu_blocking *task);
/* Takes work back that no thread has begun, for the caller to do itself. Returns whether it was so.
 */
bool sgpu_threads_take_back(struct sgpu_threads *threads, struct sgpu_blocking *task);

#endif
