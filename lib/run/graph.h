/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of one batch: which operations wait, may start, or fail because another did. Only the
 * loop's thread uses it.
 */
#ifndef SGPU_RUN_GRAPH_H
#define SGPU_RUN_GRAPH_H

#include "run/run.h"

struct sgpu_graph;
struct sgpu_run_base;

/* What `start` returns for an operation that cannot be started yet. */
enum { SGPU_GRAPH_LATER = 1 };

/* start: enqueues an operation, for whose end sgpu_graph_ran must be called. */
SGPU_MUST_CHECK int sgpu_graph_create(struct sgpu_run_base *base,
				      int (*start)(void *argument, int operation,
						   struct sgpu_error *error),
				      void *argument, struct sgpu_graph **graph,
				      struct sgpu_error *error);
/* None of its operations may still be enqueued. Accepts a pointer to NULL. */
void sgpu_graph_free(struct sgpu_graph **graph);

/* ---- events ---- */
/* Notes that an input has ended. code: SGPU_OK, or why it failed. text: the reason in words; must
 * live as long as the graph. */
void sgpu_graph_arrived(struct sgpu_graph *graph, int segment, int code, const char *text);
/* Notes in the same way that a move of the plan has ended. */
void sgpu_graph_moved(struct sgpu_graph *graph, int move, int code, const char *text);
/* Notes that a started operation has ended. Returns whether it succeeded: its outputs are ready. */
bool sgpu_graph_ran(struct sgpu_graph *graph, int operation, int code, const char *text);
/* Has an operation tried again if `start` returned SGPU_GRAPH_LATER for it. */
void sgpu_graph_retry(struct sgpu_graph *graph, int operation);
/* Makes the graph start no more operations. Enqueued ones end by themselves. */
void sgpu_graph_stop(struct sgpu_graph *graph);
/* Starts the operations that may start. Must be called after each call above, and once at first. */
void sgpu_graph_advance(struct sgpu_graph *graph);

/* ---- state ---- */
/* Whether every input and every operation has ended. */
bool sgpu_graph_ended(const struct sgpu_graph *graph);
/* Returns SGPU_OK, or why an operation has no result: *text says why it failed or, if it is NULL,
 * *cause says why it was not run. Only after the graph has ended. */
int sgpu_graph_outcome(const struct sgpu_graph *graph, int operation, const char **text,
		       const char **cause);
/* Returns the text of a failed input that no operation reads, or NULL. Only after the end. */
const char *sgpu_graph_unused_input(const struct sgpu_graph *graph);

#endif
