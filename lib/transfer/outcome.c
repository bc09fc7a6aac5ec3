/* SPDX-License-Identifier: Apache-2.0
 *
 * How a transfer ends: its failures, what it leaves, and who is told.
 */
#include "transfer/engine.h"

void sgpu_transfer_failed(struct sgpu_transfer *transfer, uint64_t at, int code,
			  const struct sgpu_error *error)
{
	struct sgpu_transfer_result *result = &transfer->result;

	if (transfer->cancelled || (transfer->failed && transfer->failed_at <= at)) {
		return;
	}
	transfer->failed = true;
	transfer->failed_at = at;
	result->code = code;
	result->bad_chunk = transfer->request.first + at;
	if (error && error->text[0]) {
		result->error = *error;
		result->error.code = code;
	} else {
		sgpu_fail(&result->error, code, "%s", sgpu_strerror(code));
	}
}

/* Nothing that was not verified stays readable, on the device or in the caller's memory. */
static void clear_destination(struct sgpu_transfer *transfer)
{
	const struct sgpu_transfer_request *request = &transfer->request;
	struct sgpu_stream *stream;

	if (request->direction == SGPU_TRANSFER_OUT) {
		if (transfer->memory && !request->sink.write) {
			sgpu_wipe(transfer->memory, sgpu_transfer_bytes(transfer));
		}
		return;
	}
	if (transfer->touched && request->size > 0 &&
	    sgpu_engine_get_stream(transfer->engine, SGPU_ENGINE_OPEN, &stream, NULL) == SGPU_OK &&
	    sgpu_device_clear(stream, request->memory,
			      request->key ? sgpu_opened_size(request->size) : request->size,
			      NULL) == SGPU_OK) {
		(void)!sgpu_stream_sync(
			stream, NULL); /* a device that fails here reaches nothing any more */
	}
}

void sgpu_transfer_close_end(const struct sgpu_transfer_request *request)
{
	if (request->direction == SGPU_TRANSFER_IN && request->source.close) {
		request->source.close(request->source.context);
	} else if (request->direction == SGPU_TRANSFER_OUT && request->sink.close) {
		request->sink.close(request->sink.context);
	}
}

void sgpu_transfer_end(struct sgpu_transfer *transfer)
{
	if (transfer->failed) {
		clear_destination(transfer);
	}
	sgpu_transfer_close_end(&transfer->request);
	sgpu_transfer_tell(transfer);
}

void sgpu_transfer_tell(struct sgpu_transfer *transfer)
{
	struct sgpu_engine *engine = transfer->engine;

	pthread_mutex_lock(&engine->mutex);
	sgpu_transfer_unqueue(transfer);
	transfer->phase = SGPU_PHASE_ENDED;
	if (transfer->granted) {
		sgpu_staging_give(engine, transfer->granted);
		transfer->granted = NULL;
	}
	if (transfer->extra > 0) {
		engine->staging[transfer->class].extra -= transfer->extra;
	}
	transfer->result.end_ns = sgpu_now_ns();
	pthread_mutex_unlock(&engine->mutex);
	if (transfer->request.done) {
		transfer->request.done(transfer->request.argument, &transfer->result);
	}
	pthread_mutex_lock(&engine->mutex);
	atomic_store(&transfer->told, true);
	engine->open--;
	pthread_cond_broadcast(&engine->changed);
	pthread_mutex_unlock(&engine->mutex);
	sgpu_transfer_unref(transfer);
}

void sgpu_transfer_unref(struct sgpu_transfer *transfer)
{
	if (atomic_fetch_sub(&transfer->references, 1) == 1) {
		sgpu_free_wiped(&transfer, sizeof(*transfer));
	}
}
