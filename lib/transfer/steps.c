/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a chunk run. On its way in it is read into a staging buffer, or in place by the
 * device; then it is copied, and opened or digested by the device. Even if the source changes
 * meanwhile, only verified bytes are used. On its way out it is sealed on the device, and copied to
 * its destination or to a staging buffer, which workers, or the thread that owns a pipe, write to
 * the sink.
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

/* The work that opens or seals the run of a transfer with a key, through its buffer. */
static struct sgpu_work crypt_run(const struct sgpu_chunk_move *move)
{
	const struct sgpu_transfer_request *request = &move->transfer->request;
	const bool in = sgpu_transfer_is_in(move->transfer);
	/* The last run may hold only the empty last chunk, whose plaintext address would be
	 * outside. */
	const sgpu_devptr plain =
		request->memory + (move->plain == 0 ? 0 : move->run.first * SGPU_CHUNK);
	const sgpu_devptr sealed = move->buffer ? move->buffer->device : 0;

	return (struct sgpu_work){ .kind = in ? SGPU_WORK_OPEN : SGPU_WORK_SEAL,
				   .in = in ? sealed : plain,
				   .out = in ? plain : sealed,
				   .size = in ? move->bytes : move->plain,
				   .key = request->key,
				   .first = request->first + move->run.first,
				   .last = request->last && sgpu_chunk_move_is_last(move) };
}

static struct sgpu_work copy_run(const struct sgpu_chunk_move *move, const struct sgpu_work *crypt,
				 void *host)
{
	const bool sealed = move->transfer->request.key != NULL;

	return sgpu_transfer_is_in(move->transfer)
		       ? (struct sgpu_work){ .kind = SGPU_WORK_COPY_IN,
					     .from = host,
					     .out = sealed ? crypt->in : crypt->out,
					     .size = move->bytes }
		       : (struct sgpu_work){ .kind = SGPU_WORK_COPY_OUT,
					     .in = sealed ? crypt->out : crypt->in,
					     .to = host,
					     .size = move->bytes };
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

/* Enqueues the run's two works: 0 opens or seals, 1 copies. A single run has both on one stream,
 * since nothing would overlap, and one signal less is needed. If kernels reach the data on the
 * host, they open or seal them there. streams: on which each was enqueued. */
static int enqueue(struct sgpu_chunk_move *move, void *host, struct sgpu_stream *streams[2],
		   struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = move->transfer;
	const struct sgpu_transfer_request *request = &transfer->request;
	struct sgpu_engine *engine = transfer->engine;
	const bool in = sgpu_transfer_is_in(transfer), single = sgpu_chunk_move_is_single(move);
	const bool digests = in && single && request->digested && !request->key;
	const bool reached = single && request->key &&
			     sgpu_device_reaches(engine->device, host, move->bytes, !in);
	struct sgpu_work works[2] = { crypt_run(move), { .kind = SGPU_WORK_COPY_IN } };
	struct sgpu_task *const tasks[2] = { &move->crypt, &move->copy };
	const bool wanted[2] = { request->key != NULL, move->bytes > 0 && !reached };
	struct sgpu_stream *on[2] = { NULL, NULL };
	int rc;

	works[1] = copy_run(move, &works[0], host);
	if (reached) {
		works[0].kind = in ? SGPU_WORK_OPEN_FROM : SGPU_WORK_SEAL_TO;
		works[0].from = works[1].from;
		works[0].to = works[1].to;
	}
	move->copy_row = (single && request->key) || digests ? sgpu_transfer_crypt_row(transfer)
			 : in				     ? SGPU_ENGINE_COPY_IN
							     : SGPU_ENGINE_COPY_OUT;
	move->copy.untimed = single && request->key; /* the time counts as opening or sealing */
	rc = sgpu_transfer_get_stream(transfer, move->copy_row, &on[1], error);
	if (rc == SGPU_OK && request->key) {
		rc = sgpu_transfer_get_stream(transfer, sgpu_transfer_crypt_row(transfer), &on[0],
					      error);
	}
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		const int work = in ? 1 - i : i; /* what is copied in is opened afterwards */

		if (i == 1 && on[0] && on[0] != on[1]) {
			rc = sgpu_engine_follow(engine, on[1 - work], on[work], error);
		}
		if (rc == SGPU_OK && wanted[work]) {
			streams[work] = on[work];
			rc = sgpu_engine_enqueue(on[work], &works[work], tasks[work], error);
		}
	}
	if (rc == SGPU_OK && digests) {
		streams[1] = on[1];
		move->is_digest = true;
		rc = enqueue_digest(move, on[1], error);
	}
	return rc;
}

int sgpu_chunk_move_start(struct sgpu_chunk_move *move, struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = move->transfer;
	struct sgpu_engine *engine = transfer->engine;
	struct sgpu_stream *streams[2] = { NULL, NULL };
	const bool in = sgpu_transfer_is_in(transfer);
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
	if (in && !transfer->direct) {
		rc = read_run(move, error);
	}
	if (rc != SGPU_OK || sgpu_chunk_move_is_moot(move)) {
		sgpu_chunk_move_drop(move, rc, error);
		return rc;
	}
	if (in) {
		pthread_mutex_lock(&engine->mutex);
		transfer->touched = true;
		transfer->needs_digest = transfer->needs_digest && !sgpu_chunk_move_is_single(move);
		pthread_mutex_unlock(&engine->mutex);
	}
	rc = enqueue(move,
		     transfer->direct
			     ? transfer->memory + sgpu_transfer_position(transfer, move->run.first)
			     : move->buffer->host,
		     streams, error);
	sgpu_chunk_move_hear(move, streams[0], streams[1], rc, error);
	return SGPU_OK;
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

void sgpu_chunk_move_digest(struct sgpu_chunk_move *move)
{
	struct sgpu_transfer *transfer = move->transfer;
	struct sgpu_error error = { 0 };
	struct sgpu_stream *stream = NULL;
	int rc = sgpu_transfer_get_stream(transfer, sgpu_transfer_crypt_row(transfer), &stream,
					  &error);

	if (rc == SGPU_OK) {
		rc = enqueue_digest(move, stream, &error);
	}
	sgpu_chunk_move_hear(move, stream, NULL, rc, &error);
}
