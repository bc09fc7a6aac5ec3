/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams that no run uses.
 */
#include <pthread.h>
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "run/runner.h"

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
