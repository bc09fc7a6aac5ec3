/* SPDX-License-Identifier: Apache-2.0
 *
 * Callbacks, and the completer, a thread of the device. It calls the callbacks, ends pending work
 * when the device is faulted, and faults the device if work goes on after it was cancelled. As the
 * device passes a callback, it writes the callback's serial into a word of host memory, so that a
 * check needs no driver call. Where the device cannot do so, an event is queried.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/base.h"
#include <device/cuda/stream.h>
#include <device/cuda/kernels.h>

/* The completer polls without pause for about as long as a short kernel takes, then in steps that
 * grow with the time waited. */
#define SPIN_NS ((uint64_t)100000)
#define STEP_MIN_NS ((uint64_t)5000)
#define STEP_MAX_NS ((uint64_t)200000)
/* How often the waiting completer checks streams for errors and for cancelled work. */
#define PULSE_NS ((uint64_t)2000000)

/* ---- the end of work: the first thread to learn that the device has passed a record ends all
 * records up to it, in order, and makes each task's outcome from the status words ---- */
/* A value that is no enum sgpu_code counts as an error of the kernel, SGPU_EDEVICE. */
int sgpu_cuda_code_from(int64_t word)
{
	return word <= 0 && word >= SGPU_ESEGMENTS ? (int)word : SGPU_EDEVICE;
}

/* The kernels must have done all chunks and found none bad: a chunk that no kernel processed has
 * not verified. After a failure the output is cleared before the task ends. */
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
	int rc = record->code;

	if (rc == SGPU_OK) {
		rc = sgpu_cuda_faulted(device, &task->error);
	}
	if (record->graph) {
		int ended = sgpu_cuda_graph_end(record->graph, task);

		return rc == SGPU_OK ? ended : rc;
	}
	if (rc == SGPU_OK && record->measure) {
		sgpu_cuda_measure_finish(record->measure);
	}
	if (rc != SGPU_OK || !record->status) {
		return rc;
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
			       SGPU_KT128_SIZE);
		}
		return SGPU_OK;
	}
}

/* Ends a record that was taken off the queue. Not inlined, so that sgpu_cuda_advance, which is
 * recursive, needs little of the stack. */
static __attribute__((noinline)) void end(struct sgpu_stream *stream,
					  struct sgpu_cuda_record *record)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_task ignored = { 0 }, *task = record->task ? record->task : &ignored;
	uint64_t begin, ended;

	if (record->kind == SGPU_CUDA_CALL) {
		record->call(record->argument);
		atomic_fetch_sub(&device->calls, 1);
		sgpu_cuda_event_give(device, record->event);
		return;
	}
	begin = stream->end_ns > record->enqueue_ns ? stream->end_ns : record->enqueue_ns;
	if (task->untimed) {
		ended = begin;
	} else if (record->mark && atomic_load(&device->faulted) == 0) {
		task->mistimed = !sgpu_cuda_time_of(device, record->mark, begin, &ended);
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
	sgpu_cuda_status_give(device, record->status);
	sgpu_cuda_unmark(device, &record->mark);
}

/* Takes the first record off the queue, or returns NULL if its serial is above `serial`. All work
 * before the record has ended, even work without a record. The queue's lock is held. */
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

/* Threads that advance streams cannot deadlock: a thread waits only for work that was enqueued
 * before the record that it is ending, and every record's end is signalled. For the same reason the
 * recursion enters no stream twice, so it is at most as deep as there are streams. */
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
			/* The device has passed an event of another stream, so end that stream's
			 * records first. */
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
		stream->done = serial; /* the work with the last serials has no record */
	}
	stream->advancing = false;
	pthread_cond_broadcast(&stream->progress);
	pthread_mutex_unlock(&stream->queue);
}

/* ---- callbacks ---- */
int sgpu_cuda_callback(struct sgpu_stream *stream, void (*function)(void *argument), void *argument)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_record record = { .kind = SGPU_CUDA_CALL,
					   .call = function,
					   .argument = argument };
	int rc = sgpu_cuda_begin(stream, NULL);
	CUresult result;

	if (rc < 0) {
		return rc;
	}
	if (device->memory_operations) {
		/* serial + 1 will be this record's: only this thread appends, as it holds `order`.
		 */
		result = sgpu_cu.cuStreamWriteValue32(stream->native, stream->passed->device,
						      (cuuint32_t)(stream->serial + 1),
						      CU_STREAM_WRITE_VALUE_DEFAULT);
	} else {
		result = sgpu_cuda_event_after(device, stream->native, &record.event);
	}
	atomic_fetch_add(&device->calls, 1);
	rc = sgpu_cuda_commit(stream, &record, result, "cannot enqueue a callback");
	if (rc < 0) {
		atomic_fetch_sub(&device->calls, 1);
		return rc;
	}
	sgpu_cuda_completer_wake(device);
	return SGPU_OK;
}

/* Returns the serial of a callback that the device has passed and that was not called, or 0. */
static uint64_t passed(struct sgpu_stream *stream)
{
	struct sgpu_cuda_record *record;
	uint64_t serial = 0;
	uint32_t ahead;

	if (atomic_load(&stream->calls) == 0) {
		return 0;
	}
	pthread_mutex_lock(&stream->queue);
	if (!stream->advancing) {
		if (stream->device->memory_operations) {
			ahead = (uint32_t)stream->passed->host[0] - (uint32_t)stream->done;
			serial = ahead != 0 && ahead <= stream->serial - stream->done
					 ? stream->done + ahead
					 : 0;
		} else {
			for (record = stream->head; record && record->kind != SGPU_CUDA_CALL;
			     record = record->next) {
			}
			serial = record && sgpu_cu.cuEventQuery(record->event) == CUDA_SUCCESS
					 ? record->serial
					 : 0;
		}
	}
	pthread_mutex_unlock(&stream->queue);
	/* Data that the device wrote before the word must be read after it. */
	atomic_thread_fence(memory_order_acquire);
	return serial;
}

/* Calls act() with each stream for which look() returns a serial, not 0, and with that serial; or
 * with all streams, if look is NULL. The device's lock is held, but not during act(). Returns
 * whether act() was called. */
static bool visit(struct sgpu_device *device, uint64_t (*look)(struct sgpu_stream *),
		  void (*act)(struct sgpu_stream *, uint64_t))
{
	struct sgpu_stream *stream = NULL;
	uint64_t found = UINT64_MAX;
	bool any = false;

	pthread_mutex_unlock(&device->lock);
	while ((stream = sgpu_cuda_next_stream(device, stream, look, &found))) {
		act(stream, found);
		any = true;
	}
	pthread_mutex_lock(&device->lock);
	return any;
}

/* ---- faults and kernels that do not end ---- */
/* Whether work enqueued before the cancellation, at `before`, is pending. If the stream is `busy`,
 * a record without an event counts as pending, except callbacks, waits and refused work. */
static bool pending_since(struct sgpu_stream *stream, bool busy, uint64_t before)
{
	struct sgpu_cuda_record *record;
	bool pending;

	pthread_mutex_lock(&stream->queue);
	for (record = stream->head;
	     record && (!busy || record->kind == SGPU_CUDA_CALL || record->kind == SGPU_CUDA_WAIT ||
			(record->code != SGPU_OK && !record->status));
	     record = record->next) {
	}
	/* A thread that had not yet seen the cancellation may have enqueued work a little later. */
	pending = record && record->enqueue_ns < before + SGPU_CUDA_GRACE_NS / 5;
	pthread_mutex_unlock(&stream->queue);
	return pending;
}

static void feel_pulse(struct sgpu_stream *stream, uint64_t unused)
{
	struct sgpu_device *device = stream->device;
	uint64_t cancelled = atomic_load(&device->cancel_ns);
	uint64_t serial = sgpu_cuda_last_serial(stream);
	CUresult result;

	(void)unused;
	result = sgpu_cu.cuStreamQuery(stream->native);
	if (result != CUDA_ERROR_NOT_READY) {
		sgpu_cuda_note(device, result);
	}
	if (result == CUDA_SUCCESS) {
		/* so that ended work does not count as pending */
		sgpu_cuda_advance(stream, serial);
	}
	if (cancelled != 0 && sgpu_now_ns() > cancelled + SGPU_CUDA_GRACE_NS &&
	    pending_since(stream, result == CUDA_ERROR_NOT_READY, cancelled)) {
		sgpu_cuda_fault(device, SGPU_ECANCELED, "work went on long after it was cancelled");
	}
}

/* ---- the thread ---- */
struct mind {
	uint64_t idle_ns;    /* since when there was nothing to do */
	uint64_t pulse_ns;   /* when feel_pulse() last ran */
	uint64_t watched_ns; /* the last cancellation whose grace time is over */
};

void sgpu_cuda_completer_wake(struct sgpu_device *device)
{
	if (atomic_load(&device->completer_sleeps)) {
		pthread_mutex_lock(&device->lock);
		pthread_cond_signal(&device->work);
		pthread_mutex_unlock(&device->lock);
	}
}

/* Sleeps until woken, or for `ns` at most unless that is 0. Does not sleep if the device's calls or
 * cancellation differ from `calls` or `cancelled`, which the caller has read. The lock is held. */
static void sleep_for(struct sgpu_device *device, uint64_t ns, unsigned calls, uint64_t cancelled)
{
	struct timespec until;
	uint64_t end;

	atomic_store(&device->completer_sleeps, true);
	/* Whoever adds a callback, cancels or faults the device stores that before reading
	 * completer_sleeps, so no wake-up is lost. */
	if (atomic_load(&device->calls) == calls && atomic_load(&device->cancel_ns) == cancelled &&
	    atomic_load(&device->faulted) == 0 && !device->stopping) {
		if (ns == 0) {
			pthread_cond_wait(&device->work, &device->lock);
		} else {
			end = sgpu_now_ns() + ns;
			until.tv_sec = (time_t)(end / 1000000000);
			until.tv_nsec = (long)(end % 1000000000);
			pthread_cond_timedwait(&device->work, &device->lock, &until);
		}
	}
	atomic_store(&device->completer_sleeps, false);
}

static uint64_t step(uint64_t waited)
{
	waited /= 16;
	return waited < STEP_MIN_NS ? STEP_MIN_NS : waited > STEP_MAX_NS ? STEP_MAX_NS : waited;
}

static void one_round(struct sgpu_device *device, struct mind *mind)
{
	uint64_t cancelled = atomic_load(&device->cancel_ns), now;
	unsigned calls = atomic_load(&device->calls);
	bool watching = cancelled != 0 && cancelled != mind->watched_ns;

	if (calls > 0 && visit(device, passed, sgpu_cuda_advance)) {
		mind->idle_ns = sgpu_now_ns();
		return;
	}
	now = sgpu_now_ns();
	if (now - mind->pulse_ns > PULSE_NS && (calls > 0 || watching)) {
		mind->pulse_ns = now;
		visit(device, NULL, feel_pulse);
		mind->watched_ns = watching && now > cancelled + SGPU_CUDA_GRACE_NS
					   ? cancelled
					   : mind->watched_ns;
	} else if (device->may_spin && now - mind->idle_ns < SPIN_NS) {
		pthread_mutex_unlock(&device->lock);
		SGPU_CUDA_PAUSE();
		pthread_mutex_lock(&device->lock);
	} else if (calls > 0) {
		sleep_for(device, step(now - mind->idle_ns), calls, cancelled);
		mind->idle_ns = atomic_load(&device->calls) > calls ? sgpu_now_ns() : mind->idle_ns;
	} else {
		sleep_for(device, watching ? PULSE_NS * 5 : 0, calls, cancelled);
		mind->idle_ns = sgpu_now_ns();
	}
}

static void *completer(void *argument)
{
	struct sgpu_device *device = argument;
	struct mind mind = { .idle_ns = sgpu_now_ns() };

	(void)sgpu_cu.cuCtxSetCurrent(device->context);
	(void)prctl(PR_SET_TIMERSLACK, 1000UL);
	pthread_mutex_lock(&device->lock);
	while (!device->stopping) {
		if (atomic_load(&device->faulted) == 0) {
			one_round(device, &mind);
			continue;
		}
		/* From now on, whoever enqueues work also ends it. */
		visit(device, NULL, sgpu_cuda_advance);
		while (!device->stopping) {
			pthread_cond_wait(&device->work, &device->lock);
		}
	}
	pthread_mutex_unlock(&device->lock);
	return NULL;
}

int sgpu_cuda_completer_start(struct sgpu_device *device, struct sgpu_error *error)
{
	pthread_condattr_t attributes;
	int rc;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&device->work, &attributes);
	pthread_condattr_destroy(&attributes);
	rc = sgpu_thread_start(&device->completer, completer, device, error);
	device->completer_started = rc == SGPU_OK;
	return rc < 0 && errno == EAGAIN
		       ? sgpu_fail(error, SGPU_ENOMEM, "cannot start a thread: %s", strerror(errno))
		       : rc;
}

void sgpu_cuda_completer_stop(struct sgpu_device *device)
{
	if (!device->completer_started) {
		return;
	}
	pthread_mutex_lock(&device->lock);
	device->stopping = true;
	pthread_cond_signal(&device->work);
	pthread_mutex_unlock(&device->lock);
	pthread_join(device->completer, NULL);
	pthread_cond_destroy(&device->work);
}
