/* SPDX-License-Identifier: Apache-2.0
 *
 * One chunk run of a transfer: how it is claimed, and how it ends.
 */
#include "transfer/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sgpu_chunk_move *new_move(struct sgpu_transfer *transfer)
{
	struct sgpu_chunk_move *move = malloc(sizeof(*move));

	if (!move) {
		sgpu_transfer_failed(transfer, transfer->claimed, SGPU_ENOMEM, NULL);
		return NULL;
	}
	*move = (struct sgpu_chunk_move){ .transfer = transfer };
	transfer->moves++;
	return move;
}

struct sgpu_chunk_move *sgpu_chunk_move_claim(struct sgpu_transfer *transfer,
					      struct sgpu_staging_buffer *buffer)
{
	struct sgpu_chunk_move *move = new_move(transfer);
	uint64_t begin, end, whole = sgpu_transfer_bytes(transfer);

	if (!move) {
		if (buffer) {
			sgpu_staging_give(transfer->engine, buffer);
		}
		return NULL;
	}
	move->buffer = buffer;
	move->run = sgpu_chunk_run_at(&transfer->plan, transfer->claimed);
	transfer->claimed += move->run.count;
	transfer->claimed_all = transfer->claimed == transfer->plan.total;
	begin = sgpu_transfer_position(transfer, move->run.first);
	end = sgpu_transfer_position(transfer, transfer->claimed);
	move->bytes = (end < whole ? end : whole) - begin;
	move->plain = transfer->request.key ? sgpu_opened_size(move->bytes) : move->bytes;
	return move;
}

struct sgpu_chunk_move *sgpu_chunk_move_of_digest(struct sgpu_transfer *transfer)
{
	struct sgpu_chunk_move *move = new_move(transfer);

	if (move) {
		move->is_digest = true;
	}
	return move;
}

bool sgpu_chunk_move_is_moot(const struct sgpu_chunk_move *move)
{
	struct sgpu_transfer *transfer = move->transfer;
	bool moot;

	pthread_mutex_lock(&transfer->engine->mutex);
	moot = transfer->cancelled || (transfer->failed && transfer->failed_at < move->run.first);
	pthread_mutex_unlock(&transfer->engine->mutex);
	return moot;
}

void sgpu_transfer_span(struct sgpu_transfer *transfer, enum sgpu_transfer_step step, int row,
			uint64_t begin_ns, uint64_t end_ns, uint64_t bytes)
{
	const struct sgpu_transfer_span span = { step, row, begin_ns, end_ns, bytes };

	if (transfer->request.span && begin_ns != 0) {
		transfer->request.span(transfer->request.argument, &span);
	}
}

/* Releases a move, and goes on with its transfer. The mutex is held; this releases it. */
static void finish(struct sgpu_chunk_move *move)
{
	struct sgpu_transfer *transfer = move->transfer;
	struct sgpu_engine *engine = transfer->engine;
	bool quick = false;

	if (move->buffer) {
		sgpu_staging_give(engine, move->buffer);
	}
	free(move);
	transfer->moves--;
	if (sgpu_transfer_is_over(transfer)) {
		bool in = sgpu_transfer_is_in(transfer);

		/* If no step is left that may call the device, this thread, mostly a callback's,
		 * reports the end. */
		quick = !transfer->failed && !transfer->needs_digest &&
			!(in ? transfer->request.source.close : transfer->request.sink.close);
		if (quick) {
			transfer->phase = SGPU_PHASE_ENDING;
		} else {
			sgpu_transfer_post(transfer);
		}
	} else if (transfer->pumping || (!transfer->queue && !transfer->claimed_all)) {
		sgpu_transfer_post(transfer);
	}
	pthread_mutex_unlock(&engine->mutex);
	if (quick) {
		sgpu_transfer_tell(transfer);
	}
}

void sgpu_chunk_move_drop(struct sgpu_chunk_move *move, int rc, const struct sgpu_error *error)
{
	pthread_mutex_lock(&move->transfer->engine->mutex);
	if (rc != SGPU_OK) {
		sgpu_transfer_failed(move->transfer, move->run.first, rc, error);
	}
	finish(move);
}

static void check_digest(struct sgpu_transfer *transfer)
{
	const uint8_t *expected = transfer->request.expected;
	struct sgpu_error error;

	if (expected && !sgpu_equal(expected, transfer->result.digest, SGPU_KT128_SIZE)) {
		sgpu_fail(&error, SGPU_EAUTH,
			  "its KangarooTwelve digest is not the one that was named");
		sgpu_transfer_failed(transfer, 0, SGPU_EAUTH, &error);
	}
}

static void note_spans(const struct sgpu_chunk_move *move)
{
	struct sgpu_transfer *transfer = move->transfer;
	bool in = sgpu_transfer_is_in(transfer);

	sgpu_transfer_span(transfer, in ? SGPU_STEP_COPY_IN : SGPU_STEP_COPY_OUT, move->copy_row,
			   move->copy.begin_ns, move->copy.end_ns, move->bytes);
	if (!move->is_digest) {
		sgpu_transfer_span(transfer, in ? SGPU_STEP_OPEN : SGPU_STEP_SEAL,
				   sgpu_transfer_crypt_row(transfer), move->crypt.begin_ns,
				   move->crypt.end_ns, move->bytes);
	}
}

/* Called when the streams have done their part of the move, maybe in a callback: it must not call
 * the device. */
static void device_ended(struct sgpu_chunk_move *move)
{
	struct sgpu_transfer *transfer = move->transfer;
	const struct sgpu_task *bad = move->copy.code != SGPU_OK ? &move->copy : &move->crypt;
	uint64_t at = move->run.first;
	struct sgpu_error error;

	note_spans(move);
	pthread_mutex_lock(&transfer->engine->mutex);
	if (bad->code == SGPU_EAUTH && !move->is_digest) {
		at = bad->bad_chunk - transfer->request.first;
		sgpu_fail(&error, SGPU_EAUTH, "chunk %llu does not verify",
			  (unsigned long long)bad->bad_chunk);
		sgpu_transfer_failed(transfer, at, SGPU_EAUTH, &error);
	} else if (bad->code != SGPU_OK) {
		sgpu_transfer_failed(transfer, at, bad->code, &bad->error);
	} else if (move->is_digest) {
		check_digest(transfer);
	}
	if (move->bytes > 0 && bad->code == SGPU_OK) {
		bool lent = transfer->direct ? transfer->registered
					     : move->buffer && move->buffer->lent;

		transfer->result.bytes[!transfer->engine->pins || !lent ? SGPU_PATH_PAGEABLE
				       : transfer->direct		? SGPU_PATH_REGISTERED
							  : SGPU_PATH_PINNED] += move->bytes;
	}
	if (!sgpu_transfer_is_in(transfer) && !transfer->direct && !move->is_digest &&
	    bad->code == SGPU_OK && !transfer->failed) {
		move->next = transfer->arrived;
		transfer->arrived = move;
		sgpu_transfer_post(transfer);
		pthread_mutex_unlock(&transfer->engine->mutex);
		return;
	}
	finish(move);
}

static void part_ended(void *argument)
{
	struct sgpu_chunk_move *move = argument;

	if (atomic_fetch_sub(&move->ends, 1) == 1) {
		device_ended(move);
	}
}

static void hear_from(struct sgpu_chunk_move *move, struct sgpu_stream *stream)
{
	struct sgpu_error error = { 0 };
	int rc;

	if (!stream) {
		return;
	}
	atomic_fetch_add(&move->ends, 1);
	if (sgpu_stream_callback(stream, part_ended, move) == SGPU_OK) {
		return;
	}
	rc = sgpu_stream_sync(stream, &error);
	if (rc != SGPU_OK) {
		pthread_mutex_lock(&move->transfer->engine->mutex);
		sgpu_transfer_failed(move->transfer, move->run.first, rc, &error);
		pthread_mutex_unlock(&move->transfer->engine->mutex);
	}
	part_ended(move);
}

void sgpu_chunk_move_hear(struct sgpu_chunk_move *move, struct sgpu_stream *first,
			  struct sgpu_stream *second, int rc, const struct sgpu_error *error)
{
	atomic_store(&move->ends, 1);
	if (rc != SGPU_OK) {
		pthread_mutex_lock(&move->transfer->engine->mutex);
		sgpu_transfer_failed(move->transfer, move->run.first, rc, error);
		pthread_mutex_unlock(&move->transfer->engine->mutex);
	}
	hear_from(move, first);
	hear_from(move, second == first ? NULL : second);
	part_ended(move);
}

/* ---- how a transfer ends: its failures, what it leaves, and its report ---- */
void sgpu_transfer_failed(struct sgpu_transfer *transfer, uint64_t at, int rc,
			  const struct sgpu_error *error)
{
	struct sgpu_transfer_result *result = &transfer->result;

	if (transfer->cancelled || (transfer->failed && transfer->failed_at <= at)) {
		return;
	}
	transfer->failed = true;
	transfer->failed_at = at;
	result->code = rc;
	result->bad_chunk = transfer->request.first + at;
	if (error && error->text[0]) {
		result->error = *error;
		result->error.code = rc;
	} else {
		sgpu_fail(&result->error, rc, "%s", sgpu_strerror(rc));
	}
}

/* Clears data that were not verified, on the device or in the caller's memory. */
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
			stream, NULL); /* a device that fails here cannot be used any more */
	}
}

static void close_end(const struct sgpu_transfer_request *request)
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
	close_end(&transfer->request);
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
