/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of one batch: what waits for what, what may start, and what a failure reaches. It
 * belongs to the loop's thread.
 */
#ifndef SGPU_RUN_GRAPH_H
#define SGPU_RUN_GRAPH_H

#include "run/run.h"

struct sgpu_graph;
struct sgpu_run_base;

/* Returned by start: not yet. */
enum { SGPU_GRAPH_LATER = 1 };

/* start: enqueues an operation; sgpu_graph_ran is called when that has ended. */
SGPU_MUST_CHECK int sgpu_graph_create(struct sgpu_run_base *base,
				      int (*start)(void *argument, int operation,
						   struct sgpu_error *error),
				      void *argument, struct sgpu_graph **graph,
				      struct sgpu_error *error);
/* Nothing of it is enqueued. Accepts a pointer to NULL. */
void sgpu_graph_free(struct sgpu_graph **graph);

/* ---- what happened ---- */
/* An input has ended, well or with `code` and the text of why, which lives as long as the graph. */
void sgpu_graph_arrived(struct sgpu_graph *graph, int segment, int code, const char *text);
/* So has a move of the plan. */
void sgpu_graph_moved(struct sgpu_graph *graph, int move, int code, const char *text);
/* An operation that was started has ended. True: well, and its outputs are ready. */
bool sgpu_graph_ran(struct sgpu_graph *graph, int operation, int code, const char *text);
/* Brings an operation up again, if it was not to be started yet. */
void sgpu_graph_retry(struct sgpu_graph *graph, int operation);
/* Nothing is started any more. What is enqueued ends by itself. */
void sgpu_graph_stop(struct sgpu_graph *graph);
/* Starts what may start; after each of the above, and at first. */
void sgpu_graph_advance(struct sgpu_graph *graph);

/* ---- how it stands ---- */
/* Whether every input and every operation has ended. */
bool sgpu_graph_ended(const struct sgpu_graph *graph);
/* SGPU_OK, or why an operation has no result: *text says so, or, where that is NULL, *cause says
 * what kept it from being run. After the end. */
int sgpu_graph_outcome(const struct sgpu_graph *graph, int operation, const char **text,
		       const char **cause);
/* A failed input that nothing reads, or NULL. After the end. */
const char *sgpu_graph_unused_input(const struct sgpu_graph *graph);

#endif
