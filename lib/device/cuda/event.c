/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of the CUDA device. One is recorded once; who learns that it has completed ends what
 * stands before it in its stream.
 */
#include <stdlib.h>

#include <device/cuda/gpu.h>

int sgpu_cuda_event_create(struct sgpu_device *device, struct sgpu_event **event,
			   struct sgpu_error *error)
{
	struct sgpu_event *new;
	int code = sgpu_cuda_enter(device, error);

	if (code < 0) {
		return code;
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	code = sgpu_cuda_check(device, sgpu_cuda_event_take(device, false, &new->native),
			       "cannot create an event", error);
	if (code < 0) {
		free(new);
		return code;
	}
	new->object.backend = &sgpu_cuda_backend;
	new->device = device;
	pthread_mutex_init(&new->lock, NULL);
	*event = new;
	return SGPU_OK;
}

/* Work that waits for it does so all the same: the driver took down what it waits for. */
void sgpu_cuda_event_free(struct sgpu_event *event)
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

int sgpu_cuda_event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	struct sgpu_device *device = stream->device;
	int code = sgpu_cuda_begin(stream, NULL);

	if (code < 0) {
		return code;
	}
	pthread_mutex_lock(&event->lock);
	if (event->stream) {
		code = SGPU_EUSAGE;
	} else {
		code = sgpu_cuda_check(device, sgpu_cu.cuEventRecord(event->native, stream->native),
				       "", NULL);
	}
	if (code == SGPU_OK) {
		pthread_mutex_lock(&stream->queue);
		event->serial = stream->serial;
		pthread_mutex_unlock(&stream->queue);
		sgpu_cuda_stream_hold(stream);
		event->stream = stream;
	}
	pthread_mutex_unlock(&event->lock);
	pthread_mutex_unlock(&stream->order);
	return code;
}

/* The stream it was recorded on, or NULL. */
static struct sgpu_stream *recorded_on(struct sgpu_event *event)
{
	struct sgpu_stream *stream;

	pthread_mutex_lock(&event->lock);
	stream = event->stream;
	pthread_mutex_unlock(&event->lock);
	return stream;
}

int sgpu_cuda_stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	struct sgpu_stream *other = recorded_on(event);
	struct sgpu_cuda_record record = { .kind = SGPU_CUDA_WAIT, .other = other };
	int code;

	if (!other) {
		return SGPU_EUSAGE;
	}
	if (atomic_load(&event->done)) {
		return SGPU_OK;
	}
	code = sgpu_cuda_begin(stream, NULL);
	if (code < 0) {
		return code;
	}
	stream->operations++;
	code = sgpu_cuda_check(stream->device,
			       sgpu_cu.cuStreamWaitEvent(stream->native, event->native, 0), "",
			       NULL);
	if (code == SGPU_OK && other != stream) {
		/* Who waits for this stream has waited for what the other one did before the event,
		 * callbacks included. */
		record.other_serial = event->serial;
		sgpu_cuda_stream_hold(other);
		code = sgpu_cuda_append(stream, &record);
		if (code < 0) {
			sgpu_cuda_stream_drop(other);
		}
	}
	pthread_mutex_unlock(&stream->order);
	if (atomic_load(&stream->device->faulted) != 0) {
		sgpu_cuda_advance(
			stream,
			UINT64_MAX); /* whoever ended what was pending may not have seen this */
	}
	return code;
}

/* The device has passed the event, or is faulted, or `code` says why that is not known. */
static int end(struct sgpu_event *event, int code)
{
	if (code == SGPU_OK || sgpu_cuda_faulted(event->device, NULL) != 0) {
		sgpu_cuda_advance(event->stream, event->serial);
	}
	if (code == SGPU_OK) {
		atomic_store(&event->done, true);
	}
	return code;
}

int sgpu_cuda_event_sync(struct sgpu_event *event, struct sgpu_error *error)
{
	struct sgpu_stream *stream = recorded_on(event);
	int code;

	if (!stream) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "an event was waited for that was not recorded");
	}
	if (atomic_load(&event->done)) {
		return SGPU_OK;
	}
	code = sgpu_cuda_enter(event->device, error);
	if (code == SGPU_OK) {
		code = sgpu_cuda_wait(event->device, event->native, error);
	}
	return end(event, code);
}

int sgpu_cuda_event_query(struct sgpu_event *event, bool *done, struct sgpu_error *error)
{
	struct sgpu_stream *stream = recorded_on(event);
	CUresult result;
	int code;

	if (!stream) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "an event was asked for that was not recorded");
	}
	*done = atomic_load(&event->done);
	if (*done) {
		return SGPU_OK;
	}
	code = sgpu_cuda_enter(event->device, error);
	if (code == SGPU_OK) {
		result = sgpu_cu.cuEventQuery(event->native);
		if (result == CUDA_ERROR_NOT_READY) {
			return SGPU_OK;
		}
		code = sgpu_cuda_check(event->device, result, "cannot ask for an event", error);
	}
	*done = code == SGPU_OK || sgpu_cuda_faulted(event->device, NULL) != 0;
	return end(event, code);
}
