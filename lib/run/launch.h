/* SPDX-License-Identifier: Apache-2.0
 *
 * The launches of one batch: an operation onto its stream, with the events that it waits for.
 */
#ifndef SGPU_RUN_LAUNCH_H
#define SGPU_RUN_LAUNCH_H

#include <sgpu/run.h>

struct sgpu_run_base;
struct sgpu_launches;
struct sgpu_modules;
struct sgpu_note;

/* ended: handles the note, whose index is the operation, when an operation that was started has
 * ended. */
SGPU_MUST_CHECK int sgpu_launches_create(struct sgpu_run_base *base, struct sgpu_modules *modules,
					 void (*ended)(struct sgpu_note *note), void *owner,
					 struct sgpu_launches **launches, struct sgpu_error *error);
/* Waits for the streams and gives them back. Twice does no harm. */
void sgpu_launches_settle(struct sgpu_launches *launches);
/* After settle. Accepts a pointer to NULL. */
void sgpu_launches_free(struct sgpu_launches **launches);

/* The stream of an operation, taken from the runner when it is first asked for. */
SGPU_MUST_CHECK int sgpu_launch_get_stream(struct sgpu_launches *launches, int operation,
					   struct sgpu_stream **stream, struct sgpu_error *error);
/* Enqueues an operation that nothing holds back. SGPU_MODULE_LATER as sgpu_modules_ready. */
SGPU_MUST_CHECK int sgpu_launch_start(struct sgpu_launches *launches, int operation,
				      struct sgpu_error *error);

/* A launch that has ended: what it was called with, and what became of it. */
struct sgpu_launch_end {
	struct sgpu_op_call call;
	struct sgpu_task task;
};
const struct sgpu_launch_end *sgpu_launch_result(struct sgpu_launches *launches, int operation);
/* failed: what depends on the operation may not run any more. */
void sgpu_launch_drop(struct sgpu_launches *launches, int operation, bool failed);

#endif
