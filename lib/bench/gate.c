/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate, which keeps streams waiting while work is enqueued.
 *
 * The gate is a copy on a stream of its own, and the other streams wait for its end. A host
 * function that blocks would do the same on some devices and is forbidden on others; a copy always
 * ends by itself, so nothing can hang.
 */
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "bench/bench.h"

enum { TRIES = 12 };
static const uint64_t gate_first = (uint64_t)256 << 10, gate_largest = (uint64_t)64 << 20;

static void end_gate(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	(void)what, (void)size;
	bench->gate.capacity = 0;
}

/* Makes a gate of gate->size bytes. Things end in reverse order, so end_gate(), kept first, runs
 * after the gate's parts are freed. */
static int make_gate(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct sgpu_bench_gate *gate = &bench->gate;
	int rc = sgpu_bench_keep(bench, end_gate, 0, 0, error);

	if (rc == SGPU_OK && gate->capacity == 0) {
		rc = sgpu_bench_new_stream(bench, bench->device, &gate->stream, error);
	}
	rc = rc ? rc : sgpu_bench_new_pinned(bench, gate->size, &gate->host_memory, error);
	rc = rc ? rc : sgpu_bench_new_device_memory(bench, gate->size, &gate->device_memory, error);
	if (rc == SGPU_OK) {
		memset(gate->host_memory, 0, gate->size);
		gate->capacity = gate->size;
	}
	return rc;
}

/* Later work of the streams waits for the gate. passed: a task for each stream. */
static int close_gate(struct sgpu_bench *bench, struct sgpu_stream *const *streams, int count,
		      struct sgpu_task *passed, struct sgpu_event *event, struct sgpu_error *error)
{
	struct sgpu_bench_gate *gate = &bench->gate;
	int rc = sgpu_copy_in(gate->stream, gate->device_memory, gate->host_memory, gate->size,
			      NULL);

	rc = rc ? rc : sgpu_event_record(gate->stream, event);
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		passed[i] = (struct sgpu_task){ 0 };
		rc = sgpu_stream_wait(streams[i], event);
		/* Clears 0 bytes. A device that only knows when tasks end takes this one's end as
		 * the start of the first task after the gate. */
		rc = rc ? rc : sgpu_device_clear(streams[i], gate->device_memory, 0, &passed[i]);
	}
	return rc == SGPU_OK
		       ? rc
		       : sgpu_fail(error, rc, "cannot hold a stream back: %s", sgpu_strerror(rc));
}

/* Returns rc if that is an error, else the wait's result. */
static int wait_for(struct sgpu_stream *stream, int rc, struct sgpu_error *error)
{
	const int waited = sgpu_stream_sync(stream, rc == SGPU_OK ? error : NULL);

	return rc == SGPU_OK ? waited : rc;
}

static int enqueue_once(struct sgpu_bench *bench, struct sgpu_stream *const *streams, int count,
			struct sgpu_task *passed,
			int (*enqueue)(void *argument, struct sgpu_error *error), void *argument,
			bool *held, struct sgpu_error *error)
{
	struct sgpu_event *event = NULL;
	bool ended = true;
	int rc = bench->gate.capacity < bench->gate.size ? make_gate(bench, error) : SGPU_OK;

	rc = rc ? rc : sgpu_event_create(bench->device, &event, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = close_gate(bench, streams, count, passed, event, error);
	rc = rc ? rc : enqueue(argument, error);
	rc = rc ? rc : sgpu_event_query(event, &ended, error);
	*held = !ended;
	/* Enqueued work uses the caller's memory, so it ends before this returns. */
	for (int i = 0; i < count; i++) {
		rc = wait_for(streams[i], rc, error);
	}
	rc = wait_for(bench->gate.stream, rc, error);
	sgpu_event_free(&event);
	return rc;
}

int sgpu_bench_enqueue(struct sgpu_bench *bench, struct sgpu_stream *const *streams, int count,
		       int (*enqueue)(void *argument, struct sgpu_error *error), void *argument,
		       struct sgpu_task *tasks, int task_count, struct sgpu_error *error)
{
	struct sgpu_bench_gate *gate = &bench->gate;
	struct sgpu_task *passed = calloc((size_t)count, sizeof(*passed));
	int rc = passed ? SGPU_OK : sgpu_fail_nomem(error);
	uint64_t begin = UINT64_MAX, end = 0;
	bool held = false;

	gate->size = gate->size ? gate->size : gate_first;
	for (int i = 0; rc == SGPU_OK && !held && i < TRIES; i++) {
		memset(tasks, 0, (size_t)task_count * sizeof(*tasks));
		rc = enqueue_once(bench, streams, count, passed, enqueue, argument, &held, error);
		if (!held && gate->size < gate_largest) {
			gate->size *= 2;
		}
	}
	free(passed);
	if (rc == SGPU_OK && !held) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the device does not wait until its work is enqueued");
	}
	rc = rc ? rc : sgpu_bench_tasks(tasks, task_count, error);
	for (int i = 0; i < task_count; i++) {
		begin = tasks[i].begin_ns < begin ? tasks[i].begin_ns : begin;
		end = tasks[i].end_ns > end ? tasks[i].end_ns : end;
	}
	bench->ns = end > begin ? end - begin : 0;
	return rc || end > begin ? rc
				 : sgpu_fail(error, SGPU_EUNAVAILABLE,
					     "the device's timer gave the work no time");
}

int sgpu_bench_tasks(const struct sgpu_task *tasks, int count, struct sgpu_error *error)
{
	for (int i = 0; i < count; i++) {
		if (tasks[i].code != SGPU_OK) {
			return sgpu_fail(error, tasks[i].code, "%s",
					 tasks[i].error.text[0] ? tasks[i].error.text
								: sgpu_strerror(tasks[i].code));
		}
		if (tasks[i].mistimed) {
			sgpu_fail(error, SGPU_EUNAVAILABLE,
				  "the device's timer told a time that cannot be");
			return sgpu_hint(error, "see sgpu-bench run --timer");
		}
	}
	return SGPU_OK;
}

static int run_operation(struct sgpu_launch *launch, void *argument)
{
	struct sgpu_op_call *call = argument;

	return sgpu_op_run(call, sgpu_device_op(launch->device, call->op->name), launch);
}

int sgpu_bench_launch(struct sgpu_bench *bench, struct sgpu_stream *stream,
		      struct sgpu_op_call *call, struct sgpu_task *task, struct sgpu_error *error)
{
	int rc;

	if (bench->info.opens_on_device && !sgpu_device_op(bench->device, call->op->name)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "device '%s' has no operation '%s'",
				 bench->info.selector, call->op->name);
	}
	rc = sgpu_device_launch_on(stream, run_operation, call, NULL, 0, task);
	return rc == SGPU_OK ? rc
			     : sgpu_fail(error, rc, "cannot launch '%s': %s", call->op->name,
					 sgpu_strerror(rc));
}
