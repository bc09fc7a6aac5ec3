/* SPDX-License-Identifier: Apache-2.0
 *
 * A move is a sealed copy between two devices, made by a thread that may block. It begins when the
 * host has seen the end of the operation or transfer that wrote the segment. Operations that read
 * the copy are not enqueued before the host has seen the move's end. So no move waits for a stream,
 * and no stream for a move. From one device to another, one move runs at a time, since it can use
 * the whole bandwidth.
 */
#include <stdlib.h>

#include "run/job.h"
#include "run/loop.h"
#include "run/memory.h"
#include "run/plan.h"
#include "run/private.h"

/* Bytes. Before each portion of a large segment, a move checks whether the run was stopped. */
#define PORTION ((uint64_t)256 << 20)

struct move {
	struct sgpu_note task;
	struct sgpu_note moved;
	int next; /* the next move in its line, or -1 */
	int code;
	struct sgpu_error error;
	char *text; /* why it failed */
};

/* The queue of moves from one device to another. */
struct line {
	struct sgpu_peer *peer; /* NULL: the plan has no such moves */
	int first, last;	/* moves that wait; first is -1: none */
	bool busy;
};

struct sgpu_moves {
	struct sgpu_run_base *base;
	struct move *list;  /* by move of the plan */
	struct line *lines; /* by source and destination device */
};

static const struct sgpu_plan_move *planned(const struct sgpu_moves *moves, int move)
{
	return &moves->base->job->plan->moves[move];
}

static const struct sgpu_segment *segment_of(const struct sgpu_moves *moves, int move)
{
	return &moves->base->job->manifest->segments[planned(moves, move)->segment];
}

static struct line *line_of(struct sgpu_moves *moves, int move)
{
	const struct sgpu_plan_move *m = planned(moves, move);

	return &moves->lines[m->from * moves->base->device_count + m->to];
}

/* ---- on a thread that may block ---- */
static int copy_segment(struct sgpu_moves *moves, int move, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_run_base *base = moves->base;
	const struct sgpu_plan_move *m = planned(moves, move);
	const sgpu_devptr from = base->memory->buffers[m->from_buffer],
			  to = base->memory->buffers[m->to_buffer];
	struct sgpu_peer *peer = line_of(moves, move)->peer;
	int rc = SGPU_OK;

	for (uint64_t at = 0; rc == SGPU_OK && at < size; at += PORTION) {
		const int stop = atomic_load(&base->stop);

		rc = stop != SGPU_OK
			     ? sgpu_fail(error, stop, "the run was stopped")
			     : sgpu_peer_copy(peer, to + at, from + at,
					      size - at < PORTION ? size - at : PORTION, error);
	}
	return rc;
}

static void move_blocking(struct sgpu_note *task)
{
	struct sgpu_moves *moves = task->owner;
	struct move *m = &moves->list[task->index];
	const struct sgpu_segment *segment = segment_of(moves, task->index);
	const struct sgpu_plan_move *plan = planned(moves, task->index);
	const uint64_t begin = sgpu_now_ns();
	uint64_t size = 0;

	(void)sgpu_type_bytes(&segment->type, &size); /* known, since it was planned */
	m->code = copy_segment(moves, task->index, size, &m->error);
	sgpu_trace_add(moves->base->trace, SGPU_SPAN_MOVE,
		       sgpu_trace_move_row(moves->base->trace, plan->from, plan->to), segment->id,
		       begin, sgpu_now_ns(), size);
	sgpu_threads_release(moves->base->threads);
	sgpu_loop_post(moves->base->loop, &m->moved);
}

/* ---- on the loop's thread ---- */
/* Gives the first move that waits to a thread, unless the run was stopped. */
static void begin_next(struct sgpu_moves *moves, struct line *line)
{
	const int move = line->first;
	struct move *m;

	line->busy = move >= 0 && atomic_load(&moves->base->stop) == SGPU_OK;
	if (!line->busy) {
		return;
	}
	m = &moves->list[move];
	line->first = m->next;
	moves->base->under_way++;
	m->code = sgpu_threads_reserve(moves->base->threads, &m->error);
	if (m->code != SGPU_OK) {
		sgpu_loop_post(moves->base->loop, &m->moved);
	} else {
		sgpu_threads_give(moves->base->threads, &m->task);
	}
}

void sgpu_moves_arrived(struct sgpu_moves *moves, int segment)
{
	const struct sgpu_plan *plan = moves->base->job->plan;

	for (int i = plan->first_move[segment]; i >= 0; i = plan->moves[i].next) {
		struct line *line = line_of(moves, i);

		moves->list[i].next = -1;
		if (line->first < 0) {
			line->first = i;
		} else {
			moves->list[line->last].next = i;
		}
		line->last = i;
		if (!line->busy) {
			begin_next(moves, line);
		}
	}
}

/* No operation reads the written value of an INPUT_OUTPUT, so that value is not moved. */
void sgpu_moves_ran(struct sgpu_moves *moves, int operation)
{
	const struct sgpu_manifest *manifest = moves->base->job->manifest;
	const struct sgpu_operation *op = &manifest->operations[operation];

	for (int i = 0; i < op->arg_count; i++) {
		if (op->args[i].output &&
		    !sgpu_segment_is_input(&manifest->segments[op->args[i].segment])) {
			sgpu_moves_arrived(moves, op->args[i].segment);
		}
	}
}

int sgpu_move_end(struct sgpu_moves *moves, int move, const char **text)
{
	struct sgpu_run_base *base = moves->base;
	struct move *m = &moves->list[move];

	base->under_way--;
	begin_next(moves, line_of(moves, move));
	if (m->code != SGPU_OK) {
		m->text =
			sgpu_run_text("segment '%s' was not moved from device %d to device %d: %s",
				      segment_of(moves, move)->id,
				      base->devices[planned(moves, move)->from].number,
				      base->devices[planned(moves, move)->to].number,
				      m->error.text[0] ? m->error.text : sgpu_strerror(m->code));
	}
	*text = m->text;
	return m->code;
}

/* ---- creation ---- */
/* Opens the paths that the runner does not have yet. */
static int open_lines(struct sgpu_moves *moves, struct sgpu_error *error)
{
	const struct sgpu_run_base *base = moves->base;
	int rc = SGPU_OK;

	for (int i = 0; i < base->device_count * base->device_count; i++) {
		moves->lines[i] = (struct line){ .first = -1 };
	}
	for (int i = 0; rc == SGPU_OK && i < base->job->plan->move_count; i++) {
		const struct sgpu_run_device *from = &base->devices[planned(moves, i)->from],
					     *to = &base->devices[planned(moves, i)->to];
		struct sgpu_peer **peer = &base->links->peers[from->number][to->number];

		pthread_mutex_lock(&base->links->mutex);
		if (!*peer) {
			rc = sgpu_peer_open(from->device, to->device, NULL, peer, error);
		}
		line_of(moves, i)->peer = *peer;
		pthread_mutex_unlock(&base->links->mutex);
	}
	return rc;
}

int sgpu_moves_create(struct sgpu_run_base *base, void (*moved)(struct sgpu_note *note),
		      void *owner, struct sgpu_moves **moves, struct sgpu_error *error)
{
	const int count = base->job->plan->move_count;
	struct sgpu_moves *made = calloc(1, sizeof(*made));

	*moves = made;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->base = base;
	made->list = calloc((size_t)count + 1, sizeof(*made->list));
	made->lines =
		calloc((size_t)(base->device_count * base->device_count), sizeof(*made->lines));
	if (!made->list || !made->lines) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < count; i++) {
		made->list[i].task =
			(struct sgpu_note){ .handle = move_blocking, .owner = made, .index = i };
		made->list[i].moved =
			(struct sgpu_note){ .handle = moved, .owner = owner, .index = i };
	}
	return open_lines(made, error);
}

void sgpu_moves_free(struct sgpu_moves **moves)
{
	struct sgpu_moves *made = *moves;

	if (!made) {
		return;
	}
	for (int i = 0; made->list && i < made->base->job->plan->move_count; i++) {
		free(made->list[i].text);
	}
	free(made->list);
	free(made->lines);
	free(made);
	*moves = NULL;
}
