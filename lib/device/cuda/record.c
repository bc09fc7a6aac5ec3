/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of work: records end in order, and status words make each task's outcome.
 */
#include <device/cuda/kernels.h>
#include <device/cuda/stream.h>

/* Returns a status word's code. A value that is no enum sgpu_code is the kernel's error. */
static int code_from(int64_t word)
{
	return word <= 0 && word >= SGPU_ESEGMENTS ? (int)word : SGPU_EDEVICE;
}

const volatile struct sgpu_cuda_verdict *sgpu_cuda_verdict(const struct sgpu_cuda_record *record)
{
	return (const volatile struct sgpu_cuda_verdict *)(uintptr_t)record->status->host;
}

/* The kernels must have done all chunks and found none bad: a chunk that no kernel processed has
 * not verified. After a failure the output is cleared before the task ends. */
static int end_chunks(struct sgpu_device *device, struct sgpu_cuda_record *record,
		      struct sgpu_task *task)
{
	const volatile struct sgpu_cuda_verdict *verdict = sgpu_cuda_verdict(record);
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
		return sgpu_fail(&task->error, SGPU_EAUTH, "chunk %llu does not verify",
				 (unsigned long long)bad);
	}
	return sgpu_fail(&task->error, SGPU_EDEVICE, "the device %s %llu chunks of %llu",
			 record->opens ? "opened" : "sealed", (unsigned long long)done,
			 (unsigned long long)record->expected);
}

static int outcome(struct sgpu_device *device, struct sgpu_cuda_record *record,
		   struct sgpu_task *task)
{
	int rc = record->code;

	if (rc == SGPU_OK) {
		rc = sgpu_cuda_faulted(device, &task->error);
	}
	if (rc == SGPU_OK && record->sum) {
		sgpu_cuda_sum_finish(record->sum);
	}
	if (rc != SGPU_OK || !record->status) {
		return rc;
	}
	if (record->key) {
		return end_chunks(device, record, task);
	}
	task->actual = (uint64_t)record->status->host[1];
	return code_from(record->status->host[0]);
}

static void end(struct sgpu_stream *stream, struct sgpu_cuda_record *record)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_task ignored = { 0 }, *task = record->task ? record->task : &ignored;
	uint64_t begin = stream->end_ns > record->enqueue_ns ? stream->end_ns : record->enqueue_ns;
	uint64_t ended = begin;

	if (record->mark && atomic_load(&device->faulted) == 0) {
		task->mistimed = !sgpu_cuda_time_of(device, record->mark, begin, &ended);
	} else {
		ended = sgpu_now_ns();
	}
	stream->end_ns = ended;
	task->begin_ns = begin;
	task->end_ns = ended;
	task->code = outcome(device, record, task);
	task->error.code = task->code;
	if (task->code != SGPU_OK && task->error.text[0] == '\0') {
		sgpu_fail(&task->error, task->code, "%s", sgpu_strerror(task->code));
	}
	sgpu_cuda_sum_free(device, &record->sum);
	sgpu_cuda_status_give(device, record->status);
	sgpu_cuda_unmark(device, &record->mark);
}

void sgpu_cuda_advance(struct sgpu_stream *stream, uint64_t passed)
{
	struct sgpu_cuda_record *record;

	while ((record = stream->head) &&
	       (record->operation <= passed || atomic_load(&stream->device->faulted) != 0)) {
		stream->head = record->next;
		end(stream, record);
		record->next = stream->spare;
		stream->spare = record;
	}
	if (!stream->head) {
		stream->tail = NULL;
	}
	if (passed > atomic_load(&stream->ended)) {
		atomic_store(&stream->ended, passed);
	}
}
