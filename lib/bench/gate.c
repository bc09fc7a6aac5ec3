/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate: streams that wait while work is put on them.
 *
 * It is a copy on a stream of its own, whose end the others wait for. A host function that blocks would do the same on
 * some devices and is forbidden on others; a copy always ends by itself, so that nothing can hang.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/ops.h>

#include "bench/private.h"

enum { TRIES = 12 };
static const uint64_t gate_first = (uint64_t)256 << 10, gate_largest = (uint64_t)64 << 20;

static void free_memory(struct sgpu_bench *bench)
{
	struct sgpu_bench_gate *gate = &bench->state->gate;

	sgpu_host_free(bench->device, &gate->host_memory, gate->capacity);
	sgpu_device_free(bench->device, &gate->device_memory, gate->capacity);
	gate->capacity = 0;
}

void sgpu_bench_gate_clear(struct sgpu_bench *bench)
{
	if (bench->device) {
		sgpu_stream_free(&bench->state->gate.stream);
		free_memory(bench);
	}
	free(bench->state->gate.passed);
	memset(&bench->state->gate, 0, sizeof(bench->state->gate));
}

static int reserve_tasks(struct sgpu_bench_gate *gate, int count, struct sgpu_error *error)
{
	struct sgpu_task *grown = gate->passed;

	if (count > gate->passed_count) {
		grown = realloc(gate->passed, (size_t)count * sizeof(*grown));
		if (!grown) {
			return sgpu_fail_nomem(error);
		}
		gate->passed = grown;
		gate->passed_count = count;
	}
	memset(grown, 0, (size_t)count * sizeof(*grown));
	return SGPU_OK;
}

static int prepare_gate(struct sgpu_bench *bench, int count, struct sgpu_error *error)
{
	struct sgpu_bench_gate *gate = &bench->state->gate;
	int rc = reserve_tasks(gate, count, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	if (!gate->stream) {
		rc = sgpu_stream_create(bench->device, &gate->stream, error);
		gate->size = gate_first;
	}
	if (rc == SGPU_OK && gate->capacity < gate->size) {
		free_memory(bench);
		gate->capacity = gate->size;
		rc = sgpu_host_alloc(bench->device, gate->size, &gate->host_memory, error);
		if (rc == SGPU_OK) {
			memset(gate->host_memory, 0, gate->size);
			rc = sgpu_device_alloc(bench->device, gate->size, &gate->device_memory, error);
		}
	}
	return rc;
}

/* Puts the gate before everything that comes on the streams now. */
static int close_gate(struct sgpu_bench *bench, struct sgpu_stream *const *streams, int count,
		      struct sgpu_event **event, struct sgpu_error *error)
{
	struct sgpu_bench_gate *gate = &bench->state->gate;
	int rc = prepare_gate(bench, count, error);

	if (rc == SGPU_OK) {
		rc = sgpu_event_create(bench->device, event, error);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_copy_in(gate->stream, gate->device_memory, gate->host_memory, gate->size, NULL);
	if (rc == SGPU_OK) {
		rc = sgpu_event_record(gate->stream, *event);
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_stream_wait(streams[i], *event);
		if (rc == SGPU_OK) {
			/* Nothing is cleared. A device may only know when a task of a stream ends: then this end is
			 * where the first one behind the gate begins. */
			rc = sgpu_device_clear(streams[i], gate->device_memory, 0, &gate->passed[i]);
		}
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot hold a stream back: %s", sgpu_strerror(rc));
}

static int wait_for(struct sgpu_stream *const *streams, int count, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; i < count; i++) {
		struct sgpu_error other;
		int code = sgpu_stream_sync(streams[i], rc == SGPU_OK ? error : &other);

		rc = rc == SGPU_OK ? code : rc;
	}
	return rc;
}

static int enqueue_once(struct sgpu_bench *bench, struct sgpu_stream *const *streams, int count,
			int (*enqueue)(void *argument, struct sgpu_error *error), void *argument, bool *held,
			struct sgpu_error *error)
{
	struct sgpu_event *event = NULL;
	struct sgpu_error other;
	bool ended = true;
	int rc = close_gate(bench, streams, count, &event, error), waited;

	if (rc == SGPU_OK) {
		rc = enqueue(argument, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_event_query(event, &ended, error);
	}
	*held = !ended;
	/* Whatever was enqueued uses the caller's memory: it ends before this returns. */
	waited = wait_for(streams, count, rc == SGPU_OK ? error : &other);
	rc = rc == SGPU_OK ? waited : rc;
	if (bench->state->gate.stream) {
		waited = sgpu_stream_sync(bench->state->gate.stream, rc == SGPU_OK ? error : &other);
		rc = rc == SGPU_OK ? waited : rc;
	}
	sgpu_event_free(&event);
	return rc;
}

int sgpu_bench_enqueue(struct sgpu_bench *bench, struct sgpu_stream *const *streams, int count,
		       int (*enqueue)(void *argument, struct sgpu_error *error), void *argument,
		       struct sgpu_error *error)
{
	struct sgpu_bench_gate *gate = &bench->state->gate;
	bool held = false;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && !held && i < TRIES; i++) {
		rc = enqueue_once(bench, streams, count, enqueue, argument, &held, error);
		if (!held && gate->size < gate_largest) {
			gate->size *= 2;
		}
	}
	return rc;
}

uint64_t sgpu_bench_span(const struct sgpu_task *tasks, int count)
{
	uint64_t begin = UINT64_MAX, end = 0;

	for (int i = 0; i < count; i++) {
		begin = tasks[i].begin_ns < begin ? tasks[i].begin_ns : begin;
		end = tasks[i].end_ns > end ? tasks[i].end_ns : end;
	}
	return end > begin ? end - begin : 0;
}

int sgpu_bench_tasks(const struct sgpu_task *tasks, int count, struct sgpu_error *error)
{
	for (int i = 0; i < count; i++) {
		if (tasks[i].code != SGPU_OK) {
			return sgpu_fail(error, tasks[i].code, "%s", tasks[i].error.text[0] ? tasks[i].error.text :
					 sgpu_strerror(tasks[i].code));
		}
		if (tasks[i].mistimed) {
			sgpu_fail(error, SGPU_EUNAVAILABLE, "the device's timer told a time that cannot be");
			return sgpu_hint(error, "see sgpu-bench run --timer");
		}
	}
	return SGPU_OK;
}

static int launch_on_cpu(struct sgpu_launch *launch, void *argument)
{
	struct sgpu_op_call *call = argument;
	int rc = call->op->cpu(call, launch->pool, launch->error);

	launch->status[1] = (int64_t)call->actual;
	return rc;
}

static int launch_on_device(struct sgpu_launch *launch, void *argument)
{
	struct sgpu_op_call *call = argument;

	return sgpu_device_op(launch->device, call->op->name)(call, launch);
}

int sgpu_bench_launch(struct sgpu_bench *bench, struct sgpu_stream *stream, struct sgpu_op_call *call,
		      struct sgpu_task *task, struct sgpu_error *error)
{
	bool own = sgpu_device_op(bench->device, call->op->name) != NULL;
	int rc;

	if (!own && bench->info.opens_on_device) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "device '%s' has no operation '%s'", bench->info.selector,
				 call->op->name);
	}
	rc = sgpu_device_launch(stream, own ? launch_on_device : launch_on_cpu, call, task);
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot launch '%s': %s", call->op->name, sgpu_strerror(rc));
}
