/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of a secure context: streams of the device that know their context. Those that are freed
 * are kept for the next user, because a device takes its time to make one.
 */
#include <stdlib.h>

#include "secure/context.h"

static void stream_destroy(struct sgpu_secure_stream *stream)
{
	sgpu_stream_free(&stream->inner);
	free(stream);
}

int sgpu_secure_stream_take(struct sgpu_secure *context, struct sgpu_secure_stream **stream,
			    struct sgpu_error *error)
{
	struct sgpu_secure_stream *s;
	int rc;

	pthread_mutex_lock(&context->stream_lock);
	s = context->spare;
	if (s) {
		context->spare = s->next;
		context->spare_count--;
	}
	pthread_mutex_unlock(&context->stream_lock);
	if (s) {
		*stream = s;
		return SGPU_OK;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		return sgpu_fail_nomem(error);
	}
	s->object.backend = &context->backend;
	s->context = context;
	rc = sgpu_stream_create(context->ground->device, &s->inner, error);
	if (rc < 0) {
		free(s);
		return rc;
	}
	atomic_fetch_add_explicit(&context->streams, 1, memory_order_relaxed);
	*stream = s;
	return SGPU_OK;
}

void sgpu_secure_stream_give(struct sgpu_secure_stream *stream)
{
	struct sgpu_secure *context = stream->context;
	bool kept = sgpu_stream_sync(stream->inner, NULL) == SGPU_OK;

	if (kept) {
		pthread_mutex_lock(&context->stream_lock);
		kept = context->spare_count < SGPU_SECURE_STREAMS_SPARE;
		if (kept) {
			stream->next = context->spare;
			context->spare = stream;
			context->spare_count++;
		}
		pthread_mutex_unlock(&context->stream_lock);
	}
	if (!kept) {
		stream_destroy(stream);
		atomic_fetch_sub_explicit(&context->streams, 1, memory_order_relaxed);
	}
}

void sgpu_secure_streams_close(struct sgpu_secure *context)
{
	struct sgpu_secure_stream *stream;

	while ((stream = context->spare)) {
		context->spare = stream->next;
		stream_destroy(stream);
	}
}
