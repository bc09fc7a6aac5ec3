/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of a runner: one thread that handles notes in the order in which they were posted.
 */
#ifndef SGPU_RUN_LOOP_H
#define SGPU_RUN_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/device.h>
#include <sgpu/error.h>

struct sgpu_loop;

/* An event for the loop, or a task for a thread. Whoever posts or gives a note must keep it until
 * `handle` is called, and not post it again before. */
struct sgpu_note {
	struct sgpu_note *next;
	void (*handle)(struct sgpu_note *note); /* on that thread; it may free the note */
	void *owner;
	int index;
};

/* tick: called after each round of notes and whenever the loop wakes. It returns the latest time of
 * its next call (sgpu_now_ns()), or 0. spin_ns: how long the loop looks for expected notes before
 * it sleeps. */
SGPU_MUST_CHECK int sgpu_loop_create(uint64_t (*tick)(void *argument), void *argument,
				     uint64_t spin_ns, struct sgpu_loop **loop,
				     struct sgpu_error *error);
/* No note may be posted any more. Accepts a pointer to NULL. */
void sgpu_loop_free(struct sgpu_loop **loop);
/* Posts a note, from any thread or a device's callback. */
void sgpu_loop_post(struct sgpu_loop *loop, struct sgpu_note *note);
/* Calls tick soon; async-signal-safe. */
void sgpu_loop_wake(struct sgpu_loop *loop);
/* Tells the loop that a source of notes has begun or, if `ended`, has ended. */
void sgpu_loop_expect(struct sgpu_loop *loop, bool ended);

/* Threads for work that blocks: reading a pipe, fetching files, loading a module, writing a
 * response. A thread is made, and then kept, when more are reserved than there are. */

struct sgpu_threads;

/* spin_ns: how long an idle thread looks for work before it sleeps, while there are reservations.
 */
SGPU_MUST_CHECK int sgpu_threads_create(uint64_t spin_ns, struct sgpu_threads **threads,
					struct sgpu_error *error);
/* No work may be under way. Accepts a pointer to NULL. */
void sgpu_threads_free(struct sgpu_threads **threads);
/* Reserves a thread for one more task, until sgpu_threads_release. Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_threads_reserve(struct sgpu_threads *threads, struct sgpu_error *error);
void sgpu_threads_release(struct sgpu_threads *threads);
/* Queues a task for which a thread is reserved, so that it starts without delay. */
void sgpu_threads_give(struct sgpu_threads *threads, struct sgpu_note *task);

/* Streams for operations, which a runner keeps for reuse. */

struct sgpu_run_streams;

SGPU_MUST_CHECK int sgpu_streams_create(struct sgpu_device *device,
					struct sgpu_run_streams **streams,
					struct sgpu_error *error);
/* All streams must have been given back. Accepts a pointer to NULL. */
void sgpu_streams_free(struct sgpu_run_streams **streams);
/* Any thread may take and give streams. */
SGPU_MUST_CHECK int sgpu_streams_take(struct sgpu_run_streams *streams, struct sgpu_stream **stream,
				      struct sgpu_error *error);
/* Waits for the stream's work, unless `idle` says that it has ended, and frees the stream if its
 * work failed. Accepts a pointer to NULL. */
void sgpu_streams_give(struct sgpu_run_streams *streams, struct sgpu_stream **stream, bool idle);

#endif
