/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver: one thread owns the graph. It learns what arrived, what ran and what left, and decides what follows.
 *
 * An operation is held back by each arrival that it reads and by each predecessor that is not yet enqueued; at
 * zero it is enqueued, and waits on the device for predecessors that still run. So no kernel runs on what has not
 * verified, and the device never waits for the host between two operations, unless the second is a module.
 */
#include <stdlib.h>
#include <string.h>

#include "run/plan.h"
#include "run/run.h"

static const char *deadline_text = "the deadline passed";

/* ---- what is to be looked at ---- */
static void add_work(struct sgpu_run *run, int operation)
{
	run->work[run->work_tail++] = operation;
}

/* The operation fails; it is counted out here unless it still runs, and its followers when it is looked at. */
static void mark_failed(struct sgpu_run *run, int operation, int code, const char *cause)
{
	struct sgpu_run_operation *op = &run->operations[operation];

	if (op->state == SGPU_OP_DONE || op->state == SGPU_OP_FAILED) {
		return;
	}
	if (op->state == SGPU_OP_WAITING) {
		run->operations_open--;
	}
	op->state = SGPU_OP_FAILED;
	op->code = code;
	op->cause = cause;
	atomic_store(&op->bad, true);
	atomic_fetch_add(&run->failed, 1);
	add_work(run, operation);
}

/* What those are told that depend on a failure: that it came too late, or from data that somebody altered, is the reason
 * of them all; anything else is the matter of the one that failed. */
static int inherited(int code)
{
	return code == SGPU_ETIMEOUT || code == SGPU_EAUTH ? code : SGPU_EDEPENDENCY;
}

/* It failed by itself, not through what it depends on. */
static void fail_itself(struct sgpu_run *run, int operation, int code, const char *text)
{
	struct sgpu_run_operation *op = &run->operations[operation];
	bool late = atomic_load(&run->stop) == SGPU_ETIMEOUT;

	op->text = sgpu_run_text("operation '%s' failed: %s", run->manifest->operations[operation].id,
				 late ? deadline_text : text[0] ? text : sgpu_strerror(code));
	mark_failed(run, operation, late ? SGPU_ETIMEOUT : code, op->text ? op->text : sgpu_strerror(SGPU_ENOMEM));
}

static void drop_hold(struct sgpu_run *run, int operation)
{
	struct sgpu_run_operation *op = &run->operations[operation];

	if (--op->waiting == 0 && op->state == SGPU_OP_WAITING) {
		add_work(run, operation);
	}
}

/* Those that follow an operation learn that it is enqueued or, `ended`, that it has ended well. A module waits for the
 * latter: what a failed operation left behind could bring it down, and the whole context with it. */
static void drop_followers(struct sgpu_run *run, int operation, bool ended)
{
	for (int i = run->after_start[operation]; i < run->after_start[operation + 1]; i++) {
		if (ended == (run->manifest->operations[run->after[i]].module != NULL)) {
			drop_hold(run, run->after[i]);
		}
	}
}

static void look_at(struct sgpu_run *run, int operation)
{
	struct sgpu_run_operation *op = &run->operations[operation];
	struct sgpu_error error = { 0 };

	if (op->state == SGPU_OP_WAITING && op->waiting == 0) {
		int rc = sgpu_execute(run, operation, &error);

		if (rc != SGPU_OK) {
			fail_itself(run, operation, rc, error.text);
			return;
		}
		op->state = SGPU_OP_ENQUEUED;
		run->ahead++;
		drop_followers(run, operation, false);
	} else if (op->state == SGPU_OP_FAILED) {
		for (int i = run->after_start[operation]; i < run->after_start[operation + 1]; i++) {
			mark_failed(run, run->after[i], inherited(op->code), op->cause);
		}
	}
}

/* ---- what the nodes say ---- */
static void arrived(struct sgpu_run *run, int segment)
{
	const struct sgpu_segment *s = &run->manifest->segments[segment];
	const struct sgpu_run_segment *state = &run->segments[segment];
	int code = atomic_load(&state->in_code);
	const char *cause = state->in_text ? state->in_text : sgpu_strerror(code);

	run->arrivals_open--;
	sgpu_load_end(run, segment);
	for (int i = 0; i < s->reader_count; i++) {
		if (code != SGPU_OK) {
			mark_failed(run, s->readers[i], inherited(code), cause);
		} else if (sgpu_plan_reader_once(s, i)) {
			drop_hold(run, s->readers[i]);
		}
	}
	if (code != SGPU_OK && s->reader_count == 0 && !run->stray) {
		run->stray = strdup(cause);
	}
}

static void fail_output(struct sgpu_run *run, int segment, int code, const char *text)
{
	struct sgpu_run_segment *s = &run->segments[segment];
	bool late = atomic_load(&run->stop) == SGPU_ETIMEOUT;

	s->out_code = late ? SGPU_ETIMEOUT : code;
	s->out_text = sgpu_run_text("segment '%s' failed: %s", run->manifest->segments[segment].id,
				    late ? deadline_text : text[0] ? text : sgpu_strerror(code));
}

/* Sends the outputs of an operation that has run on their way. */
static void start_outputs(struct sgpu_run *run, int operation, const struct sgpu_op_call *call, uint64_t elements)
{
	const struct sgpu_operation *op = &run->manifest->operations[operation];
	bool at_most = call->op->at_most && call->op->at_most(call);

	for (int i = 0; i < op->arg_count; i++) {
		int segment = op->args[i].segment;
		const struct sgpu_segment *s = &run->manifest->segments[segment];
		struct sgpu_error error = { 0 };
		uint64_t actual = 0;
		int rc = atomic_load(&run->stop);

		if (!op->args[i].output || !sgpu_segment_is_output(s)) {
			continue;
		}
		if (!sgpu_type_bytes(&s->type, &actual) ||
		    (at_most && elements > actual / sgpu_dtype_size(s->type.dtype))) {
			rc = sgpu_fail(&error, SGPU_EDEVICE, "the operation reports more elements than there can be");
		} else if (at_most) {
			actual = elements * sgpu_dtype_size(s->type.dtype);
		}
		if (rc == SGPU_OK) {
			rc = sgpu_result_start(run, segment, actual, &error);
		}
		if (rc != SGPU_OK) {
			fail_output(run, segment, rc, error.text);
		} else {
			run->outputs_open++;
		}
	}
}

static uint64_t call_bytes(const struct sgpu_op_call *call)
{
	uint64_t sum = 0;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		uint64_t bytes = 0;

		if (call->data[i] && sgpu_type_bytes(&call->type[i], &bytes)) {
			sum += bytes;
		}
	}
	return sum;
}

static void ran(struct sgpu_run *run, int operation)
{
	struct sgpu_run_operation *op = &run->operations[operation];
	struct sgpu_run_launch *launch = op->launch;
	int code;

	sgpu_module_end(run, launch);
	code = launch->task.code;
	run->operations_open--;
	if (op->state == SGPU_OP_ENQUEUED && code == SGPU_OK) {
		op->state = SGPU_OP_DONE;
		atomic_fetch_add(&run->done, 1);
		drop_followers(run, operation, true);
		start_outputs(run, operation, &launch->call, launch->task.actual);
	} else if (op->state == SGPU_OP_ENQUEUED) {
		fail_itself(run, operation, code, launch->task.error.text);
	}
	if (code != SGPU_EDEPENDENCY) {
		sgpu_span_add(run, SGPU_SPAN_KERNEL, run->plan->stream[operation],
			      run->manifest->operations[operation].id, launch->task.begin_ns, launch->task.end_ns,
			      call_bytes(&launch->call));
	}
	run->ahead--;
	op->launch = NULL;
	free(launch->clears);
	free(launch);
}

static void left(struct sgpu_run *run, int segment)
{
	struct sgpu_error error = { 0 };
	int rc = sgpu_result_end(run, segment, &error);

	run->outputs_open--;
	if (rc != SGPU_OK) {
		fail_output(run, segment, rc, error.text);
	}
}

/* Whatever is not enqueued will not be. What is ends by itself. */
static void stop(struct sgpu_run *run)
{
	int code = atomic_load(&run->stop);

	for (int i = 0; i < run->manifest->operation_count; i++) {
		if (run->operations[i].state == SGPU_OP_WAITING) {
			mark_failed(run, i, code, code == SGPU_ETIMEOUT ? deadline_text : sgpu_strerror(code));
		}
	}
}

/* ---- the thread ---- */
static struct sgpu_run_node *next_node(struct sgpu_run *run)
{
	struct sgpu_run_node *node;

	pthread_mutex_lock(&run->mutex);
	while (!run->queue_head) {
		pthread_cond_wait(&run->queue_filled, &run->mutex);
	}
	node = run->queue_head;
	run->queue_head = node->next;
	if (!run->queue_head) {
		run->queue_tail = NULL;
	}
	pthread_mutex_unlock(&run->mutex);
	return node;
}

static void take_node(struct sgpu_run *run, const struct sgpu_run_node *node)
{
	switch (node->kind) {
	case SGPU_NODE_ARRIVED:
		arrived(run, node->index);
		break;
	case SGPU_NODE_RAN:
		ran(run, node->index);
		break;
	case SGPU_NODE_LEFT:
		left(run, node->index);
		break;
	case SGPU_NODE_STOP:
		stop(run);
		break;
	}
}

/* Each launch under way costs some KiB, and the device only needs enough of them not to run dry. */
static bool may_look(const struct sgpu_run *run)
{
	return run->work_head < run->work_tail &&
	       (run->ahead < SGPU_RUN_AHEAD || run->operations[run->work[run->work_head]].state != SGPU_OP_WAITING);
}

void *sgpu_drive(void *argument)
{
	struct sgpu_run *run = argument;

	for (int i = 0; i < run->manifest->operation_count; i++) {
		if (run->operations[i].waiting == 0) {
			add_work(run, i);
		}
	}
	for (;;) {
		while (may_look(run)) {
			look_at(run, run->work[run->work_head++]);
		}
		if (run->arrivals_open == 0 && run->operations_open == 0 && run->outputs_open == 0) {
			break;
		}
		take_node(run, next_node(run));
	}
	return NULL;
}
