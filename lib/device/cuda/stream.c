/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events of the CUDA device: creating, enqueueing, waiting.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <device/cuda/gpu.h>
#include <device/cuda/kernels.h>

/* How long hears_verdict polls: somewhat longer than a short run of chunks takes. */
#define VERDICT_NS ((uint64_t)100000)

/* ---- native streams, kept for reuse ---- */
static CUresult take_native(struct sgpu_device *device, struct sgpu_cuda_native *kept)
{
	bool found;

	pthread_mutex_lock(&device->pool_lock);
	found = device->native_count > 0;
	if (found) {
		*kept = device->natives[--device->native_count];
	}
	pthread_mutex_unlock(&device->pool_lock);
	return found ? CUDA_SUCCESS : sgpu_cu.cuStreamCreate(&kept->native, CU_STREAM_NON_BLOCKING);
}

static void destroy_native(struct sgpu_device *device, const struct sgpu_cuda_native *kept)
{
	sgpu_cuda_private_free(device, kept->counters);
	sgpu_cuda_private_free(device, kept->scratch);
	sgpu_cuda_note(device, sgpu_cu.cuStreamDestroy(kept->native));
}

/* Keeps a native stream on which nothing is pending, or destroys it. */
static void give_native(struct sgpu_device *device, const struct sgpu_cuda_native *kept)
{
	bool room;

	if (!kept->native || sgpu_cuda_enter(device, NULL) != SGPU_OK) {
		return; /* the stream is destroyed with the context */
	}
	pthread_mutex_lock(&device->pool_lock);
	room = device->native_count < SGPU_CUDA_NATIVES;
	if (room) {
		device->natives[device->native_count++] = *kept;
	}
	pthread_mutex_unlock(&device->pool_lock);
	if (!room) {
		destroy_native(device, kept);
	}
}

void sgpu_cuda_natives_close(struct sgpu_device *device)
{
	while (device->native_count > 0 && sgpu_cuda_enter(device, NULL) == SGPU_OK) {
		destroy_native(device, &device->natives[--device->native_count]);
	}
}

/* ---- streams ---- */
void sgpu_cuda_stream_hold(struct sgpu_stream *stream)
{
	pthread_mutex_lock(&stream->device->lock);
	stream->references++;
	pthread_mutex_unlock(&stream->device->lock);
}

void sgpu_cuda_stream_drop(struct sgpu_stream *stream)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_record *record;
	bool last;

	pthread_mutex_lock(&device->lock);
	last = --stream->references == 0;
	pthread_mutex_unlock(&device->lock);
	if (!last) {
		return;
	}
	give_native(device, &stream->kept);
	sgpu_cuda_status_give(device, stream->passed);
	while ((record = stream->spare)) {
		stream->spare = record->next;
		free(record);
	}
	pthread_cond_destroy(&stream->progress);
	pthread_mutex_destroy(&stream->queue);
	pthread_mutex_destroy(&stream->order);
	free(stream);
}

static struct sgpu_stream *make(struct sgpu_device *device)
{
	struct sgpu_stream *new = calloc(1, sizeof(*new));

	if (!new) {
		return NULL;
	}
	new->passed = sgpu_cuda_status_take(device);
	if (!new->passed) {
		free(new);
		return NULL;
	}
	new->object.backend = &sgpu_cuda_backend;
	new->device = device;
	new->references = 1;
	pthread_mutex_init(&new->order, NULL);
	pthread_mutex_init(&new->queue, NULL);
	pthread_cond_init(&new->progress, NULL);
	return new;
}

static int stream_create(struct sgpu_device *device, struct sgpu_stream **stream,
			 struct sgpu_error *error)
{
	int rc = sgpu_cuda_enter(device, error);
	struct sgpu_stream *new;

	if (rc < 0) {
		return rc;
	}
	new = make(device);
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_cuda_check(device, take_native(device, &new->kept), "cannot create a stream",
			     error);
	if (rc < 0) {
		sgpu_cuda_stream_drop(new);
		return rc;
	}
	new->native = new->kept.native;
	pthread_mutex_lock(&device->lock);
	new->next = device->streams;
	device->streams = new;
	new->listed = true;
	pthread_mutex_unlock(&device->lock);
	*stream = new;
	return SGPU_OK;
}

void sgpu_cuda_wait_until_idle(struct sgpu_stream *stream)
{
	const struct timespec step = { .tv_nsec = 20000 };
	CUresult result = CUDA_ERROR_NOT_READY;

	while (atomic_load(&stream->device->faulted) == 0 &&
	       (result = sgpu_cu.cuStreamQuery(stream->native)) == CUDA_ERROR_NOT_READY) {
		nanosleep(&step, NULL);
	}
	if (result != CUDA_ERROR_NOT_READY) {
		sgpu_cuda_note(stream->device, result);
	}
}

struct sgpu_stream *sgpu_cuda_next_stream(struct sgpu_device *device, struct sgpu_stream *after,
					  uint64_t (*look)(struct sgpu_stream *stream),
					  uint64_t *found)
{
	struct sgpu_stream *next;

	pthread_mutex_lock(&device->lock);
	/* If `after` was freed meanwhile, it is no longer in the list: start again. */
	next = after && after->listed ? after->next : device->streams;
	while (next && look && (*found = look(next)) == 0) {
		next = next->next;
	}
	if (next) {
		next->references++;
	}
	pthread_mutex_unlock(&device->lock);
	if (after) {
		sgpu_cuda_stream_drop(after);
	}
	return next;
}

uint64_t sgpu_cuda_last_serial(struct sgpu_stream *stream)
{
	uint64_t serial;

	pthread_mutex_lock(&stream->queue);
	serial = stream->serial;
	pthread_mutex_unlock(&stream->queue);
	return serial;
}

int sgpu_cuda_synchronize(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_stream *stream = NULL;
	int rc = sgpu_cuda_enter(device, error);
	uint64_t serial;

	if (rc < 0) {
		return rc;
	}
	while ((stream = sgpu_cuda_next_stream(device, stream, NULL, NULL))) {
		serial = sgpu_cuda_last_serial(stream);
		sgpu_cuda_wait_until_idle(stream);
		/* Clear the output of a failed opening while its memory is still allocated.
		 */
		sgpu_cuda_advance(stream, serial);
	}
	rc = sgpu_cuda_faulted(device, error);
	return rc == SGPU_OK ? sgpu_cuda_sync_internal(device, error) : rc;
}

/* Whether the stream's last work opens or seals and reports success of all its runs within
 * VERDICT_NS: polling for that is faster than an event and needs no driver call. All earlier work
 * has then ended as well. `order` is held. */
static bool hears_verdict(struct sgpu_stream *stream)
{
	const volatile struct sgpu_cuda_verdict *verdicts[SGPU_CUDA_RUNS];
	const uint64_t until = sgpu_now_ns() + VERDICT_NS;
	const struct sgpu_cuda_record *record;
	uint64_t expected[SGPU_CUDA_RUNS];
	int count = 0, heard = 0;

	if (!stream->device->memory_operations || !stream->device->may_spin) {
		return false;
	}
	pthread_mutex_lock(&stream->queue);
	for (record = stream->head; record && count < SGPU_CUDA_RUNS; record = record->next) {
		/* No kernel reports on an empty run. */
		if (record->operation == stream->operations && record->status && record->key &&
		    record->expected > 0) {
			verdicts[count] = (const void *)(uintptr_t)record->status->host;
			expected[count++] = record->expected;
		}
	}
	pthread_mutex_unlock(&stream->queue);
	/* Other work gets these status words only after the record has ended, when there is nothing
	 * left to wait for. */
	while (heard < count && verdicts[heard]->bad == UINT64_MAX &&
	       verdicts[heard]->refused == 0) {
		if (verdicts[heard]->done == expected[heard]) {
			heard++;
		} else if (atomic_load(&stream->device->faulted) != 0 || sgpu_now_ns() > until) {
			break;
		} else {
			SGPU_CUDA_PAUSE();
		}
	}
	return count > 0 && heard == count;
}

/* Fails only if the device is faulted, since callers free what the stream's work uses. */
static int stream_sync(struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_device *device = stream->device;
	int rc = sgpu_cuda_enter(device, error);
	uint64_t serial, operations;
	CUresult marked = CUDA_SUCCESS;
	CUevent event = NULL;

	if (rc < 0) {
		sgpu_cuda_advance(stream, UINT64_MAX);
		return rc;
	}
	/* Record an event after all enqueued work, unless that is known to have ended. */
	pthread_mutex_lock(&stream->order);
	serial = sgpu_cuda_last_serial(stream);
	operations = stream->operations;
	if (operations != stream->seen && !hears_verdict(stream)) {
		marked = sgpu_cuda_event_after(device, false, stream->native, &event);
	}
	pthread_mutex_unlock(&stream->order);
	if (marked != CUDA_SUCCESS) {
		sgpu_cuda_note(device, marked);
		sgpu_cuda_wait_until_idle(stream);
		rc = sgpu_cuda_faulted(device, error);
	} else if (event) {
		rc = sgpu_cuda_wait(device, event, error);
	}
	if (rc == SGPU_OK) {
		pthread_mutex_lock(&stream->order);
		stream->seen = stream->seen < operations ? operations : stream->seen;
		pthread_mutex_unlock(&stream->order);
	}
	sgpu_cuda_event_give(device, false, event);
	if (rc == SGPU_OK || sgpu_cuda_faulted(device, NULL) != 0) {
		sgpu_cuda_advance(stream, serial);
	}
	return rc;
}

static void stream_free(struct sgpu_stream *stream)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_stream **link = &device->streams;

	if (stream_sync(stream, NULL) != SGPU_OK) {
		sgpu_cuda_advance(stream, UINT64_MAX); /* a fault ends all its work */
	}
	pthread_mutex_lock(&device->lock);
	while (*link != stream) {
		link = &(*link)->next;
	}
	*link = stream->next;
	stream->listed = false;
	pthread_mutex_unlock(&device->lock);
	sgpu_cuda_stream_drop(stream);
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

	if (rc < 0) {
		tell(task, &error);
		return rc;
	}
	pthread_mutex_lock(&stream->order);
	return SGPU_OK;
}

/* Appends a record; `order` is held. */
static int append(struct sgpu_stream *stream, const struct sgpu_cuda_record *what)
{
	struct sgpu_cuda_record *record;

	pthread_mutex_lock(&stream->queue);
	record = stream->spare;
	if (record) {
		stream->spare = record->next;
	} else {
		record = malloc(sizeof(*record));
	}
	/* The serial is used up even on failure: the device may be about to write it for a
	 * callback. */
	stream->serial++;
	if (!record) {
		pthread_mutex_unlock(&stream->queue);
		return SGPU_ENOMEM;
	}
	*record = *what;
	record->next = NULL;
	record->serial = stream->serial;
	if (stream->tail) {
		stream->tail->next = record;
	} else {
		stream->head = record;
	}
	stream->tail = record;
	if (record->kind == SGPU_CUDA_CALL) {
		atomic_fetch_add(&stream->calls, 1);
	}
	pthread_mutex_unlock(&stream->queue);
	return SGPU_OK;
}

/* Releases what a record holds, after a failure. The caller may then free memory, so this first
 * waits for the enqueued work and clears what it opened. */
static void abandon(struct sgpu_stream *stream, struct sgpu_cuda_record *record)
{
	struct sgpu_device *device = stream->device;

	sgpu_cuda_wait_until_idle(stream);
	if (record->kind == SGPU_CUDA_OPEN) {
		sgpu_cuda_clear_now(device, record->out, record->out_size);
	}
	if (record->graph) {
		(void)sgpu_cuda_graph_end(record->graph, record->task);
	}
	sgpu_cuda_measure_free(device, &record->measure);
	sgpu_cuda_status_give(device, record->status);
	sgpu_cuda_unmark(device, record);
}

/* Ends the enqueueing of one record; `order` stays held. */
static int commit_one(struct sgpu_stream *stream, struct sgpu_cuda_record *record, CUresult result,
		      const char *what)
{
	struct sgpu_error error = { 0 };
	int rc;

	record->operation = stream->operations;
	record->enqueue_ns = record->enqueue_ns ? record->enqueue_ns : sgpu_now_ns();
	if (result == CUDA_SUCCESS && record->kind != SGPU_CUDA_CALL && record->task &&
	    !record->task->untimed) {
		result = sgpu_cuda_mark(stream, record);
	}
	rc = sgpu_cuda_check(stream->device, result, what, &error);
	if (rc == SGPU_OK &&
	    (record->task || record->status || record->graph || record->kind == SGPU_CUDA_CALL)) {
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

	stream->operations++;
	for (int i = 0; i < count; i++) {
		const int one = commit_one(stream, &records[i], result, what);

		if (one < 0 && result == CUDA_SUCCESS) {
			result = CUDA_ERROR_OUT_OF_MEMORY; /* later pieces count as not enqueued */
		}
		rc = rc == SGPU_OK ? one : rc;
	}
	pthread_mutex_unlock(&stream->order);
	if (atomic_load(&stream->device->faulted) != 0) {
		/* The thread that ended pending work may have missed these records. */
		sgpu_cuda_advance(stream, UINT64_MAX);
	}
	return rc;
}

int sgpu_cuda_commit(struct sgpu_stream *stream, struct sgpu_cuda_record *record, CUresult result,
		     const char *what)
{
	return sgpu_cuda_commit_all(stream, record, 1, result, what);
}

/* ---- events: a thread that learns that an event has completed ends the records before it in its
 * stream ---- */
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
	rc = sgpu_cuda_check(device, sgpu_cuda_event_take(device, false, &new->native),
			     "cannot create an event", error);
	if (rc < 0) {
		free(new);
		return rc;
	}
	new->object.backend = &sgpu_cuda_backend;
	new->device = device;
	pthread_mutex_init(&new->lock, NULL);
	*event = new;
	return SGPU_OK;
}

/* Frees an event. Work that waits for it still does: the driver keeps what the wait needs. */
static void event_free(struct sgpu_event *event)
{
	if (event->stream) {
		sgpu_cuda_stream_drop(event->stream);
	}
	if (sgpu_cuda_enter(event->device, NULL) == SGPU_OK) {
		sgpu_cuda_event_give(event->device, false, event->native);
	}
	pthread_mutex_destroy(&event->lock);
	free(event);
}

static int event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	struct sgpu_device *device = stream->device;
	int rc = sgpu_cuda_begin(stream, NULL);

	if (rc < 0) {
		return rc;
	}
	pthread_mutex_lock(&event->lock);
	if (event->stream) {
		rc = SGPU_EUSAGE;
	} else {
		rc = sgpu_cuda_check(device, sgpu_cu.cuEventRecord(event->native, stream->native),
				     "", NULL);
	}
	if (rc == SGPU_OK) {
		event->serial = sgpu_cuda_last_serial(stream);
		sgpu_cuda_stream_hold(stream);
		event->stream = stream;
	}
	pthread_mutex_unlock(&event->lock);
	pthread_mutex_unlock(&stream->order);
	return rc;
}

struct sgpu_stream *sgpu_cuda_recorded_on(struct sgpu_event *event)
{
	struct sgpu_stream *stream;

	pthread_mutex_lock(&event->lock);
	stream = event->stream;
	pthread_mutex_unlock(&event->lock);
	return stream;
}

static int stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	struct sgpu_stream *other = sgpu_cuda_recorded_on(event);
	struct sgpu_cuda_record record = { .kind = SGPU_CUDA_WAIT, .other = other };
	int rc;

	if (!other) {
		return SGPU_EUSAGE;
	}
	if (atomic_load(&event->done)) {
		return SGPU_OK;
	}
	rc = sgpu_cuda_begin(stream, NULL);
	if (rc < 0) {
		return rc;
	}
	stream->operations++;
	rc = sgpu_cuda_check(stream->device,
			     sgpu_cu.cuStreamWaitEvent(stream->native, event->native, 0), "", NULL);
	if (rc == SGPU_OK && other != stream) {
		/* A wait for this stream must also end the other stream's records before the event,
		 * callbacks included. */
		record.other_serial = event->serial;
		sgpu_cuda_stream_hold(other);
		rc = append(stream, &record);
		if (rc < 0) {
			sgpu_cuda_stream_drop(other);
		}
	}
	pthread_mutex_unlock(&stream->order);
	if (atomic_load(&stream->device->faulted) != 0) {
		sgpu_cuda_advance(stream, UINT64_MAX); /* the thread that ended pending work may
							  have missed this record */
	}
	return rc;
}

/* Ends the records before the event if the device has passed it (`rc` is 0) or is faulted. Returns
 * `rc`. */
static int end_event(struct sgpu_event *event, int rc)
{
	if (rc == SGPU_OK || sgpu_cuda_faulted(event->device, NULL) != 0) {
		sgpu_cuda_advance(event->stream, event->serial);
	}
	if (rc == SGPU_OK) {
		atomic_store(&event->done, true);
	}
	return rc;
}

static int event_sync(struct sgpu_event *event, struct sgpu_error *error)
{
	int rc;

	if (!sgpu_cuda_recorded_on(event)) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "an event was waited for that was not recorded");
	}
	if (atomic_load(&event->done)) {
		return SGPU_OK;
	}
	rc = sgpu_cuda_enter(event->device, error);
	if (rc == SGPU_OK) {
		rc = sgpu_cuda_wait(event->device, event->native, error);
	}
	return end_event(event, rc);
}

static int event_query(struct sgpu_event *event, bool *done, struct sgpu_error *error)
{
	CUresult result;
	int rc;

	if (!sgpu_cuda_recorded_on(event)) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "an event was asked for that was not recorded");
	}
	*done = atomic_load(&event->done);
	if (*done) {
		return SGPU_OK;
	}
	rc = sgpu_cuda_enter(event->device, error);
	if (rc == SGPU_OK) {
		result = sgpu_cu.cuEventQuery(event->native);
		if (result == CUDA_ERROR_NOT_READY) {
			return SGPU_OK;
		}
		rc = sgpu_cuda_check(event->device, result, "cannot ask for an event", error);
	}
	*done = rc == SGPU_OK || sgpu_cuda_faulted(event->device, NULL) != 0;
	return end_event(event, rc);
}

const struct sgpu_device_stream_calls sgpu_cuda_stream_calls = {
	.create = stream_create,
	.free = stream_free,
	.sync = stream_sync,
	.wait = stream_wait,
	.callback = sgpu_cuda_callback,
	.enqueue = sgpu_cuda_enqueue,
	.launch = sgpu_cuda_launch,
	.event_create = event_create,
	.event_free = event_free,
	.event_record = event_record,
	.event_sync = event_sync,
	.event_query = event_query,
};
