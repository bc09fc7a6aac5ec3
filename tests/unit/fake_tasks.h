/* SPDX-License-Identifier: Apache-2.0
 *
 * Outcomes as late as a device may tell of them: the caller's task and digest are filled in only
 * when somebody hears from the very stream that the work is on: by a callback, an event of that
 * stream that is waited for, or a synchronisation. An event that another stream waits for tells
 * nobody.
 */
#ifndef FAKE_TASKS_H
#define FAKE_TASKS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

enum { FAKE_EVENTS_MAX = 1024 };

struct fake_task {
	struct sgpu_task real;
	struct sgpu_task *task; /* the caller's */
	uint8_t digest[SGPU_KT128_SIZE];
	uint8_t *digest_to; /* the caller's memory for it, or NULL */
	const struct sgpu_stream *stream;
	uint64_t serial;
	struct fake_task *next;
};

static struct {
	pthread_mutex_t order; /* of serials and of what is enqueued with them */
	pthread_mutex_t lock;
	uint64_t serial;
	struct fake_task *list;
	struct {
		const struct sgpu_event *event;
		const struct sgpu_stream *stream;
		uint64_t serial;
	} events[FAKE_EVENTS_MAX];
} fake_tasks = { .order = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };

/* Held while something gets its serial and is enqueued. */
static inline void fake_order(bool hold)
{
	if (hold) {
		pthread_mutex_lock(&fake_tasks.order);
	} else {
		pthread_mutex_unlock(&fake_tasks.order);
	}
}

static inline uint64_t fake_serial(void)
{
	uint64_t serial;

	pthread_mutex_lock(&fake_tasks.lock);
	serial = ++fake_tasks.serial;
	pthread_mutex_unlock(&fake_tasks.lock);
	return serial;
}

/* A task to give to the device in place of the caller's. */
static inline struct sgpu_task *fake_task_new(const struct sgpu_stream *stream,
					      struct sgpu_task *task)
{
	struct fake_task *new = calloc(1, sizeof(*new));

	if (!new) {
		abort();
	}
	new->task = task;
	new->stream = stream;
	pthread_mutex_lock(&fake_tasks.lock);
	new->serial = ++fake_tasks.serial;
	new->next = fake_tasks.list;
	fake_tasks.list = new;
	pthread_mutex_unlock(&fake_tasks.lock);
	return &new->real;
}

/* Fills in all of a stream up to a serial, those that were enqueued first as the first. */
static inline void fake_tasks_tell(const struct sgpu_stream *stream, uint64_t serial)
{
	struct fake_task **link, *told = NULL, *task;

	pthread_mutex_lock(&fake_tasks.lock);
	for (link = &fake_tasks.list; (task = *link);) {
		if (task->stream == stream && task->serial <= serial) {
			*link = task->next;
			task->next = told;
			told = task;
		} else {
			link = &task->next;
		}
	}
	while ((task = told)) {
		told = task->next;
		if (task->digest_to) {
			memcpy(task->digest_to, task->digest, sizeof(task->digest));
		}
		if (task->task) {
			*task->task = task->real;
		}
		free(task);
	}
	pthread_mutex_unlock(&fake_tasks.lock);
}

static inline void fake_event_note(const struct sgpu_event *event, const struct sgpu_stream *stream)
{
	uint64_t serial = fake_serial();
	bool noted = false;

	pthread_mutex_lock(&fake_tasks.lock);
	for (int i = 0; i < FAKE_EVENTS_MAX && !noted; i++) {
		if (!fake_tasks.events[i].event) {
			fake_tasks.events[i].event = event;
			fake_tasks.events[i].stream = stream;
			fake_tasks.events[i].serial = serial;
			noted = true;
		}
	}
	pthread_mutex_unlock(&fake_tasks.lock);
	if (!noted) {
		abort();
	}
}

/* The host has waited for an event (`tell`), or frees it. */
static inline void fake_event_seen(const struct sgpu_event *event, bool tell)
{
	const struct sgpu_stream *stream = NULL;
	uint64_t serial = 0;

	pthread_mutex_lock(&fake_tasks.lock);
	for (int i = 0; i < FAKE_EVENTS_MAX; i++) {
		if (fake_tasks.events[i].event == event) {
			stream = fake_tasks.events[i].stream;
			serial = fake_tasks.events[i].serial;
			fake_tasks.events[i].event = tell ? event : NULL;
		}
	}
	pthread_mutex_unlock(&fake_tasks.lock);
	if (tell && stream) {
		fake_tasks_tell(stream, serial);
	}
}

#endif
