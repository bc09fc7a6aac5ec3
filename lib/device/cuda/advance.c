/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of work: what the device left in its words becomes the task's outcome, in order, by
 * whoever learns first that the device has passed it.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/kernels.h>
#include <device/cuda/gpu.h>

/* A code that a kernel may have left: anything that is none of ours is the kernel's fault. */
int sgpu_cuda_code_from(int64_t word)
{
	return word <= 0 && word >= SGPU_ESEGMENTS ? (int)word : SGPU_EDEVICE;
}

/* All must be done and nothing bad: what no kernel has looked at is not right. What failed leaves
 * nothing of its output, and nobody hears of it before. */
static int end_chunks(struct sgpu_device *device, struct sgpu_cuda_record *record,
		      struct sgpu_task *task)
{
	const volatile struct sgpu_cuda_verdict *verdict =
		(const volatile struct sgpu_cuda_verdict *)(uintptr_t)record->status->host;
	uint64_t bad = verdict->bad, done = verdict->done;

	sgpu_cuda_key_was_used(record->key);
	if (bad == UINT64_MAX && done == record->expected && verdict->refused == 0) {
		return SGPU_OK;
	}
	sgpu_cuda_clear_now(device, record->out, record->out_size);
	if (verdict->refused != 0) {
		return sgpu_fail(&task->error, SGPU_EAUTH,
				 "the key did not come to the device as it was sent");
	}
	if (bad != UINT64_MAX) {
		task->bad_chunk = bad;
		return sgpu_fail(&task->error, SGPU_EAUTH,
				 "sealed data do not verify at chunk %llu",
				 (unsigned long long)bad);
	}
	return sgpu_fail(&task->error, SGPU_EDEVICE, "the device %s %llu chunks of %llu",
			 record->kind == SGPU_CUDA_OPEN ? "opened" : "sealed",
			 (unsigned long long)done, (unsigned long long)record->expected);
}

static int outcome(struct sgpu_device *device, struct sgpu_cuda_record *record,
		   struct sgpu_task *task)
{
	int code = record->code;

	if (code == SGPU_OK) {
		code = sgpu_cuda_faulted(device, &task->error);
	}
	if (record->graph) {
		int ended = sgpu_cuda_graph_end(record->graph, task);

		return code == SGPU_OK ? ended : code;
	}
	if (code == SGPU_OK && record->measure) {
		sgpu_cuda_measure_finish(record->measure);
	}
	if (code != SGPU_OK || !record->status) {
		return code;
	}
	switch (record->kind) {
	case SGPU_CUDA_LAUNCH:
		task->actual = (uint64_t)record->status->host[1];
		return sgpu_cuda_code_from(record->status->host[0]);
	case SGPU_CUDA_OPEN:
	case SGPU_CUDA_SEAL:
		return end_chunks(device, record, task);
	default:
		if (record->digest) {
			memcpy(record->digest, (const void *)(uintptr_t)record->status->host,
			       SGPU_DIGEST_SIZE);
		}
		return SGPU_OK;
	}
}

/* Ends one record; nobody else has it. Not inlined: what is below calls itself, and so needs little
 * of the stack. */
static __attribute__((noinline)) void end(struct sgpu_stream *stream,
					  struct sgpu_cuda_record *record)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_task ignored = { 0 }, *task = record->task ? record->task : &ignored;
	uint64_t begin, ended;

	if (record->kind == SGPU_CUDA_CALL) {
		record->call(record->argument);
		atomic_fetch_sub(&device->calls, 1);
		sgpu_cuda_event_give(device, false, record->event);
		return;
	}
	begin = stream->end_ns > record->enqueue_ns ? stream->end_ns : record->enqueue_ns;
	if (task->untimed) {
		ended = begin;
	} else if (record->base && atomic_load(&device->faulted) == 0) {
		task->mistimed = !sgpu_cuda_time_of(device, record, begin, &ended);
	} else {
		ended = sgpu_now_ns();
	}
	stream->end_ns = task->untimed ? stream->end_ns : ended;
	task->begin_ns = begin;
	task->end_ns = ended;
	task->code = outcome(device, record, task);
	task->error.code = task->code;
	if (task->code != SGPU_OK && task->error.text[0] == '\0') {
		sgpu_fail(&task->error, task->code, "%s", sgpu_strerror(task->code));
	}
	sgpu_cuda_measure_free(device, &record->measure);
	if (record->status) {
		sgpu_cuda_status_give(device, record->status);
	}
	sgpu_cuda_unmark(device, record);
}

/* Everything before the one that is taken has ended, even what came to no record. The queue's lock
 * is held. */
static struct sgpu_cuda_record *take(struct sgpu_stream *stream, uint64_t serial)
{
	struct sgpu_cuda_record *record = stream->head;

	if (!record || record->serial > serial) {
		return NULL;
	}
	stream->head = record->next;
	if (!stream->head) {
		stream->tail = NULL;
	}
	stream->done = record->serial - 1;
	return record;
}

/* Threads that advance streams which waited for one another do not wait for one another in a
 * circle: a thread waits for what was enqueued before the record that it is at, and hears of every
 * record's end. For the same reason it goes into no stream a second time, so that it calls itself
 * once a stream at most. */
void sgpu_cuda_advance(struct sgpu_stream *stream, uint64_t serial)
{
	struct sgpu_cuda_record *record;

	pthread_mutex_lock(&stream->queue);
	while (stream->advancing && stream->done < serial) {
		pthread_cond_wait(&stream->progress, &stream->queue);
	}
	if (stream->done >= serial) {
		pthread_mutex_unlock(&stream->queue);
		return;
	}
	stream->advancing = true;
	while ((record = take(stream, serial))) {
		pthread_mutex_unlock(&stream->queue);
		if (record->kind == SGPU_CUDA_WAIT) {
			/* The device has passed what was waited for, on another stream: that ends
			 * first. */
			sgpu_cuda_advance(record->other, record->other_serial);
			sgpu_cuda_stream_drop(record->other);
		} else {
			end(stream, record);
		}
		pthread_mutex_lock(&stream->queue);
		if (record->kind == SGPU_CUDA_CALL) {
			atomic_fetch_sub(&stream->calls, 1);
		}
		stream->done = record->serial;
		pthread_cond_broadcast(&stream->progress);
		record->next = stream->spare;
		stream->spare = record;
	}
	if (serial <= stream->serial && stream->done < serial) {
		stream->done = serial; /* the last of them came to no record */
	}
	stream->advancing = false;
	pthread_cond_broadcast(&stream->progress);
	pthread_mutex_unlock(&stream->queue);
}
