/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and workers of the engine, made on first use.
 */
#include "transfer/engine.h"

int sgpu_engine_start_workers(struct sgpu_engine *engine, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	pthread_mutex_lock(&engine->making);
	if (!engine->started) {
		rc = sgpu_workers_add(engine->workers, &engine->job, error);
		engine->started = rc == SGPU_OK;
	}
	pthread_mutex_unlock(&engine->making);
	return rc;
}

static int get_stream(struct sgpu_engine *engine, struct sgpu_stream *_Atomic *place,
		      struct sgpu_stream **stream, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	*stream = atomic_load(place);
	if (*stream) {
		return SGPU_OK;
	}
	pthread_mutex_lock(&engine->making);
	*stream = atomic_load(place);
	if (!*stream) {
		rc = sgpu_stream_create(engine->device, stream, error);
		atomic_store(place, rc == SGPU_OK ? *stream : NULL);
	}
	pthread_mutex_unlock(&engine->making);
	return rc;
}

int sgpu_engine_get_stream(struct sgpu_engine *engine, enum sgpu_engine_stream which,
			   struct sgpu_stream **stream, struct sgpu_error *error)
{
	return get_stream(engine, &engine->streams[which], stream, error);
}

int sgpu_transfer_get_stream(const struct sgpu_transfer *transfer, enum sgpu_engine_stream which,
			     struct sgpu_stream **stream, struct sgpu_error *error)
{
	struct sgpu_engine *engine = transfer->engine;

	if (transfer->small_stream != SGPU_ENGINE_NOT_SMALL) {
		return get_stream(engine, &engine->small_streams[transfer->small_stream], stream,
				  error);
	}
	if (transfer->second && (which == SGPU_ENGINE_OPEN || which == SGPU_ENGINE_SEAL)) {
		which = which == SGPU_ENGINE_OPEN ? SGPU_ENGINE_OPEN_SECOND
						  : SGPU_ENGINE_SEAL_SECOND;
	}
	return sgpu_engine_get_stream(engine, which, stream, error);
}

int sgpu_engine_follow(struct sgpu_engine *engine, struct sgpu_stream *from, struct sgpu_stream *to,
		       struct sgpu_error *error)
{
	struct sgpu_event *event = NULL;
	int rc = sgpu_event_create(engine->device, &event, error);

	if (rc == SGPU_OK) {
		rc = sgpu_event_record(from, event);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_wait(to, event);
	}
	sgpu_event_free(&event);
	return rc;
}

int sgpu_engine_refused(int rc, const struct sgpu_task *task, const char *what,
			struct sgpu_error *error)
{
	if (rc == SGPU_OK) {
		return rc;
	}
	return sgpu_fail(error, rc, "cannot %s: %s", what,
			 task->error.text[0] ? task->error.text : sgpu_strerror(rc));
}
