/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate, which keeps streams waiting while work is enqueued.
 *
 * The gate is copies on a stream of its own, and the other streams wait for their end. A host
 * function that blocks would do the same on some devices and is forbidden on others; a copy always
 * ends by itself, so nothing can hang.
 */
#include <string.h>

#include "ops/ops.h"
#include "bench/bench.h"

enum { TRIES = 12, COPIES_MAX = 64 };

/* Later work of the streams waits for the gate. passed: a task for each stream. */
static int close_gate(struct sgpu_bench *bench, struct sgpu_stream *const *streams, int count,
		      struct sgpu_task *passed, struct sgpu_event *event, struct sgpu_error *error)
{
	sgpu_devptr to = bench->gate.to;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < bench->gate.copies; i++) {
		rc = sgpu_copy_in(bench->gate.stream, to, bench->gate.from, SGPU_BENCH_GATE, NULL);
	}
	rc = rc ? rc : sgpu_event_record(bench->gate.stream, event);
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_stream_wait(streams[i], event);
		/* Clears 0 bytes. A device that only knows when tasks end takes this one's end as
		 * the start of the first task after the gate. */
		rc = rc ? rc : sgpu_device_clear(streams[i], to, 0, &passed[i]);
	}
	return rc == SGPU_OK
		       ? rc
		       : sgpu_fail(error, rc, "cannot hold a stream back: %s", sgpu_strerror(rc));
}

static int enqueue_once(struct sgpu_bench *bench, struct sgpu_stream *const *streams, int count,
			int (*enqueue)(void *argument, struct sgpu_error *error), void *argument,
			bool *held, struct sgpu_error *error)
{
	struct sgpu_task passed[SGPU_BENCH_STREAMS_MAX] = { { 0 } };
	struct sgpu_event *event = NULL;
	bool ended = true;
	int waited, rc = sgpu_event_create(bench->device, &event, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	rc = close_gate(bench, streams, count, passed, event, error);
	rc = rc ? rc : enqueue(argument, error);
	rc = rc ? rc : sgpu_event_query(event, &ended, error);
	*held = !ended;
	/* Enqueued work uses the caller's memory, so it ends before this returns. */
	waited = sgpu_device_synchronize(bench->device, rc == SGPU_OK ? error : NULL);
	sgpu_event_free(&event);
	return rc ? rc : waited;
}

int sgpu_bench_enqueue(struct sgpu_bench *bench, struct sgpu_stream *const *streams, int count,
		       int (*enqueue)(void *argument, struct sgpu_error *error), void *argument,
		       struct sgpu_task *tasks, int task_count, struct sgpu_error *error)
{
	int rc = SGPU_OK, *copies = &bench->gate.copies;
	uint64_t begin = UINT64_MAX, end = 0;
	bool held = false;

	for (int i = 0; rc == SGPU_OK && !held && i < TRIES; i++) {
		memset(tasks, 0, (size_t)task_count * sizeof(*tasks));
		rc = enqueue_once(bench, streams, count, enqueue, argument, &held, error);
		*copies *= held || *copies == COPIES_MAX ? 1 : 2;
	}
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
