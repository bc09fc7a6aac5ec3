/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams are taken from the runner when an operation first needs them. An event is recorded after
 * an operation that operations on other streams wait for.
 */
#include "run/launch.h"

#include <stdlib.h>

#include "run/job.h"
#include "run/loop.h"
#include "run/memory.h"
#include "run/plan.h"
#include "run/private.h"

/* A launch under way, from its enqueuing until the loop has seen its end. */
struct launch {
	struct sgpu_launches *all;
	int operation;
	/* the device's own implementation; NULL: the CPU's, in the table of operations */
	sgpu_op_fn on_device;
	struct sgpu_launch_end end;
	struct sgpu_task *clears; /* tasks that clear a module's outputs, by argument; or NULL */
};

struct operation {
	struct sgpu_note ended;
	atomic_bool bad;	 /* it failed, so operations that depend on it must not run */
	bool followed_elsewhere; /* an operation on another stream of its device follows */
	struct launch *launch;
	struct sgpu_event *event; /* recorded after its kernel */
};

struct sgpu_launches {
	struct sgpu_run_base *base;
	const struct sgpu_manifest *manifest;
	const struct sgpu_plan *plan;
	struct sgpu_modules *modules;
	struct operation *operations;
	struct sgpu_stream **streams; /* of the plan */
	bool unsure; /* a stream may have work left when all operations have ended */
};

int sgpu_launches_create(struct sgpu_run_base *base, struct sgpu_modules *modules,
			 void (*ended)(struct sgpu_note *note), void *owner,
			 struct sgpu_launches **launches, struct sgpu_error *error)
{
	const struct sgpu_job *job = base->job;
	const struct sgpu_manifest *m = job->manifest;
	struct sgpu_launches *l = calloc(1, sizeof(*l));

	*launches = l;
	if (!l) {
		return sgpu_fail_nomem(error);
	}
	l->base = base;
	l->manifest = m;
	l->plan = job->plan;
	l->modules = modules;
	l->operations = calloc((size_t)m->operation_count + 1, sizeof(*l->operations));
	l->streams = calloc((size_t)job->plan->stream_count + 1, sizeof(struct sgpu_stream *));
	if (!l->operations || !l->streams) {
		sgpu_launches_free(launches);
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < m->operation_count; i++) {
		l->operations[i].ended =
			(struct sgpu_note){ .handle = ended, .owner = owner, .index = i };
		for (int k = 0; k < m->operations[i].before_count; k++) {
			int before = m->operations[i].before[k];

			if (l->plan->device[before] != l->plan->device[i]) {
				continue; /* operation i is not enqueued before the host has seen
					     `before` end */
			}
			l->operations[before].followed_elsewhere |=
				l->plan->stream[before] != l->plan->stream[i];
		}
	}
	return SGPU_OK;
}

void sgpu_launches_settle(struct sgpu_launches *launches)
{
	for (int i = 0; i < launches->plan->stream_count; i++) {
		sgpu_streams_give(launches->base->devices[i % launches->plan->device_count].streams,
				  &launches->streams[i], !launches->unsure);
	}
	for (int i = 0; i < launches->manifest->operation_count; i++) {
		sgpu_event_free(&launches->operations[i].event);
	}
}

void sgpu_launches_free(struct sgpu_launches **launches)
{
	if (*launches) {
		free((*launches)->operations);
		free((*launches)->streams);
		free(*launches);
		*launches = NULL;
	}
}

/* ---- on the stream's thread ---- */
static int run_unless_stopped(struct launch *l, struct sgpu_launch *launch)
{
	const struct sgpu_operation *op = &l->all->manifest->operations[l->operation];
	int rc = atomic_load(&l->all->base->stop);

	if (rc != SGPU_OK) {
		return sgpu_fail(launch->error, rc, "the run was stopped");
	}
	for (int i = 0; i < op->before_count; i++) {
		if (atomic_load(&l->all->operations[op->before[i]].bad)) {
			return sgpu_fail(launch->error, SGPU_EDEPENDENCY,
					 "an operation before it failed");
		}
	}
	return sgpu_op_run(&l->end.call, l->on_device, launch);
}

/* The loop may not know of a predecessor's failure yet. An operation that is skipped for such a
 * failure has written nothing, so it has failed, too. */
static int run_kernel(struct sgpu_launch *launch, void *argument)
{
	struct launch *l = argument;
	int rc = run_unless_stopped(l, launch);

	if (rc != SGPU_OK) {
		atomic_store(&l->all->operations[l->operation].bad, true);
	}
	return rc;
}

static void post_ended(void *argument)
{
	struct launch *l = argument;

	sgpu_loop_post(l->all->base->loop, &l->all->operations[l->operation].ended);
}

/* ---- enqueuing ---- */
static int place_arguments(struct sgpu_launches *launches, int operation, struct sgpu_op_call *call,
			   struct sgpu_error *error)
{
	const struct sgpu_operation *op = &launches->manifest->operations[operation];
	const struct sgpu_plan *plan = launches->plan;
	const sgpu_devptr *memory = launches->base->memory->buffers;
	int scratch = plan->scratch_buffer[operation];

	for (int i = 0; i < op->arg_count; i++) {
		int segment = op->args[i].segment,
		    at = op->module ? i : sgpu_op_arg(call->op, op->args[i].name);
		int buffer = op->args[i].output
				     ? plan->out_buffer[segment]
				     : sgpu_plan_read_buffer(plan, launches->manifest, segment,
							     plan->device[operation]);

		if (at < 0 || buffer < 0) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "operation '%s' has no memory for '%s'", op->id,
					 op->args[i].name);
		}
		call->data[at] = (void *)(uintptr_t)memory[buffer];
	}
	if (scratch >= 0) {
		call->scratch = (void *)(uintptr_t)memory[scratch];
	}
	return SGPU_OK;
}

/* Waits on the device for predecessors on other streams whose end the host has not seen. */
static int wait_for_others(struct sgpu_launches *launches, int operation,
			   struct sgpu_stream *stream, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &launches->manifest->operations[operation];

	for (int i = 0; i < op->before_count; i++) {
		const struct operation *other = &launches->operations[op->before[i]];
		bool same =
			launches->plan->stream[op->before[i]] == launches->plan->stream[operation];

		if (same || !other->launch || !other->event) {
			continue;
		}
		if (sgpu_stream_wait(stream, other->event) != SGPU_OK) {
			return sgpu_fail(error, SGPU_EDEVICE,
					 "the device cannot wait for an event");
		}
	}
	return SGPU_OK;
}

/* Lists the memory of a call's tensors. */
static int list_tensors(const struct sgpu_op_call *call, struct sgpu_device_range *ranges)
{
	int count = 0;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		uint64_t size = 0;

		if (call->data[i] && sgpu_type_bytes(&call->type[i], &size)) {
			ranges[count++] =
				(struct sgpu_device_range){ (sgpu_devptr)(uintptr_t)call->data[i],
							    size };
		}
	}
	return count;
}

/* Enqueues the kernel, and tells the device which memory it touches: tensors and scratch memory. */
static int start_kernel(struct launch *l, struct sgpu_stream *stream, struct sgpu_error *error)
{
	const struct sgpu_op_call *call = &l->end.call;
	struct sgpu_device_range ranges[SGPU_ARGUMENTS_MAX + 1];
	int scratch = l->all->plan->scratch_buffer[l->operation], rc;
	int count = list_tensors(call, ranges);

	if (scratch >= 0) {
		ranges[count++] = (struct sgpu_device_range){ (sgpu_devptr)(uintptr_t)call->scratch,
							      l->all->plan->buffers[scratch].size };
	}
	rc = sgpu_device_launch_on(stream, run_kernel, l, ranges, count, &l->end.task);
	return rc == SGPU_OK ? rc
			     : sgpu_fail(error, rc, "the device refused the launch: %s",
					 l->end.task.error.text[0] ? l->end.task.error.text
								   : sgpu_strerror(rc));
}

static int start_module(struct launch *l, struct sgpu_stream *stream, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &l->all->manifest->operations[l->operation];

	l->clears = calloc((size_t)op->arg_count + 1, sizeof(*l->clears));
	return l->clears ? sgpu_module_start(l->all->modules, l->operation, &l->end.call, stream,
					     l->clears, &l->end.task, error)
			 : sgpu_fail_nomem(error);
}

/* The callback is enqueued before the event, so that the loop gets an operation's note before the
 * notes of the operations that waited for it. */
static int enqueue(struct launch *l, struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct operation *op = &l->all->operations[l->operation];
	bool is_module = l->all->manifest->operations[l->operation].module != NULL;
	int rc = is_module ? start_module(l, stream, error) : start_kernel(l, stream, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	op->launch = l;
	if (sgpu_stream_callback(stream, post_ended, l) != SGPU_OK) {
		if (sgpu_stream_sync(stream, NULL) != SGPU_OK && l->end.task.code == SGPU_OK) {
			l->end.task.code = SGPU_EDEVICE;
		}
		post_ended(l);
	}
	l->all->unsure |= op->event != NULL;
	if (op->event && sgpu_event_record(stream, op->event) != SGPU_OK) {
		sgpu_event_free(&op->event); /* the host waits here, instead of the other streams */
		if (sgpu_stream_sync(stream, NULL) != SGPU_OK) {
			atomic_store(&op->bad, true);
		}
	}
	return SGPU_OK;
}

static const struct sgpu_run_device *device_of(const struct sgpu_launches *launches, int operation)
{
	return &launches->base->devices[launches->plan->device[operation]];
}

int sgpu_launch_get_stream(struct sgpu_launches *launches, int operation,
			   struct sgpu_stream **stream, struct sgpu_error *error)
{
	struct sgpu_stream **own = &launches->streams[launches->plan->stream[operation]];
	int rc = *own ? SGPU_OK
		      : sgpu_streams_take(device_of(launches, operation)->streams, own, error);

	*stream = *own;
	return rc;
}

int sgpu_launch_start(struct sgpu_launches *launches, int operation, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &launches->manifest->operations[operation];
	struct operation *state = &launches->operations[operation];
	struct sgpu_stream *stream = NULL;
	int rc = op->module ? sgpu_modules_ready(launches->modules, operation, error) : SGPU_OK;
	struct launch *l;

	if (rc != SGPU_OK) {
		return rc;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		return sgpu_fail_nomem(error);
	}
	l->all = launches;
	l->operation = operation;
	l->on_device = sgpu_device_op(device_of(launches, operation)->device, op->kernel);
	rc = sgpu_ops_prepare(launches->manifest, operation, &l->end.call, error);
	rc = rc ? rc : place_arguments(launches, operation, &l->end.call, error);
	rc = rc ? rc : sgpu_launch_get_stream(launches, operation, &stream, error);
	if (rc == SGPU_OK && state->followed_elsewhere) {
		rc = sgpu_event_create(device_of(launches, operation)->device, &state->event,
				       error);
	}
	rc = rc ? rc : wait_for_others(launches, operation, stream, error);
	rc = rc ? rc : enqueue(l, stream, error);
	if (rc != SGPU_OK) {
		launches->unsure = true;
		free(l->clears);
		free(l);
	}
	return rc;
}

/* ---- the end of a launch ---- */
static uint64_t call_bytes(const struct sgpu_op_call *call)
{
	struct sgpu_device_range ranges[SGPU_ARGUMENTS_MAX];
	uint64_t sum = 0;

	for (int i = list_tensors(call, ranges); i-- > 0;) {
		sum += ranges[i].size;
	}
	return sum;
}

const struct sgpu_launch_end *sgpu_launch_result(struct sgpu_launches *launches, int operation)
{
	struct launch *l = launches->operations[operation].launch;
	const struct sgpu_operation *op = &launches->manifest->operations[operation];

	if (op->module) {
		sgpu_module_end(launches->modules, operation, l->clears, &l->end.task);
	}
	if (l->end.task.code != SGPU_EDEPENDENCY) {
		sgpu_trace_add(launches->base->trace, SGPU_SPAN_KERNEL,
			       launches->plan->stream[operation], op->id, l->end.task.begin_ns,
			       l->end.task.end_ns, call_bytes(&l->end.call));
	}
	return &l->end;
}

void sgpu_launch_drop(struct sgpu_launches *launches, int operation, bool failed)
{
	struct operation *op = &launches->operations[operation];

	if (failed) {
		atomic_store(&op->bad, true);
		launches->unsure = true;
	}
	free(op->launch->clears);
	free(op->launch);
	op->launch = NULL;
}
