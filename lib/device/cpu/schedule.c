/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of the CPU device: who runs which stream when. One lock guards all of it; it is never held while an
 * item computes.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <device/cpu/cpu.h>
#include <device/cpu/schedule.h>

/* How long an idle thread looks for work before it sleeps. */
#define SPIN_NS 15000

void sgpu_cpu_make_ready(struct sgpu_stream *stream)
{
	struct sgpu_device *device = stream->device;

	stream->state = SGPU_CPU_READY;
	stream->next = NULL;
	if (device->ready) {
		device->ready_tail->next = stream;
	} else {
		device->ready = stream;
	}
	device->ready_tail = stream;
	atomic_fetch_add_explicit(&device->ready_count, 1, memory_order_relaxed);
}

static struct sgpu_stream *take_ready(struct sgpu_device *device)
{
	struct sgpu_stream *stream = device->ready;

	if (stream) {
		device->ready = stream->next;
		stream->next = NULL;
		atomic_fetch_sub_explicit(&device->ready_count, 1, memory_order_relaxed);
	}
	return stream;
}

static void *stream_thread(void *argument);

static int start_thread(struct sgpu_device *device)
{
	sigset_t all, old;
	int failure;

	sigfillset(&all);
	sigdelset(&all, SIGSYS); /* a module's, caught where it happens: blocked, it would kill without a word */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	failure = pthread_create(&device->threads[device->thread_count], NULL, stream_thread, device);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (failure == 0) {
		device->thread_count++;
		device->starting = true;
	}
	return failure;
}

void sgpu_cpu_wake(struct sgpu_device *device)
{
	unsigned ready = atomic_load_explicit(&device->ready_count, memory_order_relaxed);

	if (ready == 0 || (ready == 1 && device->spinning)) {
		return;
	}
	if (device->idle > 0) {
		pthread_cond_signal(&device->work);
	} else if (!device->starting && !device->stopping && device->thread_count < device->thread_max) {
		/* One at a time: short work is done before a second could help. When it cannot be had, those that
		 * are there must do. */
		(void)start_thread(device);
	}
}

/* Sets an item aside. */
static void release_item(struct sgpu_device *device, struct sgpu_cpu_item *item)
{
	if (item->event) {
		sgpu_cpu_event_unref(item->event);
	}
	if (device->spare_count >= SGPU_CPU_SPARE) {
		free(item);
		return;
	}
	item->next = device->spare;
	device->spare = item;
	device->spare_count++;
}

static void complete_event(struct sgpu_event *event)
{
	struct sgpu_stream *stream;

	atomic_store(&event->done, true);
	while ((stream = event->waiting)) {
		event->waiting = stream->next;
		sgpu_cpu_make_ready(stream);
	}
	if (event->syncing > 0) {
		pthread_cond_broadcast(&event->progress);
	}
}

static void end_item(struct sgpu_stream *stream, struct sgpu_cpu_item *item)
{
	stream->head = item->next;
	if (!stream->head) {
		stream->tail = NULL;
	}
	release_item(stream->device, item);
	atomic_fetch_add(&stream->ended, 1);
	if (stream->syncing > 0) {
		pthread_cond_broadcast(&stream->progress);
	}
}

/* Runs a stream until it is empty or waits. */
static void run_stream(struct sgpu_device *device, struct sgpu_stream *stream)
{
	struct sgpu_cpu_item *item;

	stream->state = SGPU_CPU_RUNNING;
	while ((item = stream->head)) {
		if (item->kind == SGPU_CPU_WAIT && !atomic_load(&item->event->done)) {
			stream->state = SGPU_CPU_WAITING;
			stream->next = item->event->waiting;
			item->event->waiting = stream;
			return;
		}
		if (item->kind == SGPU_CPU_RECORD) {
			complete_event(item->event);
		} else if (item->kind != SGPU_CPU_WAIT) {
			/* Others are woken only now: a stream that just became ready is taken up by this thread
			 * itself when its own has ended, which costs no switch. */
			sgpu_cpu_wake(device);
			pthread_mutex_unlock(&device->lock);
			sgpu_cpu_perform(device, item);
			pthread_mutex_lock(&device->lock);
		}
		end_item(stream, item);
	}
	stream->state = SGPU_CPU_IDLE;
	if (--device->busy == 0 && device->quieting > 0) {
		pthread_cond_broadcast(&device->quiet);
	}
	if (stream->syncing > 0) {
		pthread_cond_broadcast(&stream->progress);
	}
}

void sgpu_cpu_quiet(struct sgpu_device *device)
{
	pthread_mutex_lock(&device->lock);
	device->quieting++;
	while (device->busy > 0) {
		pthread_cond_wait(&device->quiet, &device->lock);
	}
	device->quieting--;
	pthread_mutex_unlock(&device->lock);
}

static void idle(struct sgpu_device *device)
{
	uint64_t limit;

	if (device->may_spin && !device->spinning) {
		device->spinning = true;
		pthread_mutex_unlock(&device->lock);
		limit = sgpu_now_ns() + SPIN_NS;
		while (atomic_load_explicit(&device->ready_count, memory_order_relaxed) == 0 &&
		       sgpu_now_ns() < limit) {
			SGPU_CPU_PAUSE();
		}
		pthread_mutex_lock(&device->lock);
		device->spinning = false;
	}
	if (!device->ready && !device->stopping) {
		device->idle++;
		pthread_cond_wait(&device->work, &device->lock);
		device->idle--;
	}
}

static void *stream_thread(void *argument)
{
	struct sgpu_device *device = argument;
	struct sgpu_stream *stream;

	pthread_mutex_lock(&device->lock);
	device->starting = false;
	for (;;) {
		stream = take_ready(device);
		if (stream) {
			run_stream(device, stream);
		} else if (device->stopping) {
			break;
		} else {
			idle(device);
		}
	}
	pthread_mutex_unlock(&device->lock);
	return NULL;
}

int sgpu_cpu_threads_start(struct sgpu_device *device, struct sgpu_error *error)
{
	int failure;

	device->thread_max = SGPU_CPU_THREADS;
	pthread_mutex_lock(&device->lock);
	failure = start_thread(device);
	pthread_mutex_unlock(&device->lock);
	if (failure != 0) {
		return sgpu_fail(error, failure == EAGAIN ? SGPU_ENOMEM : SGPU_ESYSTEM, "cannot start a thread: %s",
				 strerror(failure));
	}
	return SGPU_OK;
}

void sgpu_cpu_threads_stop(struct sgpu_device *device)
{
	struct sgpu_cpu_item *item;
	unsigned i, count;

	pthread_mutex_lock(&device->lock);
	device->stopping = true;
	count = device->thread_count;
	pthread_cond_broadcast(&device->work);
	pthread_mutex_unlock(&device->lock);
	for (i = 0; i < count; i++) {
		pthread_join(device->threads[i], NULL);
	}
	while ((item = device->spare)) {
		device->spare = item->next;
		free(item);
	}
}
