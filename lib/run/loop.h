/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of a runner: one thread that handles notes in the order in which they were posted.
 */
#ifndef SGPU_RUN_LOOP_H
#define SGPU_RUN_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/error.h>

struct sgpu_loop;

/* Something that happened. The poster keeps the note until it has been handled, and does not post
 * it again before. */
struct sgpu_note {
	struct sgpu_note *next;
	void (*handle)(struct sgpu_note *note); /* on the loop's thread; it may free the note */
	void *owner;
	int index;
};

struct sgpu_loop_config {
	/* Called after each round of notes and whenever the loop wakes. Returns when it wants to be
	 * called next at the latest (sgpu_now_ns() clock), or 0. */
	uint64_t (*tick)(void *argument);
	void *argument;
	uint64_t
		spin_ns; /* how long it looks for notes before it sleeps, while some are expected */
};

SGPU_MUST_CHECK int sgpu_loop_create(const struct sgpu_loop_config *config, struct sgpu_loop **loop,
				     struct sgpu_error *error);
/* No note may be posted any more. Accepts a pointer to NULL. */
void sgpu_loop_free(struct sgpu_loop **loop);
/* From any thread, a device's callback included. */
void sgpu_loop_post(struct sgpu_loop *loop, struct sgpu_note *note);
/* Calls tick soon; async-signal-safe. */
void sgpu_loop_wake(struct sgpu_loop *loop);
/* Something has begun that posts notes, or, `ended`, has ended. */
void sgpu_loop_expect(struct sgpu_loop *loop, bool ended);

#endif
