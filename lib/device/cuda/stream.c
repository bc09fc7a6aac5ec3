/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events of the CUDA device: creating, enqueueing, waiting.
 */
#include <stdlib.h>
#include <string.h>

#include <base/base.h>
#include <device/cuda/kernels.h>
#include <device/cuda/stream.h>

/* How long hears_verdict polls: somewhat longer than a short run of chunks takes. */
#define VERDICT_NS ((uint64_t)100000)

/* ---- streams ---- */
static int make(struct sgpu_device *device, struct sgpu_stream **stream, struct sgpu_error *error)
{
	struct sgpu_stream *new = calloc(1, sizeof(*new));
	int rc;

	if (!new) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_cuda_check(device, sgpu_cu.cuStreamCreate(&new->native, CU_STREAM_NON_BLOCKING),
			     "cannot create a stream", error);
	if (rc < 0) {
		free(new);
		return rc;
	}
	new->object.backend = &sgpu_cuda_backend;
	new->device = device;
	pthread_mutex_init(&new->lock, NULL);
	pthread_mutex_lock(&device->lock);
	new->next = device->streams;
	device->streams = new;
	pthread_mutex_unlock(&device->lock);
	*stream = new;
	return SGPU_OK;
}

static int stream_create(struct sgpu_device *device, struct sgpu_stream **stream,
			 struct sgpu_error *error)
{
	int rc = sgpu_cuda_enter(device, error);

	if (rc < 0) {
		return rc;
	}
	pthread_mutex_lock(&device->lock);
	*stream = device->idle_streams;
	if (*stream) {
		device->idle_streams = (*stream)->next_idle;
	}
	pthread_mutex_unlock(&device->lock);
	return *stream ? SGPU_OK : make(device, stream, error);
}

/* Whether the stream's last work opens or seals and reports success of all its runs within
 * `patience`; all earlier work has then ended, too. Polling is faster than an event and needs no
 * driver call. The lock is held. */
static bool hears_verdict(const struct sgpu_stream *stream, uint64_t patience)
{
	const struct sgpu_cuda_record *record = stream->tail ? stream->latest : NULL;
	const uint64_t begin = patience > 0 ? sgpu_now_ns() : 0;
	const volatile struct sgpu_cuda_verdict *verdict;
	bool heard = false;

	if (!stream->device->sees_words || !record || record->operation != stream->enqueued) {
		return false;
	}
	while (record && record->status && record->key) {
		verdict = sgpu_cuda_verdict(record);
		if (verdict->bad != UINT64_MAX || verdict->refused != 0) {
			return false;
		} else if (verdict->done == record->expected) {
			heard = heard ||
				record->expected > 0; /* no kernel reports on an empty run */
			record = record->next;
		} else if (patience == 0 || atomic_load(&stream->device->faulted) != 0 ||
			   sgpu_now_ns() - begin > patience) {
			return false;
		} else {
			sgpu_pause();
		}
	}
	atomic_thread_fence(memory_order_acquire);
	return heard && !record;
}

/* Fails only if the device is faulted, since callers free what the stream's work uses. */
static int stream_sync(struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_device *device = stream->device;
	int rc = sgpu_cuda_faulted(device, error);
	CUresult marked = CUDA_SUCCESS;
	CUevent event = NULL;
	uint64_t last;

	pthread_mutex_lock(&stream->lock);
	last = stream->enqueued;
	if (rc == SGPU_OK && stream->ended != last && !hears_verdict(stream, VERDICT_NS)) {
		rc = sgpu_cuda_enter(device, error);
		if (rc == SGPU_OK) {
			marked = sgpu_cuda_event_after(device, stream->native, &event);
		}
		pthread_mutex_unlock(&stream->lock);
		if (rc == SGPU_OK && marked == CUDA_SUCCESS) {
			rc = sgpu_cuda_wait(device, event, error);
		} else if (rc == SGPU_OK) {
			sgpu_cuda_wait_until_idle(stream);
			rc = sgpu_cuda_faulted(device, error);
		}
		sgpu_cuda_event_give(device, event);
		pthread_mutex_lock(&stream->lock);
	}
	sgpu_cuda_advance(stream, rc == SGPU_OK ? last : 0);
	pthread_mutex_unlock(&stream->lock);
	return rc;
}

static void stream_free(struct sgpu_stream *stream)
{
	struct sgpu_device *device = stream->device;

	(void)stream_sync(stream, NULL); /* a fault ends all its work, too */
	pthread_mutex_lock(&device->lock);
	stream->next_idle = device->idle_streams;
	device->idle_streams = stream;
	pthread_mutex_unlock(&device->lock);
}

int sgpu_cuda_synchronize(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_stream *stream;
	int rc;

	pthread_mutex_lock(&device->lock);
	stream = device->streams;
	pthread_mutex_unlock(&device->lock);
	for (; stream; stream = stream->next) {
		(void)stream_sync(stream, NULL);
	}
	rc = sgpu_cuda_enter(device, error);
	return rc == SGPU_OK ? sgpu_cuda_sync_internal(device, error) : rc;
}

void sgpu_cuda_streams_close(struct sgpu_device *device)
{
	struct sgpu_cuda_record *record;
	struct sgpu_stream *stream;

	while ((stream = device->streams)) {
		device->streams = stream->next;
		if (sgpu_cuda_enter(device, NULL) == SGPU_OK) {
			sgpu_cuda_note(device, sgpu_cu.cuStreamDestroy(stream->native));
		}
		while ((record = stream->spare)) {
			stream->spare = record->next;
			free(record);
		}
		pthread_mutex_destroy(&stream->lock);
		free(stream);
	}
}

/* ---- enqueueing ---- */
static void tell(struct sgpu_task *task, const struct sgpu_error *error)
{
	if (task) {
		task->code = error->code;
		task->error = *error;
	}
}

int sgpu_cuda_begin(struct sgpu_stream *stream, struct sgpu_task *task)
{
	struct sgpu_error error = { 0 };
	int rc = sgpu_cuda_enter(stream->device, &error);

	pthread_mutex_lock(&stream->lock);
	if (rc < 0) {
		sgpu_cuda_advance(stream, 0);
		pthread_mutex_unlock(&stream->lock);
		tell(task, &error);
	}
	return rc;
}

/* Appends a record; the lock is held. */
static int append(struct sgpu_stream *stream, const struct sgpu_cuda_record *what)
{
	struct sgpu_cuda_record *record = stream->spare;

	if (record) {
		stream->spare = record->next;
	} else if (!(record = malloc(sizeof(*record)))) {
		return SGPU_ENOMEM;
	}
	*record = *what;
	record->next = NULL;
	if (!stream->tail || stream->tail->operation != record->operation) {
		stream->latest = record;
	}
	if (stream->tail) {
		stream->tail->next = record;
	} else {
		stream->head = record;
	}
	stream->tail = record;
	return SGPU_OK;
}

/* Releases what a record holds, after a failure: first waits for the enqueued work and clears what
 * it opened, since the caller may then free memory. */
static void abandon(struct sgpu_stream *stream, struct sgpu_cuda_record *record)
{
	struct sgpu_device *device = stream->device;

	sgpu_cuda_wait_until_idle(stream);
	if (record->opens) {
		sgpu_cuda_clear_now(device, record->out, record->out_size);
	}
	sgpu_cuda_sum_free(device, &record->sum);
	sgpu_cuda_status_give(device, record->status);
	sgpu_cuda_unmark(device, &record->mark);
}

/* Ends the enqueueing of one record; the lock stays held. */
static int commit_one(struct sgpu_stream *stream, struct sgpu_cuda_record *record, CUresult result,
		      const char *what)
{
	struct sgpu_error error = { 0 };
	int rc;

	record->operation = stream->enqueued;
	record->enqueue_ns = record->enqueue_ns ? record->enqueue_ns : sgpu_now_ns();
	if (result == CUDA_SUCCESS && record->task && !record->task->untimed) {
		result = sgpu_cuda_mark(stream, &record->mark);
	}
	rc = sgpu_cuda_check(stream->device, result, what, &error);
	if (rc == SGPU_OK && (record->task || record->status)) {
		rc = append(stream, record);
		if (rc < 0) {
			sgpu_fail_nomem(&error);
		}
	}
	if (rc < 0) {
		abandon(stream, record);
		tell(record->task, &error);
	}
	return rc;
}

int sgpu_cuda_commit_all(struct sgpu_stream *stream, struct sgpu_cuda_record *records, int count,
			 CUresult result, const char *what)
{
	int rc = SGPU_OK;

	stream->enqueued++;
	for (int i = 0; i < count; i++) {
		const int one = commit_one(stream, &records[i], result, what);

		if (one < 0 && result == CUDA_SUCCESS) {
			result = CUDA_ERROR_OUT_OF_MEMORY; /* later pieces count as not enqueued */
		}
		rc = rc == SGPU_OK ? one : rc;
	}
	sgpu_cuda_advance(stream, 0); /* the device may be faulted by now */
	pthread_mutex_unlock(&stream->lock);
	return rc;
}

int sgpu_cuda_commit(struct sgpu_stream *stream, struct sgpu_cuda_record *record, CUresult result,
		     const char *what)
{
	return sgpu_cuda_commit_all(stream, record, 1, result, what);
}

/* ---- events ---- */
static int event_create(struct sgpu_device *device, struct sgpu_event **event,
			struct sgpu_error *error)
{
	struct sgpu_event *new;
	int rc = sgpu_cuda_enter(device, error);

	if (rc < 0) {
		return rc;
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_cuda_check(device, sgpu_cuda_event_take(device, &new->native),
			     "cannot create an event", error);
	if (rc < 0) {
		free(new);
		return rc;
	}
	new->object.backend = &sgpu_cuda_backend;
	new->device = device;
	*event = new;
	return SGPU_OK;
}

/* Work that waits for the event still does: the driver keeps what the wait needs. */
static void event_free(struct sgpu_event *event)
{
	sgpu_cuda_event_give(event->device, event->native);
	free(event);
}

static int event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	int rc = sgpu_cuda_begin(stream, NULL);

	if (rc < 0) {
		return rc;
	}
	rc = event->stream ? SGPU_EUSAGE
			   : sgpu_cuda_check(stream->device,
					     sgpu_cu.cuEventRecord(event->native, stream->native),
					     "", NULL);
	if (rc == SGPU_OK) {
		event->operation = stream->enqueued;
		event->record_ns = sgpu_now_ns();
		event->stream = stream;
	}
	pthread_mutex_unlock(&stream->lock);
	return rc;
}

static bool has_completed(const struct sgpu_event *event)
{
	return atomic_load(&event->stream->ended) >= event->operation;
}

int sgpu_cuda_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	int rc;

	if (!event->stream) {
		return SGPU_EUSAGE;
	}
	if (event->stream == stream || has_completed(event)) {
		return SGPU_OK;
	}
	rc = sgpu_cuda_begin(stream, NULL);
	if (rc < 0) {
		return rc;
	}
	stream->enqueued++;
	rc = sgpu_cuda_check(stream->device,
			     sgpu_cu.cuStreamWaitEvent(stream->native, event->native, 0), "", NULL);
	pthread_mutex_unlock(&stream->lock);
	return rc;
}

/* Asks the driver, which need not know the context. */
static CUresult ask(struct sgpu_event *event)
{
	CUresult result = sgpu_cu.cuEventQuery(event->native);

	if (result == CUDA_ERROR_INVALID_CONTEXT &&
	    sgpu_cuda_enter(event->device, NULL) == SGPU_OK) {
		result = sgpu_cu.cuEventQuery(event->native);
	}
	return result;
}

static int event_query(struct sgpu_event *event, bool *done, struct sgpu_error *error)
{
	struct sgpu_device *device = event->device;
	struct sgpu_stream *stream = event->stream;
	CUresult result;
	int rc;

	if (!stream) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "an event was asked for that was not recorded");
	}
	*done = has_completed(event);
	if (*done) {
		return SGPU_OK;
	}
	if (pthread_mutex_trylock(&stream->lock) == 0) {
		*done = stream->enqueued == event->operation && hears_verdict(stream, 0);
		pthread_mutex_unlock(&stream->lock);
	}
	rc = sgpu_cuda_faulted(device, error);
	if (rc == SGPU_OK && !*done) {
		result = ask(event);
		if (result == CUDA_ERROR_NOT_READY &&
		    !sgpu_cuda_overdue(device, event->record_ns)) {
			return SGPU_OK;
		}
		rc = sgpu_cuda_must(device, result, error);
	}
	*done = true;
	pthread_mutex_lock(&stream->lock);
	sgpu_cuda_advance(stream, rc == SGPU_OK ? event->operation : 0);
	pthread_mutex_unlock(&stream->lock);
	return rc;
}

const struct sgpu_device_stream_calls sgpu_cuda_stream_calls = {
	.create = stream_create,
	.free = stream_free,
	.sync = stream_sync,
	.wait = sgpu_cuda_stream_wait,
	.enqueue = sgpu_cuda_enqueue,
	.launch = sgpu_cuda_launch,
	.event_create = event_create,
	.event_free = event_free,
	.event_record = event_record,
	.event_query = event_query,
};
