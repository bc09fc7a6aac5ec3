/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events of the CPU device, seen from the host: creating, enqueueing, waiting.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cpu/cpu.h>
#include <device/cpu/schedule.h>

/* How long a waiting host thread looks before it sleeps: about what going to sleep and waking up would cost. */
#define SPIN_NS 15000

int sgpu_cpu_stream_create(struct sgpu_device *device, struct sgpu_stream **stream, struct sgpu_error *error)
{
	struct sgpu_stream *new = calloc(1, sizeof(*new));

	if (!new || pthread_cond_init(&new->progress, NULL) != 0) {
		free(new);
		return sgpu_fail_nomem(error);
	}
	new->object.backend = device->object.backend;
	new->device = device;
	new->state = SGPU_CPU_IDLE;
	*stream = new;
	return SGPU_OK;
}

static bool reached(const struct sgpu_device *device, const atomic_uint_fast64_t *value, uint64_t target)
{
	uint64_t limit = sgpu_now_ns() + SPIN_NS;

	while (atomic_load(value) < target) {
		if (!device->may_spin || sgpu_now_ns() >= limit) {
			return false;
		}
		SGPU_CPU_PAUSE();
	}
	return true;
}

int sgpu_cpu_stream_sync(struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_device *device = stream->device;
	uint64_t target;

	(void)error;
	pthread_mutex_lock(&device->lock);
	target = stream->enqueued;
	pthread_mutex_unlock(&device->lock);
	if (reached(device, &stream->ended, target)) {
		return SGPU_OK;
	}
	pthread_mutex_lock(&device->lock);
	stream->syncing++;
	while (atomic_load(&stream->ended) < target) {
		pthread_cond_wait(&stream->progress, &device->lock);
	}
	stream->syncing--;
	pthread_mutex_unlock(&device->lock);
	return SGPU_OK;
}

void sgpu_cpu_stream_free(struct sgpu_stream *stream)
{
	struct sgpu_device *device = stream->device;

	pthread_mutex_lock(&device->lock);
	stream->syncing++;
	while (stream->state != SGPU_CPU_IDLE) {
		pthread_cond_wait(&stream->progress, &device->lock);
	}
	pthread_mutex_unlock(&device->lock);
	pthread_cond_destroy(&stream->progress);
	free(stream);
}

int sgpu_cpu_event_create(struct sgpu_device *device, struct sgpu_event **event, struct sgpu_error *error)
{
	struct sgpu_event *new = calloc(1, sizeof(*new));

	if (!new || pthread_cond_init(&new->progress, NULL) != 0) {
		free(new);
		return sgpu_fail_nomem(error);
	}
	new->object.backend = device->object.backend;
	new->device = device;
	new->references = 1;
	*event = new;
	return SGPU_OK;
}

void sgpu_cpu_event_unref(struct sgpu_event *event)
{
	if (--event->references == 0) {
		pthread_cond_destroy(&event->progress);
		free(event);
	}
}

void sgpu_cpu_event_free(struct sgpu_event *event)
{
	struct sgpu_device *device = event->device;

	pthread_mutex_lock(&device->lock);
	sgpu_cpu_event_unref(event);
	pthread_mutex_unlock(&device->lock);
}

int sgpu_cpu_event_sync(struct sgpu_event *event, struct sgpu_error *error)
{
	struct sgpu_device *device = event->device;
	uint64_t limit = sgpu_now_ns() + SPIN_NS;
	int code = SGPU_OK;

	while (device->may_spin && !atomic_load(&event->done) && sgpu_now_ns() < limit) {
		SGPU_CPU_PAUSE();
	}
	pthread_mutex_lock(&device->lock);
	if (!event->recorded) {
		code = sgpu_fail(error, SGPU_EUSAGE, "an event was waited for that was not recorded");
	}
	event->syncing++;
	while (code == SGPU_OK && !atomic_load(&event->done)) {
		pthread_cond_wait(&event->progress, &device->lock);
	}
	event->syncing--;
	pthread_mutex_unlock(&device->lock);
	return code;
}

int sgpu_cpu_event_query(struct sgpu_event *event, bool *done, struct sgpu_error *error)
{
	bool recorded;

	pthread_mutex_lock(&event->device->lock);
	recorded = event->recorded;
	pthread_mutex_unlock(&event->device->lock);
	*done = atomic_load(&event->done);
	return recorded ? SGPU_OK : sgpu_fail(error, SGPU_EUSAGE, "an event was asked for that was not recorded");
}

/* A fresh item, from those kept if there is one; the lock is held. */
static struct sgpu_cpu_item *take_item(struct sgpu_device *device)
{
	struct sgpu_cpu_item *item = device->spare;

	if (item) {
		device->spare = item->next;
		device->spare_count--;
		return item;
	}
	return malloc(sizeof(*item));
}

/* The lock is held. */
static int append(struct sgpu_stream *stream, const struct sgpu_cpu_item *what)
{
	struct sgpu_cpu_item *item = take_item(stream->device);

	if (!item) {
		return SGPU_ENOMEM;
	}
	*item = *what;
	item->next = NULL;
	if (item->event) {
		item->event->references++;
	}
	if (stream->tail) {
		stream->tail->next = item;
	} else {
		stream->head = item;
	}
	stream->tail = item;
	stream->enqueued++;
	if (stream->state == SGPU_CPU_IDLE) {
		stream->device->busy++;
		sgpu_cpu_make_ready(stream);
		sgpu_cpu_wake(stream->device);
	}
	return SGPU_OK;
}

int sgpu_cpu_enqueue(struct sgpu_stream *stream, const struct sgpu_cpu_item *item)
{
	int code;

	pthread_mutex_lock(&stream->device->lock);
	code = append(stream, item);
	pthread_mutex_unlock(&stream->device->lock);
	if (code < 0 && item->task) {
		item->task->code = sgpu_fail_nomem(&item->task->error);
	}
	return code;
}

int sgpu_cpu_event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_RECORD, .event = event };
	int code = SGPU_EUSAGE;

	pthread_mutex_lock(&stream->device->lock);
	if (!event->recorded) {
		code = append(stream, &item);
		event->recorded = code == SGPU_OK;
	}
	pthread_mutex_unlock(&stream->device->lock);
	return code;
}

int sgpu_cpu_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	struct sgpu_cpu_item item = { .kind = SGPU_CPU_WAIT, .event = event };
	int code = SGPU_EUSAGE;

	pthread_mutex_lock(&stream->device->lock);
	if (event->recorded) {
		/* One that has completed holds nothing back. */
		code = atomic_load(&event->done) ? SGPU_OK : append(stream, &item);
	}
	pthread_mutex_unlock(&stream->device->lock);
	return code;
}
