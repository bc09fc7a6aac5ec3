/* SPDX-License-Identifier: Apache-2.0
 *
 * One operation onto its stream: its buffers, the events that it waits for, its launch, and the event that others
 * wait for.
 */
#include <stdlib.h>

#include "run/plan.h"
#include "run/run.h"

static int run_unless_stopped(const struct sgpu_run *run, struct sgpu_run_launch *l, struct sgpu_launch *launch)
{
	const struct sgpu_operation *op = &run->manifest->operations[l->operation];
	int rc = atomic_load(&run->stop);

	if (rc != SGPU_OK) {
		return sgpu_fail(launch->error, rc, "the run was stopped");
	}
	for (int i = 0; i < op->before_count; i++) {
		if (atomic_load(&run->operations[op->before[i]].bad)) {
			return sgpu_fail(launch->error, SGPU_EDEPENDENCY, "an operation before it failed");
		}
	}
	if (l->on_device) {
		return l->on_device(&l->call, launch);
	}
	rc = l->call.op->cpu(&l->call, launch->pool, launch->error);
	launch->status[1] = (int64_t)l->call.actual;
	return rc;
}

/* On the stream's thread. What an earlier operation got wrong is known by then even if the driver has not yet
 * heard of it; one that was not run for that reason has written nothing either, so it counts as failed, too. */
static int run_kernel(struct sgpu_launch *launch, void *argument)
{
	struct sgpu_run_launch *l = argument;
	struct sgpu_run *run = l->run;
	int rc = run_unless_stopped(run, l, launch);

	if (rc != SGPU_OK) {
		atomic_store(&run->operations[l->operation].bad, true);
	}
	return rc;
}

static void kernel_ran(void *argument)
{
	sgpu_run_post(argument);
}

/* Where the call's data lie. */
static int place(struct sgpu_run *run, int operation, struct sgpu_op_call *call, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &run->manifest->operations[operation];
	int scratch = run->plan->scratch_buffer[operation];
	sgpu_devptr memory = 0;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < op->arg_count; i++) {
		int segment = op->args[i].segment, at = op->module ? i : sgpu_op_arg(call->op, op->args[i].name);
		bool arrives = !op->args[i].output && sgpu_plan_reads_input(&run->manifest->segments[segment]);
		int buffer = arrives ? run->plan->in_buffer[segment] : run->plan->out_buffer[segment];

		if (at < 0 || buffer < 0) {
			return sgpu_fail(error, SGPU_EINVALID, "operation '%s' has no memory for '%s'", op->id,
					 op->args[i].name);
		}
		rc = sgpu_run_memory(run, buffer, &memory, error);
		call->data[at] = (void *)(uintptr_t)memory;
	}
	if (rc == SGPU_OK && scratch >= 0) {
		rc = sgpu_run_memory(run, scratch, &memory, error);
		call->scratch = (void *)(uintptr_t)memory;
	}
	return rc;
}

static bool followed_elsewhere(const struct sgpu_run *run, int operation)
{
	for (int i = run->after_start[operation]; i < run->after_start[operation + 1]; i++) {
		if (run->plan->stream[run->after[i]] != run->plan->stream[operation]) {
			return true;
		}
	}
	return false;
}

/* Waits on the device for those predecessors on other streams whose end the host has not seen yet. */
static int wait_for_others(struct sgpu_run *run, int operation, struct sgpu_stream *stream, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &run->manifest->operations[operation];

	for (int i = 0; i < op->before_count; i++) {
		const struct sgpu_run_operation *other = &run->operations[op->before[i]];
		bool same = run->plan->stream[op->before[i]] == run->plan->stream[operation];

		if (same || other->state != SGPU_OP_ENQUEUED || !other->event) {
			continue;
		}
		if (sgpu_stream_wait(stream, other->event) != SGPU_OK) {
			return sgpu_fail(error, SGPU_EDEVICE, "the device cannot wait for an event");
		}
	}
	return SGPU_OK;
}

int sgpu_launch_ranges(const struct sgpu_run_launch *l, struct sgpu_device_range ranges[SGPU_RUN_RANGES_MAX])
{
	const struct sgpu_run *run = l->run;
	int scratch = run->plan->scratch_buffer[l->operation], count = 0;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		uint64_t size = 0;

		if (l->call.data[i] && sgpu_type_bytes(&l->call.type[i], &size)) {
			ranges[count++] = (struct sgpu_device_range){ (sgpu_devptr)(uintptr_t)l->call.data[i], size };
		}
	}
	if (scratch >= 0) {
		ranges[count++] = (struct sgpu_device_range){ (sgpu_devptr)(uintptr_t)l->call.scratch,
							      run->plan->buffers[scratch].size };
	}
	return count;
}

static int start_kernel(struct sgpu_run_launch *l, struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_device_range ranges[SGPU_RUN_RANGES_MAX];
	int count = sgpu_launch_ranges(l, ranges);
	int rc = sgpu_device_launch_on(stream, run_kernel, l, ranges, count, &l->task);

	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "the device refused the launch: %s",
					      l->task.error.text[0] ? l->task.error.text : sgpu_strerror(rc));
}

/* The callback goes before the event, so that the driver hears of an operation before it hears of those that
 * waited for it. */
static int launch(struct sgpu_run *run, struct sgpu_run_launch *l, struct sgpu_stream *stream,
		  struct sgpu_error *error)
{
	struct sgpu_run_operation *op = &run->operations[l->operation];
	int rc = run->manifest->operations[l->operation].module ? sgpu_module_start(run, l, stream, error) :
								  start_kernel(l, stream, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	op->launch = l;
	if (sgpu_stream_callback(stream, kernel_ran, &op->ran) != SGPU_OK) {
		if (sgpu_stream_sync(stream, NULL) != SGPU_OK && l->task.code == SGPU_OK) {
			l->task.code = SGPU_EDEVICE;
		}
		kernel_ran(&op->ran);
	}
	if (op->event && sgpu_event_record(stream, op->event) != SGPU_OK) {
		sgpu_event_free(&op->event); /* then the host waits, once, in place of the streams */
		if (sgpu_stream_sync(stream, NULL) != SGPU_OK) {
			atomic_store(&op->bad, true);
		}
	}
	return SGPU_OK;
}

int sgpu_execute(struct sgpu_run *run, int operation, struct sgpu_error *error)
{
	struct sgpu_run_launch *l = calloc(1, sizeof(*l));
	struct sgpu_stream *stream = NULL;
	int rc;

	if (!l) {
		return sgpu_fail_nomem(error);
	}
	l->run = run;
	l->operation = operation;
	l->on_device = sgpu_device_op(run->device, run->manifest->operations[operation].kernel);
	rc = sgpu_ops_prepare(run->manifest, operation, &l->call, error);
	if (rc == SGPU_OK) {
		rc = place(run, operation, &l->call, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_run_stream(run, run->plan->stream[operation], &stream, error);
	}
	if (rc == SGPU_OK && followed_elsewhere(run, operation)) {
		rc = sgpu_event_create(run->device, &run->operations[operation].event, error);
	}
	if (rc == SGPU_OK) {
		rc = wait_for_others(run, operation, stream, error);
	}
	if (rc == SGPU_OK) {
		rc = launch(run, l, stream, error);
	}
	if (rc != SGPU_OK) {
		free(l->clears);
		free(l);
	}
	return rc;
}
