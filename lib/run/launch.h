/* SPDX-License-Identifier: Apache-2.0
 *
 * The launches of one batch: each enqueues an operation and the waits that it needs on its stream.
 */
#ifndef SGPU_RUN_LAUNCH_H
#define SGPU_RUN_LAUNCH_H

#include "run/graph.h"
#include "run/run.h"

struct sgpu_run_base;
struct sgpu_modules;

/* Modules: kernels that a batch brings in its segments. */

/* loaded: called on the loop's thread when the module of a segment was loaded or could not be.
 * Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_modules_create(struct sgpu_run_base *base,
					void (*loaded)(void *argument, int segment), void *argument,
					struct sgpu_modules **modules, struct sgpu_error *error);
/* No launch may be pending. Accepts a pointer to NULL. */
void sgpu_modules_free(struct sgpu_modules **modules);
/* Unloads the modules from the devices. The outcomes of loading stay known. */
void sgpu_modules_unload(struct sgpu_modules *modules);

/* Makes sure that the module of an operation is loaded; its inputs must have arrived.
 * SGPU_GRAPH_LATER: a thread loads the module, and then `loaded` is called. Errors: why the module
 * cannot or may not be used. */
SGPU_MUST_CHECK int sgpu_modules_ready(struct sgpu_modules *modules, int operation,
				       struct sgpu_error *error);

/* Enqueues an operation of a module: clears its outputs, then starts its function. clears: a zeroed
 * task for each argument. */
SGPU_MUST_CHECK int sgpu_module_start(struct sgpu_modules *modules, int operation,
				      const struct sgpu_op_call *call, struct sgpu_stream *stream,
				      struct sgpu_task *clears, struct sgpu_task *task,
				      struct sgpu_error *error);
/* Stores the outcome of a launch in *task. */
void sgpu_module_end(struct sgpu_modules *modules, int operation, const struct sgpu_task *clears,
		     struct sgpu_task *task);

/* Returns the rule that a module broke, which stops the run with SGPU_EPOLICY; NULL: none. */
const char *sgpu_modules_broken_rule(const struct sgpu_modules *modules);
/* Whether a module, of this run or of another, broke the rules on the run's devices. False if this
 * run has no module. */
bool sgpu_modules_broke_rules(const struct sgpu_modules *modules);

struct sgpu_launches;
struct sgpu_note;

/* ended: handles the note of an operation that has ended; its index is the operation. */
SGPU_MUST_CHECK int sgpu_launches_create(struct sgpu_run_base *base, struct sgpu_modules *modules,
					 void (*ended)(struct sgpu_note *note), void *owner,
					 struct sgpu_launches **launches, struct sgpu_error *error);
/* Waits for the streams and gives them back. A second call does nothing. */
void sgpu_launches_settle(struct sgpu_launches *launches);
/* After sgpu_launches_settle. Accepts a pointer to NULL. */
void sgpu_launches_free(struct sgpu_launches **launches);

/* Returns the stream of an operation, which is taken from the runner when first needed. */
SGPU_MUST_CHECK int sgpu_launch_get_stream(struct sgpu_launches *launches, int operation,
					   struct sgpu_stream **stream, struct sgpu_error *error);
/* Enqueues an operation that nothing holds back. SGPU_GRAPH_LATER: as from sgpu_modules_ready. */
SGPU_MUST_CHECK int sgpu_launch_start(struct sgpu_launches *launches, int operation,
				      struct sgpu_error *error);

/* A launch that has ended. */
struct sgpu_launch_end {
	struct sgpu_op_call call;
	struct sgpu_task task;
};
const struct sgpu_launch_end *sgpu_launch_result(struct sgpu_launches *launches, int operation);
/* Frees a launch that has ended. failed: operations that depend on it must not run. */
void sgpu_launch_drop(struct sgpu_launches *launches, int operation, bool failed);

#endif
