/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunk runs on their way out: sealed on the device, and copied to their destination or to a
 * staging buffer, which workers, or the thread that owns a pipe, write to the sink.
 */
#include "transfer/engine.h"

/* If kernels reach the destination of a single run, they seal it there. */
static int enqueue(struct sgpu_chunk_move *move, void *to, struct sgpu_stream *streams[2],
		   struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = move->transfer;
	const struct sgpu_transfer_request *request = &transfer->request;
	struct sgpu_engine *engine = transfer->engine;
	const bool single = sgpu_chunk_move_is_single(move);
	struct sgpu_work seal = sgpu_chunk_move_crypt(move);
	const struct sgpu_work out = { .kind = SGPU_WORK_COPY_OUT,
				       .in = request->key ? seal.out : seal.in,
				       .to = to,
				       .size = move->bytes };
	struct sgpu_stream *copy = NULL, *first = NULL;
	int rc;

	if (single && request->key && sgpu_device_reaches(engine->device, to, move->bytes, true)) {
		seal.kind = SGPU_WORK_SEAL_TO;
		seal.to = to;
		rc = sgpu_transfer_get_stream(transfer, SGPU_ENGINE_SEAL, &streams[0], error);
		return rc == SGPU_OK ? sgpu_engine_enqueue(streams[0], &seal, &move->crypt, error)
				     : rc;
	}
	move->copy_row = single && request->key ? SGPU_ENGINE_SEAL : SGPU_ENGINE_COPY_OUT;
	rc = sgpu_transfer_get_stream(transfer, move->copy_row, &copy, error);
	if (rc == SGPU_OK && request->key) {
		rc = sgpu_transfer_get_stream(transfer, SGPU_ENGINE_SEAL, &first, error);
	}
	if (rc == SGPU_OK && request->key) {
		streams[0] = first;
		rc = sgpu_engine_enqueue(first, &seal, &move->crypt, error);
	}
	if (rc == SGPU_OK && first && first != copy) {
		rc = sgpu_engine_follow(engine, first, copy, error);
	}
	if (rc == SGPU_OK && move->bytes > 0) {
		streams[1] = copy;
		move->copy.untimed = single && request->key; /* the time counts as sealing */
		rc = sgpu_engine_enqueue(copy, &out, &move->copy, error);
	}
	return rc;
}

void sgpu_chunk_move_out(struct sgpu_chunk_move *move)
{
	struct sgpu_transfer *transfer = move->transfer;
	struct sgpu_stream *streams[2] = { NULL, NULL };
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;

	if (sgpu_chunk_move_is_moot(move)) {
		sgpu_chunk_move_drop(move, SGPU_OK, NULL);
		return;
	}
	if (move->buffer) {
		rc = sgpu_staging_fill(transfer->engine, move->buffer, !transfer->direct,
				       transfer->request.key != NULL, &error);
	}
	if (rc != SGPU_OK) {
		sgpu_chunk_move_drop(move, rc, &error);
		return;
	}
	rc = enqueue(move,
		     transfer->direct
			     ? transfer->memory + sgpu_transfer_position(transfer, move->run.first)
			     : move->buffer->host,
		     streams, &error);
	sgpu_chunk_move_hear(move, streams[0], streams[1], rc, &error);
}

int sgpu_chunk_move_write(struct sgpu_chunk_move *move, struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = move->transfer;
	const struct sgpu_transfer_sink *sink = &transfer->request.sink;
	uint64_t position = sgpu_transfer_position(transfer, move->run.first),
		 begin = sgpu_now_ns();
	int rc = SGPU_OK;

	if (sgpu_chunk_move_is_moot(move) || move->bytes == 0) {
		sgpu_chunk_move_drop(move, SGPU_OK, NULL);
		return SGPU_OK;
	}
	if (transfer->memory) {
		sgpu_transfer_store(transfer->memory + position, move->buffer->host, move->bytes);
		sgpu_transfer_store_fence();
	} else {
		rc = sink->write(sink->context, position, move->buffer->host, move->bytes, error);
	}
	if (rc == SGPU_OK) {
		sgpu_transfer_span(transfer, SGPU_STEP_WRITE, -1, begin, sgpu_now_ns(),
				   move->bytes);
	}
	sgpu_chunk_move_drop(move, rc, error);
	return rc;
}
