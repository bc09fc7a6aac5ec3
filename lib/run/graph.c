/* SPDX-License-Identifier: Apache-2.0
 *
 * An operation is held back by each input that it reads, by each move that brings it a segment from
 * another device, and by each predecessor that is not yet enqueued. When nothing holds it back any
 * more it is enqueued, and waits on the device for predecessors that still run. So no kernel runs
 * on data that have not verified, and the device never waits for the host between two operations,
 * unless the second is a module or on another device.
 */
#include "run/graph.h"

#include <stdlib.h>

#include "run/job.h"
#include "run/plan.h"
#include "run/private.h"

/* Most operations that are enqueued at a time. Each costs some KiB, and a full queue of a device
 * blocks the caller. The device only needs enough of them not to run dry. */
enum { AHEAD_MAX = 128 };

enum state { WAITING, ENQUEUED, DONE, FAILED };

struct operation {
	enum state state;
	int holds;  /* inputs, moves and predecessors that hold it back */
	bool later; /* start() said SGPU_GRAPH_LATER, which holds it back, too */
	int code;
	char *text;	   /* why it failed by itself, or NULL */
	const char *cause; /* text of the failure due to which it was not run */
};

struct sgpu_graph {
	struct sgpu_run_base *base;
	const struct sgpu_manifest *manifest;
	const struct sgpu_plan *plan;
	int (*start)(void *argument, int operation, struct sgpu_error *error);
	void *argument;
	struct operation *operations;
	/* operation i's followers: followers[follower_start[i]] ... */
	int *follower_start, *followers;
	int *work; /* operations to look at: each is added when nothing holds it back any more, when
		      it is to be tried again, and when it has failed */
	int work_head, work_tail;
	int inputs_open, operations_open, ahead;
	const char *unused_input;
};

/* ---- creation ---- */
static int list_followers(struct sgpu_graph *graph, struct sgpu_error *error)
{
	const struct sgpu_manifest *m = graph->manifest;
	size_t edges = 1;

	for (int i = 0; i < m->operation_count; i++) {
		edges += (size_t)m->operations[i].before_count;
	}
	graph->follower_start =
		calloc((size_t)m->operation_count + 1, sizeof(*graph->follower_start));
	graph->followers = calloc(edges, sizeof(*graph->followers));
	if (!graph->follower_start || !graph->followers) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < m->operation_count; i++) {
		for (int k = 0; k < m->operations[i].before_count; k++) {
			graph->follower_start[m->operations[i].before[k]]++;
		}
	}
	/* From counts to ends, which become starts as the lists are filled from behind. */
	for (int i = 0; i < m->operation_count; i++) {
		graph->follower_start[i + 1] += graph->follower_start[i];
	}
	for (int i = m->operation_count; i-- > 0;) {
		for (int k = m->operations[i].before_count; k-- > 0;) {
			graph->followers[--graph->follower_start[m->operations[i].before[k]]] = i;
		}
	}
	return SGPU_OK;
}

static void add_work(struct sgpu_graph *graph, int operation)
{
	graph->work[graph->work_tail++] = operation;
}

/* Returns whether a segment's reader number `k` waits for a move or, if that is negative, for the
 * segment's arrival. */
static bool awaits(const struct sgpu_graph *graph, const struct sgpu_segment *segment, int move,
		   int k)
{
	return sgpu_plan_reader_once(segment, k) &&
	       (move < 0 ||
		graph->plan->device[segment->readers[k]] == graph->plan->moves[move].to);
}

static const struct sgpu_segment *moved_segment(const struct sgpu_graph *graph, int move)
{
	return &graph->manifest->segments[graph->plan->moves[move].segment];
}

static void hold_readers(struct sgpu_graph *graph, const struct sgpu_segment *segment, int move)
{
	for (int k = 0; k < segment->reader_count; k++) {
		graph->operations[segment->readers[k]].holds += awaits(graph, segment, move, k);
	}
}

static void count_holds(struct sgpu_graph *graph)
{
	const struct sgpu_manifest *m = graph->manifest;

	for (int i = 0; i < m->operation_count; i++) {
		graph->operations[i].holds = m->operations[i].before_count;
	}
	for (int i = 0; i < m->segment_count; i++) {
		if (sgpu_segment_is_input(&m->segments[i])) {
			graph->inputs_open++;
			hold_readers(graph, &m->segments[i], -1);
		}
	}
	for (int i = 0; i < graph->plan->move_count; i++) {
		hold_readers(graph, moved_segment(graph, i), i);
	}
	for (int i = 0; i < m->operation_count; i++) {
		if (graph->operations[i].holds == 0) {
			add_work(graph, i);
		}
	}
	graph->operations_open = m->operation_count;
	atomic_store(&graph->base->operations, m->operation_count);
}

int sgpu_graph_create(struct sgpu_run_base *base,
		      int (*start)(void *argument, int operation, struct sgpu_error *error),
		      void *argument, struct sgpu_graph **graph, struct sgpu_error *error)
{
	const size_t count = (size_t)base->job->manifest->operation_count;
	struct sgpu_graph *g = calloc(1, sizeof(*g));
	int rc;

	*graph = g;
	if (!g) {
		return sgpu_fail_nomem(error);
	}
	g->manifest = base->job->manifest;
	g->plan = base->job->plan;
	g->base = base;
	g->start = start;
	g->argument = argument;
	g->operations = calloc(count + 1, sizeof(*g->operations));
	g->work = calloc(3 * count + 1, sizeof(*g->work));
	rc = g->operations && g->work ? list_followers(g, error) : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		count_holds(g);
	}
	return rc;
}

void sgpu_graph_free(struct sgpu_graph **graph)
{
	struct sgpu_graph *g = *graph;

	if (!g) {
		return;
	}
	for (int i = 0; g->operations && i < g->manifest->operation_count; i++) {
		free(g->operations[i].text);
	}
	free(g->operations);
	free(g->work);
	free(g->follower_start);
	free(g->followers);
	free(g);
	*graph = NULL;
}

/* ---- failures ---- */
/* Marks an operation as failed. Unless it still runs, it no longer counts as open. Its followers
 * are marked when look_at() comes to it. */
static void mark_failed(struct sgpu_graph *graph, int operation, int rc, const char *cause)
{
	struct operation *op = &graph->operations[operation];

	if (op->state == DONE || op->state == FAILED) {
		return;
	}
	graph->operations_open -= op->state == WAITING;
	op->state = FAILED;
	op->code = rc;
	op->cause = cause;
	atomic_fetch_add(&graph->base->failed, 1);
	add_work(graph, operation);
}

/* Returns the code of operations that depend on a failed one: the same for a timeout or altered
 * data, as these concern all; else SGPU_EDEPENDENCY. */
static int inherited(int rc)
{
	return rc == SGPU_ETIMEOUT || rc == SGPU_EAUTH ? rc : SGPU_EDEPENDENCY;
}

static void fail_itself(struct sgpu_graph *graph, int operation, int rc, const char *text)
{
	struct operation *op = &graph->operations[operation];

	rc = sgpu_run_failure(graph->base, "operation", graph->manifest->operations[operation].id,
			      rc, text, &op->text);
	mark_failed(graph, operation, rc, op->text ? op->text : sgpu_strerror(SGPU_ENOMEM));
}

/* ---- followers ---- */
static void drop_hold(struct sgpu_graph *graph, int operation)
{
	struct operation *op = &graph->operations[operation];

	if (--op->holds == 0 && op->state == WAITING) {
		add_work(graph, operation);
	}
}

/* Returns whether a follower waits for the operation's end, not just until it is enqueued. A module
 * does, since what a failed operation has written could crash it, and with it the whole context. So
 * does an operation on another device, which cannot wait for this device's events. */
static bool waits_for_end(const struct sgpu_graph *graph, int operation, int follower)
{
	return graph->manifest->operations[follower].module != NULL ||
	       graph->plan->device[operation] != graph->plan->device[follower];
}

/* Removes an operation's hold on the followers that wait for it to be enqueued or, if `ended`, to
 * end. */
static void drop_followers(struct sgpu_graph *graph, int operation, bool ended)
{
	for (int i = graph->follower_start[operation]; i < graph->follower_start[operation + 1];
	     i++) {
		int follower = graph->followers[i];

		if (ended == waits_for_end(graph, operation, follower)) {
			drop_hold(graph, follower);
		}
	}
}

static void look_at(struct sgpu_graph *graph, int operation)
{
	struct operation *op = &graph->operations[operation];
	struct sgpu_error error = { 0 };

	if (op->state == WAITING && op->holds == 0) {
		int rc = graph->start(graph->argument, operation, &error);

		if (rc == SGPU_GRAPH_LATER) {
			op->later = true;
			op->holds = 1;
		} else if (rc != SGPU_OK) {
			fail_itself(graph, operation, rc, error.text);
		} else {
			op->state = ENQUEUED;
			graph->ahead++;
			drop_followers(graph, operation, false);
		}
	} else if (op->state == FAILED) {
		for (int i = graph->follower_start[operation];
		     i < graph->follower_start[operation + 1]; i++) {
			mark_failed(graph, graph->followers[i], inherited(op->code), op->cause);
		}
	}
}

void sgpu_graph_advance(struct sgpu_graph *graph)
{
	while (graph->work_head < graph->work_tail) {
		int operation = graph->work[graph->work_head];

		if (graph->ahead >= AHEAD_MAX && graph->operations[operation].state == WAITING) {
			break;
		}
		graph->work_head++;
		look_at(graph, operation);
	}
}

/* ---- events ---- */
/* Ends what readers of a segment wait for: a move or its arrival, as in awaits(). */
static void end_wait(struct sgpu_graph *graph, const struct sgpu_segment *segment, int move, int rc,
		     const char *cause)
{
	for (int i = 0; i < segment->reader_count; i++) {
		if (!awaits(graph, segment, move, i)) {
			continue;
		}
		if (rc != SGPU_OK) {
			mark_failed(graph, segment->readers[i], inherited(rc), cause);
		} else {
			drop_hold(graph, segment->readers[i]);
		}
	}
}

void sgpu_graph_arrived(struct sgpu_graph *graph, int segment, int rc, const char *text)
{
	const struct sgpu_segment *s = &graph->manifest->segments[segment];
	const char *cause = text ? text : sgpu_strerror(rc);

	graph->inputs_open--;
	end_wait(graph, s, -1, rc, cause);
	if (rc != SGPU_OK && s->reader_count == 0 && !graph->unused_input) {
		graph->unused_input = cause;
	}
}

void sgpu_graph_moved(struct sgpu_graph *graph, int move, int rc, const char *text)
{
	end_wait(graph, moved_segment(graph, move), move, rc, text ? text : sgpu_strerror(rc));
}

bool sgpu_graph_ran(struct sgpu_graph *graph, int operation, int rc, const char *text)
{
	struct operation *op = &graph->operations[operation];

	graph->operations_open--;
	graph->ahead--;
	if (op->state == ENQUEUED && rc == SGPU_OK) {
		op->state = DONE;
		atomic_fetch_add(&graph->base->done, 1);
		drop_followers(graph, operation, true);
		return true;
	}
	if (op->state == ENQUEUED) {
		fail_itself(graph, operation, rc, text);
	}
	return false;
}

void sgpu_graph_retry(struct sgpu_graph *graph, int operation)
{
	if (graph->operations[operation].later) {
		graph->operations[operation].later = false;
		drop_hold(graph, operation);
	}
}

void sgpu_graph_stop(struct sgpu_graph *graph)
{
	int rc = atomic_load(&graph->base->stop);

	for (int i = 0; i < graph->manifest->operation_count; i++) {
		if (graph->operations[i].state == WAITING) {
			mark_failed(graph, i, rc, sgpu_strerror(rc));
		}
	}
}

/* ---- state ---- */
bool sgpu_graph_ended(const struct sgpu_graph *graph)
{
	return graph->inputs_open == 0 && graph->operations_open == 0;
}

int sgpu_graph_outcome(const struct sgpu_graph *graph, int operation, const char **text,
		       const char **cause)
{
	const struct operation *op = &graph->operations[operation];

	*text = op->text;
	*cause = op->cause;
	return op->state == DONE ? SGPU_OK : op->code != SGPU_OK ? op->code : SGPU_EDEPENDENCY;
}

const char *sgpu_graph_unused_input(const struct sgpu_graph *graph)
{
	return graph->unused_input;
}
