/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a batch. A stream's operations are enqueued in the plan's order, each once its
 * inputs have arrived and its predecessors are enqueued; the device waits for predecessors that
 * still run. So no kernel runs on data that have not verified, and the device waits for the host
 * between two operations only if the second is a module or on another device.
 */
#include <stdlib.h>
#include <string.h>

#include "run/private.h"

/* Most operations enqueued at a time: enough that the device does not run dry. Each costs some KiB,
 * and a full queue of a device blocks the caller. */
enum { AHEAD_MAX = 128 };

enum state { WAITING, ENQUEUED, DONE, FAILED };

struct launch {
	struct sgpu_run *run;
	int operation;
	struct sgpu_stream *stream;
	/* the device's own implementation; NULL: the CPU's, in the table of operations */
	sgpu_op_fn on_device;
	struct sgpu_op_call call;
	uint64_t bytes; /* of all arguments */
	struct sgpu_task task;
	struct sgpu_task clears[]; /* of a module: tasks that clear its outputs, by argument */
};

struct operation {
	enum state state;
	int code;
	const char *text; /* why it failed or, unless by_itself, why one before it did */
	bool by_itself;
	atomic_bool bad;	  /* it failed, so operations that depend on it must not run */
	struct launch *launch;	  /* while it is enqueued */
	struct sgpu_event *event; /* after its work and that of its small outputs */
};

struct sgpu_operations {
	int ahead; /* how many are enqueued */
	/* by stream, or -1: the next operation to enqueue, and the first whose end was not seen */
	int next[SGPU_PLAN_STREAMS_MAX], oldest[SGPU_PLAN_STREAMS_MAX];
	struct operation list[];
};

int sgpu_operations_create(struct sgpu_run *run, struct sgpu_error *error)
{
	const int count = run->job.manifest->operation_count;
	struct sgpu_operations *o = calloc(1, sizeof(*o) + (size_t)count * sizeof(o->list[0]));

	run->operations = o;
	if (!o) {
		return sgpu_fail_nomem(error);
	}
	memcpy(o->next, run->job.plan->first, sizeof(o->next));
	memcpy(o->oldest, o->next, sizeof(o->oldest));
	atomic_store(&run->operation_count, count);
	return SGPU_OK;
}

/* ---- failures ---- */
static void mark_failed(struct sgpu_run *run, int operation, int rc, const char *text)
{
	struct operation *op = &run->operations->list[operation];

	op->state = FAILED;
	op->code = rc;
	op->text = text;
	atomic_fetch_add(&run->failed_count, 1);
}

/* The code that dependants get: SGPU_ETIMEOUT and SGPU_EAUTH are passed on, everything else becomes
 * SGPU_EDEPENDENCY. */
static int inherited(int rc)
{
	return rc == SGPU_OK || rc == SGPU_ETIMEOUT || rc == SGPU_EAUTH ? rc : SGPU_EDEPENDENCY;
}

static void fail_itself(struct sgpu_run *run, int operation, int rc, const char *text)
{
	text = sgpu_run_failure(run, "operation", run->job.manifest->operations[operation].id, &rc,
				text);
	run->operations->list[operation].by_itself = true;
	mark_failed(run, operation, rc, text);
}

/* ---- enqueuing ---- */
/* The device may start an operation before this thread knows that its predecessor failed. If this
 * function knows, the operation is skipped, writes nothing, and has failed, too. */
static int run_kernel(struct sgpu_launch *launch, void *argument)
{
	struct launch *l = argument;
	struct operation *list = l->run->operations->list;
	const struct sgpu_operation *op = &l->run->job.manifest->operations[l->operation];
	int rc = atomic_load(&l->run->stop);

	if (rc != SGPU_OK) {
		sgpu_fail(launch->error, rc, "the run was stopped");
	}
	for (int i = 0; rc == SGPU_OK && i < op->before_count; i++) {
		if (atomic_load(&list[op->before[i]].bad)) {
			rc = sgpu_fail(launch->error, SGPU_EDEPENDENCY,
				       "an operation before it failed");
		}
	}
	rc = rc ? rc : sgpu_op_run(&l->call, l->on_device, launch);
	if (rc != SGPU_OK) {
		atomic_store(&list[l->operation].bad, true);
	}
	return rc;
}

/* Every argument has a buffer, since the operation was planned. */
static void place_arguments(struct launch *l)
{
	const struct sgpu_run *run = l->run;
	const struct sgpu_operation *op = &run->job.manifest->operations[l->operation];
	const struct sgpu_plan *plan = run->job.plan;
	const struct sgpu_plan_operation *planned = &plan->operations[l->operation];
	const sgpu_devptr *memory = run->memory.buffers;

	for (int i = 0; i < op->arg_count; i++) {
		const struct sgpu_argument *arg = &op->args[i];
		const int at = op->module ? i : sgpu_op_arg(l->call.op, arg->name);
		const int buffer =
			arg->output ? plan->segments[arg->segment].out_buffer
				    : sgpu_plan_read_buffer(plan, arg->segment, planned->device);
		uint64_t size = 0;

		(void)sgpu_type_bytes(&l->call.type[at], &size);
		l->call.data[at] = (void *)(uintptr_t)memory[buffer];
		l->bytes += size;
	}
	l->task.untimed = !sgpu_run_times(run, l->bytes);
	if (planned->scratch >= 0) {
		l->call.scratch = (void *)(uintptr_t)memory[planned->scratch];
	}
}

static int enqueue(struct sgpu_run *run, int operation, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];
	const struct sgpu_plan_operation *planned = &run->job.plan->operations[operation];
	const size_t clears = op->module ? (size_t)op->arg_count : 0;
	struct sgpu_device *device = run->devices[planned->device]->device;
	struct operation *list = run->operations->list, *state = &list[operation];
	struct launch *l = calloc(1, sizeof(*l) + clears * sizeof(*l->clears));
	int rc;

	if (!l) {
		return sgpu_fail_nomem(error);
	}
	l->run = run;
	l->operation = operation;
	rc = sgpu_ops_prepare(run->job.manifest, operation, &l->call, error);
	l->on_device = sgpu_device_op(device, op->kernel);
	if (rc == SGPU_OK) {
		place_arguments(l);
	}
	rc = rc ? rc : sgpu_run_get_stream(run, planned->stream, SGPU_RUN_PLAN, &l->stream, error);
	rc = rc ? rc : sgpu_event_create(device, &state->event, error);
	for (int i = 0; rc == SGPU_OK && i < op->before_count; i++) {
		struct sgpu_event *other = list[op->before[i]].event;

		/* Those before it on other streams may still run there. */
		if (run->job.plan->operations[op->before[i]].stream != planned->stream && other &&
		    sgpu_stream_wait(l->stream, other) != SGPU_OK) {
			rc = sgpu_fail(error, SGPU_EDEVICE, "the device cannot wait for an event");
		}
	}
	if (rc == SGPU_OK && op->module) {
		rc = sgpu_module_start(run, operation, &l->call, l->stream, l->clears, &l->task,
				       error);
	} else if (rc == SGPU_OK) {
		rc = sgpu_op_enqueue(l->stream, run_kernel, l, &l->call, &l->task);
		rc = rc == SGPU_OK ? rc
				   : sgpu_fail(error, rc, "the device refused the launch: %s",
					       l->task.error.text[0] ? l->task.error.text
								     : sgpu_strerror(rc));
	}
	if (rc != SGPU_OK) {
		run->maybe_busy = true;
		sgpu_event_free(&state->event);
		free(l);
		return rc;
	}
	if (!op->module) {
		sgpu_outputs_follow(run, operation, &l->call, l->stream);
	}
	if (sgpu_event_record(l->stream, state->event) != SGPU_OK) {
		/* this thread waits here, instead of the other streams */
		if (sgpu_stream_sync(l->stream, NULL) != SGPU_OK && l->task.code == SGPU_OK) {
			l->task.code = SGPU_EDEVICE;
		}
		sgpu_event_free(&state->event);
	}
	state->launch = l;
	state->state = ENQUEUED;
	run->operations->ahead++;
	return SGPU_OK;
}

/* ---- what holds an operation back ---- */
/* Whether an operation may be enqueued now: its inputs have arrived and its predecessors are on the
 * device. A module, and an operation on another device than a predecessor, waits until that
 * predecessor has ended: what a failed one left could crash the module, and events do not reach
 * across devices. *rc and *text: why it can never run, if an input or a predecessor has failed;
 * this then returns true, too. */
static bool is_due(const struct sgpu_run *run, int operation, int *rc, const char **text)
{
	const struct sgpu_manifest *m = run->job.manifest;
	const struct sgpu_operation *op = &m->operations[operation];
	const struct sgpu_plan_operation *planned = run->job.plan->operations;
	bool due = true;

	*rc = SGPU_OK;
	for (int i = 0; *rc == SGPU_OK && i <= op->arg_count; i++) {
		const int segment = sgpu_operation_reads(op, i);

		if (segment >= 0 && sgpu_segment_is_input(&m->segments[segment])) {
			const struct sgpu_payload *input = sgpu_run_payload(run, segment, false);

			*rc = inherited(input->code);
			*text = input->text;
			due &= input->ended;
		}
	}
	for (int i = 0; *rc == SGPU_OK && i < op->before_count; i++) {
		const struct operation *before = &run->operations->list[op->before[i]];
		const bool from_start =
			!op->module && planned[op->before[i]].device == planned[operation].device;

		*rc = inherited(before->code);
		*text = before->text;
		due &= before->state == DONE || (before->state == ENQUEUED && from_start);
	}
	return due || *rc != SGPU_OK;
}

/* Enqueues an operation that is due, or fails it. */
static void start(struct sgpu_run *run, int operation)
{
	const int stop = atomic_load(&run->stop);
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;

	if (stop != SGPU_OK) {
		rc = sgpu_fail(&error, stop, "the run was stopped");
	} else if (run->job.manifest->operations[operation].module) {
		rc = sgpu_modules_ready(run, operation, &error);
	}
	rc = rc ? rc : enqueue(run, operation, &error);
	if (rc != SGPU_OK) {
		fail_itself(run, operation, rc, error.text);
	}
}

/* Starts or fails the next operation of a stream, if it is due. */
static bool look_at_next(struct sgpu_run *run, int stream)
{
	struct sgpu_operations *o = run->operations;
	const int operation = o->next[stream];
	const char *text;
	int rc;

	if (operation < 0) {
		return false;
	}
	if (o->list[operation].state == WAITING) {
		if (!is_due(run, operation, &rc, &text) ||
		    (rc == SGPU_OK && o->ahead == AHEAD_MAX)) {
			return false;
		}
		if (rc != SGPU_OK) {
			mark_failed(run, operation, rc, text);
		} else {
			start(run, operation);
		}
	}
	o->next[stream] = run->job.plan->operations[operation].next;
	return true;
}

/* ---- what has ended ---- */
/* Returns a predecessor in this state, or NULL. It may have ended on the device, unseen yet. */
static const struct operation *find_before(const struct sgpu_run *run, int operation,
					   enum state state)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];
	const struct operation *before = NULL;

	for (int i = 0; i < op->before_count && (!before || before->state != state); i++) {
		before = &run->operations->list[op->before[i]];
	}
	return before && before->state == state ? before : NULL;
}

/* Handles an operation that has ended on its device. */
static void end_operation(struct sgpu_run *run, int operation)
{
	struct operation *op = &run->operations->list[operation];
	const struct sgpu_operation *what = &run->job.manifest->operations[operation];
	const struct operation *failed = find_before(run, operation, FAILED);
	const int device = run->job.plan->operations[operation].device;
	struct launch *l = op->launch;

	if (what->module) {
		sgpu_module_end(run, operation, l->clears, &l->task);
	}
	if (l->task.code != SGPU_EDEPENDENCY) {
		sgpu_trace_add(run, &(struct sgpu_span){
					    .kind = SGPU_SPAN_KERNEL,
					    .device = run->devices[device]->number,
					    .number = run->job.plan->operations[operation].stream /
						      run->runner->device_count,
					    .label = what->id,
					    .begin_ns = l->task.begin_ns,
					    .end_ns = l->task.end_ns,
					    .bytes = l->bytes });
	}
	sgpu_event_free(&op->event);
	run->operations->ahead--;
	if (l->task.code == SGPU_OK && !failed) {
		op->state = DONE;
		atomic_fetch_add(&run->done_count, 1);
		for (int i = 0; i < what->arg_count; i++) {
			/* No operation reads the written value of an INPUT_OUTPUT. */
			if (what->args[i].output &&
			    !sgpu_segment_is_input(
				    &run->job.manifest->segments[what->args[i].segment])) {
				sgpu_moves_make(run, what->args[i].segment);
			}
		}
	} else {
		atomic_store(&op->bad, true);
		run->maybe_busy = true;
		if (failed) { /* it was skipped, or ran on what that one has left */
			mark_failed(run, operation, inherited(failed->code), failed->text);
		} else {
			fail_itself(run, operation, l->task.code, l->task.error.text);
		}
	}
	sgpu_outputs_begin(run, operation, &l->call, op->state == FAILED, l->task.actual);
	free(l);
}

/* Notices the ends of a stream's operations, which end in order. */
static bool look_for_ends(struct sgpu_run *run, int stream)
{
	struct sgpu_operations *o = run->operations;
	bool any = false;

	for (int i = o->oldest[stream]; i != o->next[stream];
	     i = run->job.plan->operations[i].next) {
		struct launch *l = o->list[i].launch;
		struct sgpu_error error = { 0 };
		bool done = true;
		int rc = SGPU_OK;

		o->oldest[stream] = i;
		if (o->list[i].state != ENQUEUED) {
			continue;
		}
		if (find_before(run, i, ENQUEUED)) {
			return any;
		}
		if (o->list[i].event) {
			rc = sgpu_event_query(o->list[i].event, &done, &error);
		}
		if (rc != SGPU_OK) { /* the device is lost, or still at work */
			(void)!sgpu_stream_sync(l->stream, NULL);
			if (l->task.code == SGPU_OK) {
				l->task.code = rc;
				l->task.error = error;
			}
		} else if (!done) {
			return any;
		}
		end_operation(run, i);
		any = true;
	}
	o->oldest[stream] = o->next[stream];
	return any;
}

bool sgpu_operations_advance(struct sgpu_run *run)
{
	const int streams = run->job.plan->stream_count;
	bool any = false, more;

	for (int i = 0; i < streams; i++) {
		any |= look_for_ends(run, i);
	}
	do { /* in turn, so that no stream takes all that may be enqueued */
		more = false;
		for (int i = 0; i < streams; i++) {
			more |= look_at_next(run, i);
		}
		any |= more;
	} while (more);
	return any;
}

void sgpu_operations_not_moved(struct sgpu_run *run, const struct sgpu_plan_move *move, int rc,
			       const char *text)
{
	const struct sgpu_segment *s = &run->job.manifest->segments[move->segment];

	for (int i = 0; i < s->reader_count; i++) {
		const int reader = s->readers[i];

		if (run->job.plan->operations[reader].device == move->to &&
		    run->operations->list[reader].state == WAITING) {
			mark_failed(run, reader, inherited(rc), text);
		}
	}
}

/* ---- state ---- */
bool sgpu_operations_pending(const struct sgpu_run *run)
{
	return run->operations->ahead > 0;
}

bool sgpu_operations_ended(const struct sgpu_run *run)
{
	return atomic_load(&run->done_count) + atomic_load(&run->failed_count) ==
	       run->job.manifest->operation_count;
}

int sgpu_operations_outcome(struct sgpu_run *run, int operation, const char **text)
{
	const struct operation *op = &run->operations->list[operation];

	if (op->state == DONE) {
		return SGPU_OK;
	}
	*text = op->by_itself
			? op->text
			: sgpu_run_text(run, "operation '%s' was not run: %s",
					run->job.manifest->operations[operation].id, op->text);
	return op->code;
}
