/* SPDX-License-Identifier: Apache-2.0
 *
 * As many threads as there were ever reservations at once, and a queue that is empty as long as everybody keeps to theirs.
 */
#include "run/threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct sgpu_threads {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct sgpu_blocking *head, *tail;
	pthread_t *threads;
	int count, capacity, reserved;
	bool end;
};

static void *work_thread(void *argument)
{
	struct sgpu_threads *threads = argument;
	struct sgpu_blocking *task;

	pthread_mutex_lock(&threads->mutex);
	for (;;) {
		while (!threads->head && !threads->end) {
			pthread_cond_wait(&threads->filled, &threads->mutex);
		}
		task = threads->head;
		if (!task) {
			break;
		}
		threads->head = task->next;
		pthread_mutex_unlock(&threads->mutex);
		task->work(task);
		pthread_mutex_lock(&threads->mutex);
	}
	pthread_mutex_unlock(&threads->mutex);
	return NULL;
}

/* The mutex is held. */
static int add_thread(struct sgpu_threads *threads, struct sgpu_error *error)
{
	sigset_t all, old;

	if (threads->count == threads->capacity) {
		int capacity = threads->capacity ? 2 * threads->capacity : 4;
		pthread_t *more = realloc(threads->threads, (size_t)capacity * sizeof(*more));

		if (!more) {
			return sgpu_fail_nomem(error);
		}
		threads->threads = more;
		threads->capacity = capacity;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = pthread_create(&threads->threads[threads->count], NULL, work_thread, threads);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (errno != 0) {
		return sgpu_fail_errno(error, "cannot start a thread");
	}
	threads->count++;
	return SGPU_OK;
}

int sgpu_threads_create(struct sgpu_threads **threads, struct sgpu_error *error)
{
	*threads = calloc(1, sizeof(**threads));
	if (!*threads) {
		return sgpu_fail_nomem(error);
	}
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

int sgpu_threads_reserve(struct sgpu_threads *threads, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	pthread_mutex_lock(&threads->mutex);
	if (threads->reserved == threads->count) {
		rc = add_thread(threads, error);
	}
	threads->reserved += rc == SGPU_OK;
	pthread_mutex_unlock(&threads->mutex);
	return rc;
}

void sgpu_threads_release(struct sgpu_threads *threads)
{
	pthread_mutex_lock(&threads->mutex);
	threads->reserved--;
	pthread_mutex_unlock(&threads->mutex);
}

void sgpu_threads_give(struct sgpu_threads *threads, struct sgpu_blocking *task)
{
	task->next = NULL;
	pthread_mutex_lock(&threads->mutex);
	if (threads->head) {
		threads->tail->next = task;
	} else {
		threads->head = task;
	}
	threads->tail = task;
	pthread_cond_signal(&threads->filled);
	pthread_mutex_unlock(&threads->mutex);
}
