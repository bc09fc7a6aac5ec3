/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunk runs on their way in: read into a staging buffer, or in place by the device; then copied,
 * and opened or digested by the device. Even if the source changes meanwhile, only verified bytes
 * are used.
 */
#include "transfer/engine.h"

#include <string.h>

static int read_run(struct sgpu_chunk_move *move, struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = move->transfer;
	const struct sgpu_transfer_source *source = &transfer->request.source;
	uint64_t position = sgpu_transfer_position(transfer, move->run.first),
		 begin = sgpu_now_ns();
	int rc = SGPU_OK;

	if (transfer->memory) {
		memcpy(move->buffer->host, transfer->memory + position, move->bytes);
	} else if (move->bytes > 0) {
		rc = source->read(source->context, position, move->buffer->host, move->bytes,
				  error);
	}
	if (rc == SGPU_OK && source->ordered) {
		transfer->consumed += move->bytes;
	}
	if (rc == SGPU_OK) {
		sgpu_transfer_span(transfer, SGPU_STEP_READ, -1, begin, sgpu_now_ns(), move->bytes);
	}
	return rc;
}

static int enqueue_digest(struct sgpu_chunk_move *move, struct sgpu_stream *stream,
			  struct sgpu_error *error)
{
	const struct sgpu_transfer_request *request = &move->transfer->request;
	const struct sgpu_work digest = { .kind = SGPU_WORK_DIGEST,
					  .in = request->memory,
					  .to = move->transfer->result.digest,
					  .size = request->size };

	return sgpu_engine_enqueue(stream, &digest, &move->crypt, error);
}

/* A single run is copied on the stream that opens or digests it, since nothing would overlap, and
 * one signal less is needed. If kernels reach the data on the host, they open them there. */
static int enqueue(struct sgpu_chunk_move *move, const void *from, struct sgpu_stream *streams[2],
		   struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = move->transfer;
	const struct sgpu_transfer_request *request = &transfer->request;
	struct sgpu_engine *engine = transfer->engine;
	const bool single = sgpu_chunk_move_is_single(move);
	struct sgpu_work open = sgpu_chunk_move_crypt(move);
	const struct sgpu_work in = { .kind = SGPU_WORK_COPY_IN,
				      .from = from,
				      .out = request->key ? open.in : open.out,
				      .size = move->bytes };
	struct sgpu_stream *copy = NULL, *second = NULL;
	int rc;

	if (single && request->key &&
	    sgpu_device_reaches(engine->device, from, move->bytes, false)) {
		open.kind = SGPU_WORK_OPEN_FROM;
		open.from = from;
		rc = sgpu_transfer_get_stream(transfer, SGPU_ENGINE_OPEN, &streams[1], error);
		return rc == SGPU_OK ? sgpu_engine_enqueue(streams[1], &open, &move->crypt, error)
				     : rc;
	}
	move->copy_row = single && (request->key || request->digested) ? SGPU_ENGINE_OPEN
								       : SGPU_ENGINE_COPY_IN;
	rc = sgpu_transfer_get_stream(transfer, move->copy_row, &copy, error);
	if (rc == SGPU_OK && request->key) {
		rc = sgpu_transfer_get_stream(transfer, SGPU_ENGINE_OPEN, &second, error);
	}
	if (rc == SGPU_OK && move->bytes > 0) {
		streams[0] = copy;
		move->copy.untimed = single && request->key; /* the time counts as opening */
		rc = sgpu_engine_enqueue(copy, &in, &move->copy, error);
	}
	if (rc == SGPU_OK && second && second != copy) {
		rc = sgpu_engine_follow(engine, copy, second, error);
	}
	if (rc == SGPU_OK && request->key) {
		streams[1] = second;
		rc = sgpu_engine_enqueue(second, &open, &move->crypt, error);
	} else if (rc == SGPU_OK && single && request->digested) {
		streams[0] = copy;
		move->is_digest = true;
		rc = enqueue_digest(move, copy, error);
	}
	return rc;
}

int sgpu_chunk_move_in(struct sgpu_chunk_move *move, struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = move->transfer;
	struct sgpu_engine *engine = transfer->engine;
	struct sgpu_stream *streams[2] = { NULL, NULL };
	bool single = sgpu_chunk_move_is_single(move);
	const void *from;
	int rc = SGPU_OK;

	if (sgpu_chunk_move_is_moot(move)) {
		sgpu_chunk_move_drop(move, SGPU_OK, NULL);
		return SGPU_OK;
	}
	if (move->buffer) {
		rc = sgpu_staging_fill(engine, move->buffer, !transfer->direct,
				       transfer->request.key != NULL, error);
	}
	if (rc != SGPU_OK) {
		sgpu_chunk_move_drop(move, rc, error);
		return SGPU_OK; /* the source has not failed */
	}
	if (!transfer->direct) {
		rc = read_run(move, error);
	}
	if (rc != SGPU_OK || sgpu_chunk_move_is_moot(move)) {
		sgpu_chunk_move_drop(move, rc, error);
		return rc;
	}
	from = transfer->direct
		       ? transfer->memory + sgpu_transfer_position(transfer, move->run.first)
		       : move->buffer->host;
	pthread_mutex_lock(&engine->mutex);
	transfer->touched = true;
	transfer->needs_digest = transfer->needs_digest && !single;
	pthread_mutex_unlock(&engine->mutex);
	rc = enqueue(move, from, streams, error);
	sgpu_chunk_move_hear(move, streams[1], streams[0], rc, error);
	return SGPU_OK;
}

void sgpu_chunk_move_digest(struct sgpu_chunk_move *move)
{
	struct sgpu_transfer *transfer = move->transfer;
	struct sgpu_error error = { 0 };
	struct sgpu_stream *stream = NULL;
	int rc = sgpu_transfer_get_stream(
		transfer, sgpu_transfer_is_in(transfer) ? SGPU_ENGINE_OPEN : SGPU_ENGINE_SEAL,
		&stream, &error);

	if (rc == SGPU_OK) {
		rc = enqueue_digest(move, stream, &error);
	}
	sgpu_chunk_move_hear(move, stream, NULL, rc, &error);
}
