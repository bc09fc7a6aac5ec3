/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a batch. Each input that an operation reads, and each predecessor not yet enqueued,
 * holds the operation back. A segment is moved to other devices before its arrival, or its writer's
 * end, lets readers go there. An operation that nothing holds back is enqueued, and waits on the
 * device for predecessors that still run. So no kernel runs on data that have not verified, and the
 * device waits for the host between two operations only if the second is a module or on another
 * device.
 */
#include <stdlib.h>

#include "run/private.h"

/* Most operations enqueued at a time: enough that the device does not run dry. Each costs some KiB,
 * and a full queue of a device blocks the caller. */
enum { AHEAD_MAX = 128 };

enum state { WAITING, ENQUEUED, DONE, FAILED };

struct launch {
	struct launch *next; /* in the order of enqueuing */
	struct sgpu_run *run;
	int operation;
	struct sgpu_stream *stream;
	/* the device's own implementation; NULL: the CPU's, in the table of operations */
	sgpu_op_fn on_device;
	struct sgpu_op_call call;
	struct sgpu_task task;
	struct sgpu_task clears[]; /* of a module: tasks that clear its outputs, by argument */
};

struct operation {
	enum state state;
	int holds; /* inputs and predecessors that hold it back */
	int code;
	const char *text; /* why it failed or, unless by_itself, of the failure due to which */
	bool by_itself;
	atomic_bool bad; /* it failed, so operations that depend on it must not run */
	int follower;	 /* the first of its followers, by its number in their list; 0: none */
	struct sgpu_event *event; /* after its work and that of its small outputs */
};

struct sgpu_operations {
	const struct sgpu_manifest *manifest;
	const struct sgpu_plan *plan;
	struct operation *list;
	struct {
		int operation;
		int next; /* of the same operation's followers; 0: none */
	} * followers;
	int *work; /* operations to look at: each is added when nothing holds it back, and when it
		      has failed */
	int work_head, work_tail;
	int inputs_open, operations_open, ahead;
	struct launch *first, **last; /* under way */
};

/* ---- creation ---- */
static int list_followers(struct sgpu_operations *o, struct sgpu_error *error)
{
	const struct sgpu_manifest *m = o->manifest;
	size_t edges = 1;

	for (int i = 0; i < m->operation_count; i++) {
		edges += (size_t)m->operations[i].before_count;
	}
	o->followers = calloc(edges, sizeof(*o->followers));
	if (!o->followers) {
		return sgpu_fail_nomem(error);
	}
	for (int i = m->operation_count; i-- > 0;) { /* so that lists are in order */
		for (int k = 0; k < m->operations[i].before_count; k++) {
			struct operation *before = &o->list[m->operations[i].before[k]];

			o->followers[--edges].operation = i;
			o->followers[edges].next = before->follower;
			before->follower = (int)edges;
		}
	}
	return SGPU_OK;
}

static void add_work(struct sgpu_operations *o, int operation)
{
	o->work[o->work_tail++] = operation;
}

static void count_holds(struct sgpu_operations *o)
{
	const struct sgpu_manifest *m = o->manifest;

	for (int i = 0; i < m->operation_count; i++) {
		o->list[i].holds = m->operations[i].before_count;
	}
	for (int i = 0; i < m->segment_count; i++) {
		if (sgpu_segment_is_input(&m->segments[i])) {
			o->inputs_open++;
			for (int k = 0; k < m->segments[i].reader_count; k++) {
				o->list[m->segments[i].readers[k]].holds++;
			}
		}
	}
	for (int i = 0; i < m->operation_count; i++) {
		if (o->list[i].holds == 0) {
			add_work(o, i);
		}
	}
	o->operations_open = m->operation_count;
}

int sgpu_operations_create(struct sgpu_run *run, struct sgpu_error *error)
{
	const size_t count = (size_t)run->job.manifest->operation_count;
	struct sgpu_operations *o = calloc(1, sizeof(*o));
	int rc;

	run->operations = o;
	if (!o) {
		return sgpu_fail_nomem(error);
	}
	o->manifest = run->job.manifest;
	o->plan = run->job.plan;
	o->last = &o->first;
	o->list = calloc(count + 1, sizeof(*o->list));
	o->work = calloc(2 * count + 1, sizeof(*o->work));
	rc = o->list && o->work ? list_followers(o, error) : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		count_holds(o);
		atomic_store(&run->operation_count, (int)count);
	}
	return rc;
}

void sgpu_operations_free(struct sgpu_run *run)
{
	struct sgpu_operations *o = run->operations;

	if (!o) {
		return;
	}
	free(o->list);
	free(o->work);
	free(o->followers);
	free(o);
	run->operations = NULL;
}

/* ---- failures ---- */
/* Unless the operation still runs, it no longer counts as open. look_at() marks its followers. */
static void mark_failed(struct sgpu_run *run, int operation, int rc, const char *text)
{
	struct operation *op = &run->operations->list[operation];

	if (op->state == DONE || op->state == FAILED) {
		return;
	}
	run->operations->operations_open -= op->state == WAITING;
	op->state = FAILED;
	op->code = rc;
	op->text = text;
	atomic_fetch_add(&run->failed_count, 1);
	add_work(run->operations, operation);
}

/* The code of operations that depend on a failed one. A timeout or altered data concern all. */
static int inherited(int rc)
{
	return rc == SGPU_ETIMEOUT || rc == SGPU_EAUTH ? rc : SGPU_EDEPENDENCY;
}

static void fail_itself(struct sgpu_run *run, int operation, int rc, const char *text)
{
	text = sgpu_run_failure(run, "operation", run->job.manifest->operations[operation].id, &rc,
				text);
	run->operations->list[operation].by_itself = true;
	mark_failed(run, operation, rc, text);
}

/* ---- enqueuing ---- */
/* The device may come to an operation before this thread knows that its predecessor failed. An
 * operation skipped for that has written nothing, so it has failed, too. */
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

static int place_arguments(struct launch *l, struct sgpu_error *error)
{
	const struct sgpu_run *run = l->run;
	const struct sgpu_operation *op = &run->job.manifest->operations[l->operation];
	const struct sgpu_plan *plan = run->job.plan;
	const sgpu_devptr *memory = run->memory.buffers;
	const int scratch = plan->operations[l->operation].scratch;

	for (int i = 0; i < op->arg_count; i++) {
		int segment = op->args[i].segment,
		    at = op->module ? i : sgpu_op_arg(l->call.op, op->args[i].name);
		int buffer = op->args[i].output
				     ? plan->segments[segment].out_buffer
				     : sgpu_plan_read_buffer(plan, segment,
							     plan->operations[l->operation].device);

		if (at < 0 || buffer < 0) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "operation '%s' has no memory for '%s'", op->id,
					 op->args[i].name);
		}
		l->call.data[at] = (void *)(uintptr_t)memory[buffer];
	}
	if (scratch >= 0) {
		l->call.scratch = (void *)(uintptr_t)memory[scratch];
	}
	return SGPU_OK;
}

/* Waits on the device for predecessors on other streams that still run there. */
static int wait_for_others(struct sgpu_run *run, int operation, struct sgpu_stream *stream,
			   struct sgpu_error *error)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];
	const struct sgpu_plan *plan = run->job.plan;

	for (int i = 0; i < op->before_count; i++) {
		const struct operation *other = &run->operations->list[op->before[i]];

		if (plan->operations[op->before[i]].stream != plan->operations[operation].stream &&
		    other->event && sgpu_stream_wait(stream, other->event) != SGPU_OK) {
			return sgpu_fail(error, SGPU_EDEVICE,
					 "the device cannot wait for an event");
		}
	}
	return SGPU_OK;
}

/* Enqueues an operation of the table. */
static int start_kernel(struct launch *l, struct sgpu_error *error)
{
	const int rc = sgpu_op_enqueue(l->stream, run_kernel, l, &l->call, &l->task);

	return rc == SGPU_OK
		       ? rc
		       : sgpu_fail(error, rc, "the device refused the launch: %s",
				   l->task.error.text[0] ? l->task.error.text : sgpu_strerror(rc));
}

/* Fills in a launch and enqueues it. */
static int enqueue(struct launch *l, struct sgpu_error *error)
{
	struct sgpu_run *run = l->run;
	const struct sgpu_operation *op = &run->job.manifest->operations[l->operation];
	struct sgpu_device *device =
		run->devices[run->job.plan->operations[l->operation].device]->device;
	struct operation *state = &run->operations->list[l->operation];
	int rc = sgpu_ops_prepare(run->job.manifest, l->operation, &l->call, error);

	l->on_device = sgpu_device_op(device, op->kernel);
	rc = rc ? rc : place_arguments(l, error);
	rc = rc ? rc
		: sgpu_run_get_stream(run, run->job.plan->operations[l->operation].stream,
				      SGPU_RUN_PLAN, &l->stream, error);
	rc = rc ? rc : sgpu_event_create(device, &state->event, error);
	rc = rc ? rc : wait_for_others(run, l->operation, l->stream, error);
	if (rc == SGPU_OK) {
		rc = op->module ? sgpu_module_start(run, l->operation, &l->call, l->stream,
						    l->clears, &l->task, error)
				: start_kernel(l, error);
	}
	if (rc != SGPU_OK) {
		run->unsure = true;
		sgpu_event_free(&state->event);
		return rc;
	}
	if (!op->module) {
		sgpu_outputs_follow(run, l->operation, &l->call, l->stream);
	}
	if (sgpu_event_record(l->stream, state->event) != SGPU_OK) {
		/* this thread waits here, instead of the other streams */
		if (sgpu_stream_sync(l->stream, NULL) != SGPU_OK && l->task.code == SGPU_OK) {
			l->task.code = SGPU_EDEVICE;
		}
		sgpu_event_free(&state->event);
	}
	*run->operations->last = l;
	run->operations->last = &l->next;
	return SGPU_OK;
}

static int start(struct sgpu_run *run, int operation, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &run->job.manifest->operations[operation];
	int rc = atomic_load(&run->stop);
	struct launch *l;

	rc = rc		  ? sgpu_fail(error, rc, "the run was stopped")
	     : op->module ? sgpu_modules_ready(run, operation, error)
			  : SGPU_OK;
	if (rc != SGPU_OK) {
		return rc;
	}
	l = calloc(1, sizeof(*l) + (op->module ? (size_t)op->arg_count : 0) * sizeof(*l->clears));
	if (!l) {
		return sgpu_fail_nomem(error);
	}
	l->run = run;
	l->operation = operation;
	rc = enqueue(l, error);
	if (rc != SGPU_OK) {
		free(l);
	}
	return rc;
}

/* ---- followers ---- */
static void drop_hold(struct sgpu_operations *o, int operation)
{
	struct operation *op = &o->list[operation];

	if (--op->holds == 0 && op->state == WAITING) {
		add_work(o, operation);
	}
}

/* Whether a follower waits for the operation's end, not just its enqueuing. A module does, since
 * what a failed operation wrote could crash it and the whole context. So does an operation on
 * another device, which cannot wait for this device's events. */
static bool waits_for_end(const struct sgpu_operations *o, int operation, int follower)
{
	return o->manifest->operations[follower].module != NULL ||
	       o->plan->operations[operation].device != o->plan->operations[follower].device;
}

/* Drops the hold on followers that wait for an operation to be enqueued or, if `ended`, to end. */
static void drop_followers(struct sgpu_operations *o, int operation, bool ended)
{
	for (int i = o->list[operation].follower; i; i = o->followers[i].next) {
		int follower = o->followers[i].operation;

		if (ended == waits_for_end(o, operation, follower)) {
			drop_hold(o, follower);
		}
	}
}

static void look_at(struct sgpu_run *run, int operation)
{
	struct sgpu_operations *o = run->operations;
	struct operation *op = &o->list[operation];
	struct sgpu_error error = { 0 };

	if (op->state == WAITING && op->holds == 0) {
		int rc = start(run, operation, &error);

		if (rc != SGPU_OK) {
			fail_itself(run, operation, rc, error.text);
		} else {
			op->state = ENQUEUED;
			o->ahead++;
			drop_followers(o, operation, false);
		}
	} else if (op->state == FAILED) {
		for (int i = op->follower; i; i = o->followers[i].next) {
			mark_failed(run, o->followers[i].operation, inherited(op->code), op->text);
		}
	}
}

/* ---- what has ended ---- */
static uint64_t call_bytes(const struct sgpu_op_call *call)
{
	uint64_t sum = 0, size = 0;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		if (call->data[i] && sgpu_type_bytes(&call->type[i], &size)) {
			sum += size;
		}
	}
	return sum;
}

/* Returns a predecessor in this state. The device passes it first; this thread may notice later. */
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
static void end_launch(struct sgpu_run *run, struct launch *l)
{
	struct sgpu_operations *o = run->operations;
	struct operation *op = &o->list[l->operation];
	const struct sgpu_operation *what = &run->job.manifest->operations[l->operation];
	const struct operation *failed = find_before(run, l->operation, FAILED);
	const struct sgpu_plan *plan = run->job.plan;
	bool good;

	if (what->module) {
		sgpu_module_end(run, l->operation, l->clears, &l->task);
	}
	if (l->task.code != SGPU_EDEPENDENCY) {
		sgpu_trace_add(
			run,
			&(struct sgpu_span){
				.kind = SGPU_SPAN_KERNEL,
				.device =
					run->devices[plan->operations[l->operation].device]->number,
				.number = plan->operations[l->operation].stream / run->device_count,
				.label = what->id,
				.begin_ns = l->task.begin_ns,
				.end_ns = l->task.end_ns,
				.bytes = call_bytes(&l->call) });
	}
	sgpu_event_free(&op->event);
	o->operations_open--;
	o->ahead--;
	good = op->state == ENQUEUED && l->task.code == SGPU_OK && !failed;
	if (good) {
		op->state = DONE;
		atomic_fetch_add(&run->done_count, 1);
		for (int i = 0; i < what->arg_count; i++) {
			/* No operation reads the written value of an INPUT_OUTPUT. */
			if (what->args[i].output &&
			    !sgpu_segment_is_input(&o->manifest->segments[what->args[i].segment])) {
				sgpu_moves_make(run, what->args[i].segment);
			}
		}
		drop_followers(o, l->operation, true);
	} else {
		atomic_store(&op->bad, true);
		run->unsure = true;
		if (op->state == ENQUEUED && failed) { /* it ran on what that one has left */
			mark_failed(run, l->operation, inherited(failed->code), failed->text);
		} else if (op->state == ENQUEUED) {
			fail_itself(run, l->operation, l->task.code, l->task.error.text);
		}
	}
	sgpu_outputs_begin(run, l->operation, &l->call, !good, l->task.actual);
	free(l);
}

/* Whether the device has passed an operation. A stream's operations end in order. */
static bool has_ended(struct sgpu_run *run, struct launch *l)
{
	const struct operation *op = &run->operations->list[l->operation];
	struct sgpu_error error = { 0 };
	bool done = false;
	int rc = op->event ? sgpu_event_query(op->event, &done, &error) : SGPU_OK;

	if (rc != SGPU_OK) { /* the device is lost, or still at work */
		(void)!sgpu_stream_sync(l->stream, NULL);
		if (l->task.code == SGPU_OK) {
			l->task.code = rc;
			l->task.error = error;
		}
	}
	return !op->event || rc != SGPU_OK || done;
}

static bool look_for_ends(struct sgpu_run *run)
{
	struct sgpu_operations *o = run->operations;
	uint64_t running = 0; /* bit s: an operation on stream s has not ended */
	bool any = false;

	_Static_assert(SGPU_PLAN_STREAMS_MAX <= 64, "a bit for each stream");
	for (struct launch **link = &o->first; *link;) {
		struct launch *l = *link;
		const uint64_t bit = UINT64_C(1) << run->job.plan->operations[l->operation].stream;

		if (running & bit || find_before(run, l->operation, ENQUEUED) ||
		    !has_ended(run, l)) {
			running |= bit;
			link = &l->next;
			continue;
		}
		*link = l->next;
		o->last = o->last == &l->next ? link : o->last;
		end_launch(run, l);
		any = true;
	}
	return any;
}

bool sgpu_operations_advance(struct sgpu_run *run)
{
	struct sgpu_operations *o = run->operations;
	bool any = look_for_ends(run);

	while (o->work_head < o->work_tail) {
		int operation = o->work[o->work_head];

		if (o->ahead >= AHEAD_MAX && o->list[operation].state == WAITING) {
			break;
		}
		o->work_head++;
		look_at(run, operation);
		any = true;
	}
	return any;
}

/* ---- events ---- */
void sgpu_graph_arrived(const struct sgpu_payload *input)
{
	struct sgpu_run *run = input->run;
	const struct sgpu_segment *s = &run->job.manifest->segments[input->segment];

	run->operations->inputs_open--;
	for (int i = 0; i < s->reader_count; i++) {
		if (input->code != SGPU_OK) {
			mark_failed(run, s->readers[i], inherited(input->code), input->text);
		} else {
			drop_hold(run->operations, s->readers[i]);
		}
	}
}

void sgpu_graph_not_moved(struct sgpu_run *run, const struct sgpu_plan_move *move, int rc,
			  const char *text)
{
	const struct sgpu_segment *s = &run->job.manifest->segments[move->segment];

	for (int i = 0; i < s->reader_count; i++) {
		if (run->job.plan->operations[s->readers[i]].device == move->to) {
			mark_failed(run, s->readers[i], inherited(rc), text);
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
	return run->operations->inputs_open == 0 && run->operations->operations_open == 0;
}

int sgpu_graph_outcome(struct sgpu_run *run, int operation, const char **text)
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
