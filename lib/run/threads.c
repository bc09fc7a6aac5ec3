/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of runs, and streams that no run uses. A thread is made when no other is idle, and kept.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "run/runner.h"

struct sgpu_threads {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct sgpu_thread_task *head, *tail;
	pthread_t *threads;
	uint64_t spin_ns;
	_Atomic uint32_t calls; /* tasks given so far, and the end */
	int count, capacity;
	int busy;	     /* threads that have a task, and tasks in the queue */
	int queued, looking; /* tasks in the queue, and threads that spin for one */
	bool end;
};

/* Waits until there may be a task. The mutex is held before and after. */
static void wait_for_task(struct sgpu_threads *threads)
{
	const uint32_t seen = atomic_load(&threads->calls);
	bool called;

	threads->looking++;
	pthread_mutex_unlock(&threads->mutex);
	called = sgpu_spin(&threads->calls, seen, threads->spin_ns);
	pthread_mutex_lock(&threads->mutex);
	threads->looking--;
	while (!called && !threads->head && !threads->end) {
		pthread_cond_wait(&threads->filled, &threads->mutex);
	}
}

static void *work_thread(void *argument)
{
	struct sgpu_threads *threads = argument;
	struct sgpu_thread_task *task;

	(void)prctl(PR_SET_TIMERSLACK, 1000UL); /* it waits for devices in short steps */
	pthread_mutex_lock(&threads->mutex);
	for (;;) {
		while (!threads->head && !threads->end) {
			wait_for_task(threads);
		}
		task = threads->head;
		if (!task) {
			break;
		}
		threads->head = task->next;
		threads->queued--;
		pthread_mutex_unlock(&threads->mutex);
		task->work(task->argument);
		pthread_mutex_lock(&threads->mutex);
		threads->busy--;
	}
	pthread_mutex_unlock(&threads->mutex);
	return NULL;
}

/* The mutex is held. */
static int add_thread(struct sgpu_threads *threads, struct sgpu_error *error)
{
	int rc;

	if (threads->count == threads->capacity) {
		int capacity = threads->capacity ? 2 * threads->capacity : 4;
		pthread_t *more = realloc(threads->threads, (size_t)capacity * sizeof(*more));

		if (!more) {
			return sgpu_fail_nomem(error);
		}
		threads->threads = more;
		threads->capacity = capacity;
	}
	rc = sgpu_thread_start(&threads->threads[threads->count], work_thread, threads, error);
	threads->count += rc == SGPU_OK;
	return rc;
}

int sgpu_threads_create(uint64_t spin_ns, struct sgpu_threads **threads, struct sgpu_error *error)
{
	*threads = calloc(1, sizeof(**threads));
	if (!*threads) {
		return sgpu_fail_nomem(error);
	}
	(*threads)->spin_ns = spin_ns;
	pthread_mutex_init(&(*threads)->mutex, NULL);
	pthread_cond_init(&(*threads)->filled, NULL);
	return SGPU_OK;
}

void sgpu_threads_free(struct sgpu_threads **threads)
{
	struct sgpu_threads *t = *threads;

	if (!t) {
		return;
	}
	pthread_mutex_lock(&t->mutex);
	t->end = true;
	atomic_fetch_add(&t->calls, 1);
	pthread_cond_broadcast(&t->filled);
	pthread_mutex_unlock(&t->mutex);
	for (int i = 0; i < t->count; i++) {
		pthread_join(t->threads[i], NULL);
	}
	pthread_cond_destroy(&t->filled);
	pthread_mutex_destroy(&t->mutex);
	free(t->threads);
	free(t);
	*threads = NULL;
}

int sgpu_threads_give(struct sgpu_threads *threads, struct sgpu_thread_task *task,
		      struct sgpu_error *error)
{
	int rc = SGPU_OK;

	task->next = NULL;
	pthread_mutex_lock(&threads->mutex);
	if (threads->busy == threads->count) {
		rc = add_thread(threads, error);
	}
	if (rc == SGPU_OK) {
		*(threads->head ? &threads->tail->next : &threads->head) = task;
		threads->tail = task;
		threads->busy++;
		threads->queued++;
		atomic_fetch_add(&threads->calls, 1);
		if (threads->queued > threads->looking) {
			pthread_cond_signal(&threads->filled);
		}
	}
	pthread_mutex_unlock(&threads->mutex);
	return rc;
}

/* ---- streams ---- */
enum { IDLE_STREAMS_MAX = 4 * SGPU_PLAN_STREAMS_MAX };

struct sgpu_run_streams {
	struct sgpu_device *device;
	pthread_mutex_t mutex;
	int count;
	struct sgpu_stream *streams[IDLE_STREAMS_MAX];
};

int sgpu_streams_create(struct sgpu_device *device, struct sgpu_run_streams **streams,
			struct sgpu_error *error)
{
	*streams = calloc(1, sizeof(**streams));
	if (!*streams) {
		return sgpu_fail_nomem(error);
	}
	(*streams)->device = device;
	pthread_mutex_init(&(*streams)->mutex, NULL);
	return SGPU_OK;
}

void sgpu_streams_free(struct sgpu_run_streams **streams)
{
	struct sgpu_run_streams *s = *streams;

	if (!s) {
		return;
	}
	for (int i = 0; i < s->count; i++) {
		sgpu_stream_free(&s->streams[i]);
	}
	pthread_mutex_destroy(&s->mutex);
	free(s);
	*streams = NULL;
}

int sgpu_streams_take(struct sgpu_run_streams *streams, struct sgpu_stream **stream,
		      struct sgpu_error *error)
{
	*stream = NULL;
	pthread_mutex_lock(&streams->mutex);
	if (streams->count > 0) {
		*stream = streams->streams[--streams->count];
	}
	pthread_mutex_unlock(&streams->mutex);
	return *stream ? SGPU_OK : sgpu_stream_create(streams->device, stream, error);
}

void sgpu_streams_give(struct sgpu_run_streams *streams, struct sgpu_stream **stream, bool idle)
{
	if (!*stream) {
		return;
	}
	if (!idle && sgpu_stream_sync(*stream, NULL) != SGPU_OK) {
		sgpu_stream_free(stream);
		return;
	}
	pthread_mutex_lock(&streams->mutex);
	if (streams->count < IDLE_STREAMS_MAX) {
		streams->streams[streams->count++] = *stream;
		*stream = NULL;
	}
	pthread_mutex_unlock(&streams->mutex);
	sgpu_stream_free(stream);
}
