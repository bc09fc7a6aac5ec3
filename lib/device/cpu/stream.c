/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events of the CPU device. One lock of the device guards all queues and events; it is
 * never held while an item runs.
 *
 * A stream's thread starts with the first work that is not brief. A freed stream keeps its thread,
 * which ends when the device is closed.
 */
#include <stdlib.h>

#include "base/base.h"
#include <device/cpu/cpu.h>

enum { QUEUE_MIN = 64 }; /* items */

/* Copies up to this many bytes cost less than waiting for a token. */
#define INLINE_BYTES ((uint64_t)64 << 10)

/* ---- the queue; the lock is held ---- */
static bool grow_queue(struct sgpu_stream *stream)
{
	uint64_t capacity = stream->capacity ? stream->capacity * 2 : QUEUE_MIN, i;
	struct sgpu_cpu_item *items = malloc(capacity * sizeof(*items));

	if (!items) {
		return false;
	}
	for (i = stream->ended; i < stream->enqueued; i++) {
		items[i % capacity] = stream->items[i % stream->capacity];
	}
	free(stream->items);
	stream->items = items;
	stream->capacity = capacity;
	return true;
}

static int append(struct sgpu_stream *stream, const struct sgpu_cpu_item *item)
{
	if (stream->enqueued - stream->ended == stream->capacity && !grow_queue(stream)) {
		return SGPU_ENOMEM;
	}
	stream->items[stream->enqueued++ % stream->capacity] = *item;
	return SGPU_OK;
}

/* Signals after unlocking, since the woken thread takes the lock. That is safe: a stream stays
 * until the device is closed. */
static void unlock_and_wake(struct sgpu_stream *stream)
{
	pthread_mutex_unlock(&stream->device->lock);
	pthread_cond_signal(&stream->work);
}

/* ---- the thread ---- */
/* Work that computes, or moves more than INLINE_BYTES, holds a token of the pool, so that --jobs
 * bounds the processors in use, whatever the number of streams. */
static void perform(struct sgpu_device *device, const struct sgpu_cpu_item *item)
{
	struct sgpu_task ignored, *task = item->work.task ? item->work.task : &ignored;
	bool token = !item->moves || item->work.size > INLINE_BYTES;

	task->error.text[0] = task->error.hint[0] = '\0';
	if (token) {
		sgpu_pool_enter(device->pool);
	}
	task->begin_ns = sgpu_now_ns();
	task->code = item->perform(device, item, task);
	task->end_ns = sgpu_now_ns();
	if (token) {
		sgpu_pool_leave(device->pool);
	}
	task->error.code = task->code;
	if (task->code != SGPU_OK && task->error.text[0] == '\0') {
		sgpu_fail(&task->error, task->code, "%s", sgpu_strerror(task->code));
	}
}

/* The lock of the event's device is held. */
static void drop_event(struct sgpu_event *event)
{
	if (--event->references == 0) {
		pthread_cond_destroy(&event->completed);
		free(event);
	}
}

/* The event may be another device's. */
static void pass_event(const struct sgpu_cpu_item *item)
{
	struct sgpu_event *event = item->event;
	struct sgpu_device *device = event->device;

	pthread_mutex_lock(&device->lock);
	while (item->waits && !event->done) {
		pthread_cond_wait(&event->completed, &device->lock);
	}
	event->done = true;
	pthread_cond_broadcast(&event->completed);
	drop_event(event);
	pthread_mutex_unlock(&device->lock);
}

static void do_item(struct sgpu_device *device, const struct sgpu_cpu_item *item)
{
	if (item->event) {
		pass_event(item);
	} else if (item->perform) {
		perform(device, item);
	}
}

static void *run_stream(void *argument)
{
	struct sgpu_stream *stream = argument;
	struct sgpu_device *device = stream->device;
	struct sgpu_cpu_item item;

	pthread_mutex_lock(&device->lock);
	do {
		while (stream->enqueued == stream->ended || stream->lent) {
			pthread_cond_wait(&stream->work, &device->lock);
		}
		item = stream->items[stream->ended % stream->capacity];
		pthread_mutex_unlock(&device->lock);
		do_item(device, &item);
		pthread_mutex_lock(&device->lock);
		stream->ended++;
		pthread_cond_broadcast(&stream->progress);
	} while (item.perform || item.event);
	pthread_mutex_unlock(&device->lock);
	return NULL;
}

/* Waits for the items enqueued so far. The lock is held. */
static void wait_for_stream(struct sgpu_stream *stream)
{
	uint64_t target = stream->enqueued;

	while (stream->ended < target) {
		pthread_cond_wait(&stream->progress, &stream->device->lock);
	}
}

/* The lock is held. */
static void perform_here(struct sgpu_stream *stream, const struct sgpu_cpu_item *item)
{
	struct sgpu_device *device = stream->device;

	stream->lent = true;
	stream->enqueued++;
	pthread_mutex_unlock(&device->lock);
	do_item(device, item);
	pthread_mutex_lock(&device->lock);
	stream->lent = false;
	stream->ended++;
	pthread_cond_broadcast(&stream->progress);
}

/* Whether the thread that enqueues an item runs it: a brief item, first in its queue, or any if no
 * thread can be started. The lock is held. */
static bool runs_here(struct sgpu_stream *stream, const struct sgpu_cpu_item *item)
{
	if (item->brief && stream->enqueued == stream->ended) {
		return true;
	}
	stream->started = stream->started ||
			  sgpu_thread_start(&stream->thread, run_stream, stream, NULL) == SGPU_OK;
	while (!stream->started && stream->enqueued != stream->ended) {
		pthread_cond_wait(&stream->progress, &stream->device->lock);
	}
	return !stream->started;
}

/* The lock is held. */
static int put(struct sgpu_stream *stream, const struct sgpu_cpu_item *item)
{
	if (!runs_here(stream, item)) {
		return append(stream, item);
	}
	perform_here(stream, item);
	return SGPU_OK;
}

int sgpu_cpu_enqueue(struct sgpu_stream *stream, const struct sgpu_cpu_item *item)
{
	int rc;

	pthread_mutex_lock(&stream->device->lock);
	rc = put(stream, item);
	if (stream->enqueued != stream->ended) {
		unlock_and_wake(stream);
	} else {
		pthread_mutex_unlock(&stream->device->lock);
	}
	if (rc < 0 && item->work.task) {
		item->work.task->code = sgpu_fail_nomem(&item->work.task->error);
	}
	return rc;
}

/* ---- streams ---- */
static void destroy_stream(struct sgpu_stream *stream)
{
	pthread_cond_destroy(&stream->work);
	pthread_cond_destroy(&stream->progress);
	free(stream->items);
	free(stream);
}

/* The lock is held. */
static int make_stream(struct sgpu_device *device, struct sgpu_stream **stream,
		       struct sgpu_error *error)
{
	struct sgpu_stream *new;

	if (device->stream_count == SGPU_CPU_STREAMS) {
		return sgpu_fail(error, SGPU_ENOMEM,
				 "the CPU device has %d streams in use, and has no more",
				 SGPU_CPU_STREAMS);
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->device = device;
	pthread_cond_init(&new->work, NULL);
	pthread_cond_init(&new->progress, NULL);
	if (!grow_queue(new)) {
		destroy_stream(new);
		return sgpu_fail_nomem(error);
	}
	new->next = device->streams;
	device->streams = new;
	device->stream_count++;
	*stream = new;
	return SGPU_OK;
}

static int stream_create(struct sgpu_device *device, struct sgpu_stream **stream,
			 struct sgpu_error *error)
{
	int rc = SGPU_OK;

	pthread_mutex_lock(&device->lock);
	if (device->spare) {
		*stream = device->spare;
		device->spare = (*stream)->next_spare;
	} else {
		rc = make_stream(device, stream, error);
	}
	if (rc == SGPU_OK) {
		(*stream)->object.backend = device->object.backend;
	}
	pthread_mutex_unlock(&device->lock);
	return rc;
}

static int stream_sync(struct sgpu_stream *stream, struct sgpu_error *error)
{
	(void)error;
	pthread_mutex_lock(&stream->device->lock);
	wait_for_stream(stream);
	pthread_mutex_unlock(&stream->device->lock);
	return SGPU_OK;
}

static void stream_free(struct sgpu_stream *stream)
{
	struct sgpu_device *device = stream->device;

	pthread_mutex_lock(&device->lock);
	wait_for_stream(stream);
	stream->next_spare = device->spare;
	device->spare = stream;
	pthread_mutex_unlock(&device->lock);
}

void sgpu_cpu_wait_idle(struct sgpu_device *device)
{
	struct sgpu_stream *stream;

	pthread_mutex_lock(&device->lock);
	for (stream = device->streams; stream; stream = stream->next) {
		wait_for_stream(stream);
	}
	pthread_mutex_unlock(&device->lock);
}

void sgpu_cpu_streams_close(struct sgpu_device *device)
{
	const struct sgpu_cpu_item end = { .perform = NULL };
	struct sgpu_stream *stream;

	sgpu_cpu_wait_idle(device);
	for (stream = device->streams; stream; stream = stream->next) {
		if (stream->started) {
			(void)!sgpu_cpu_enqueue(stream, &end); /* the queue is empty and has room */
		}
	}
	while ((stream = device->streams)) {
		device->streams = stream->next;
		if (stream->started) {
			pthread_join(stream->thread, NULL);
		}
		destroy_stream(stream);
	}
}

/* ---- launches ---- */
static int perform_launch(struct sgpu_device *device, const struct sgpu_cpu_item *item,
			  struct sgpu_task *task)
{
	int64_t status[2] = { 0, 0 };
	struct sgpu_launch context = {
		.device = device, .pool = device->pool, .error = &task->error, .status = status
	};
	int rc;

	if (sgpu_pool_cancelled(device->pool)) {
		return SGPU_ECANCELED;
	}
	rc = item->launch(&context, item->argument);
	task->actual = (uint64_t)status[1];
	return rc != SGPU_OK ? rc : (int)status[0];
}

static int stream_launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
			 const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	struct sgpu_cpu_item item = { .perform = perform_launch,
				      .launch = function,
				      .argument = argument,
				      .work.task = task };
	const int rc = sgpu_device_check(stream->device, ranges, count, task);
	uint64_t bytes = 0;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		bytes += sgpu_min_u64(ranges[i].size, SGPU_CPU_BRIEF + 1);
	}
	item.brief = bytes > 0 && bytes <= SGPU_CPU_BRIEF;

	return rc == SGPU_OK ? sgpu_cpu_enqueue(stream, &item) : rc;
}

/* ---- events ---- */
static int event_create(struct sgpu_device *device, struct sgpu_event **event,
			struct sgpu_error *error)
{
	struct sgpu_event *new = calloc(1, sizeof(*new));

	if (!new) {
		return sgpu_fail_nomem(error);
	}
	pthread_cond_init(&new->completed, NULL);
	new->object.backend = device->object.backend;
	new->device = device;
	new->references = 1;
	*event = new;
	return SGPU_OK;
}

static void event_free(struct sgpu_event *event)
{
	struct sgpu_device *device = event->device;

	pthread_mutex_lock(&device->lock);
	drop_event(event);
	pthread_mutex_unlock(&device->lock);
}

static int event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	const struct sgpu_cpu_item item = { .event = event };
	int rc = SGPU_EUSAGE;

	pthread_mutex_lock(&stream->device->lock);
	if (!event->recorded && stream->enqueued == stream->ended) {
		/* no work precedes the event, so no thread need wake */
		event->done = event->recorded = true;
		pthread_mutex_unlock(&stream->device->lock);
		return SGPU_OK;
	}
	if (!event->recorded) {
		event->recorded = true;
		event->references++;
		rc = put(stream, &item);
		event->recorded = rc == SGPU_OK;
		event->references -= rc != SGPU_OK;
	}
	unlock_and_wake(stream);
	return rc;
}

static int stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	const struct sgpu_cpu_item item = { .event = event, .waits = true };
	bool waits;
	int rc;

	pthread_mutex_lock(&event->device->lock);
	rc = event->recorded ? SGPU_OK : SGPU_EUSAGE;
	waits = event->recorded &&
		!event->done; /* an event that has completed holds nothing back */
	event->references += waits;
	pthread_mutex_unlock(&event->device->lock);
	if (waits) {
		rc = sgpu_cpu_enqueue(stream, &item);
		if (rc < 0) {
			event_free(event);
		}
	}
	return rc;
}

static int event_query(struct sgpu_event *event, bool *done, struct sgpu_error *error)
{
	int rc;

	pthread_mutex_lock(&event->device->lock);
	rc = event->recorded ? SGPU_OK
			     : sgpu_fail(error, SGPU_EUSAGE, "the event was not recorded");
	*done = event->done;
	pthread_mutex_unlock(&event->device->lock);
	return rc;
}

const struct sgpu_device_stream_calls sgpu_cpu_stream_calls = {
	.create = stream_create,
	.free = stream_free,
	.sync = stream_sync,
	.wait = stream_wait,
	.enqueue = sgpu_cpu_enqueue_work,
	.launch = stream_launch,
	.event_create = event_create,
	.event_free = event_free,
	.event_record = event_record,
	.event_query = event_query,
};
