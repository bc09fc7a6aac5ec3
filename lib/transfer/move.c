/* SPDX-License-Identifier: Apache-2.0
 *
 * A transfer, driven by its thread. A chunk run passes a staging buffer, which workers help to fill
 * or empty while the device works at earlier runs, or the device reaches it in place. What comes in
 * is opened or digested there: even if the source changes, only verified bytes are used.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "transfer/engine.h"

enum {
	PIECE_CHUNKS = 8,    /* that a worker copies at a time */
	PIECES_A_HELPER = 2, /* pieces for each worker that is called */
	LIVE_CHUNKS = 2,     /* that a worker seals at a time, at least; all are called for that */
	LIVE_PIECES = 64,    /* of a large run */
};

/* ---- what a transfer moves ---- */
void sgpu_transfer_note(struct sgpu_transfer *t, enum sgpu_transfer_step step, uint64_t begin_ns,
			uint64_t end_ns, uint64_t bytes)
{
	const struct sgpu_transfer_span span = {
		.step = step, .begin_ns = begin_ns, .end_ns = end_ns, .bytes = bytes
	};

	if (t->request.span && begin_ns > 0 && end_ns >= begin_ns) {
		t->request.span(t->request.argument, &span);
	}
}

/* Records a failure at chunk `at`; that of the lowest chunk counts. */
static void fail(struct sgpu_transfer *t, uint64_t at, int rc, const struct sgpu_error *error)
{
	if (t->stopped || (t->failed && t->failed_at <= at)) {
		return;
	}
	t->failed = true;
	t->failed_at = at;
	t->result.code = rc;
	t->result.bad_chunk = t->request.first + at;
	if (error && error->text[0]) {
		t->result.error = *error;
		t->result.error.code = rc;
	} else {
		sgpu_fail(&t->result.error, rc, "%s", sgpu_strerror(rc));
	}
}

/* ---- pieces of a run that workers read or write ---- */
struct pieces {
	struct sgpu_transfer *transfer;
	uint8_t *host;	   /* the run in its staging buffer */
	uint64_t position; /* of the run in the source or sink */
	pthread_mutex_t lock;
	int code;
	struct sgpu_error error;
};

static void copy_piece(void *argument, uint64_t begin, uint64_t end)
{
	struct pieces *p = argument;
	struct sgpu_transfer *t = p->transfer;
	const struct sgpu_endpoint *endpoint = &t->request.end;
	const uint64_t at = p->position + begin, size = end - begin;
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;

	if (t->memory && sgpu_transfer_is_in(t)) {
		memcpy(p->host + begin, t->memory + at, size);
	} else if (t->memory) {
		sgpu_transfer_store(t->memory + at, p->host + begin, size);
	} else if (sgpu_transfer_is_in(t)) {
		rc = endpoint->read(endpoint->context, at, p->host + begin, size, &error);
	} else {
		rc = endpoint->write(endpoint->context, at, p->host + begin, size, &error);
	}
	if (rc != SGPU_OK) {
		pthread_mutex_lock(&p->lock);
		p->error = p->code == SGPU_OK ? error : p->error;
		p->code = p->code == SGPU_OK ? rc : p->code;
		pthread_mutex_unlock(&p->lock);
	}
}

/* While a read would wait, buffers of ended runs must not wait as well: others may need them. */
static void read_in_order(struct pieces *p, uint64_t bytes)
{
	struct sgpu_transfer *t = p->transfer;
	const struct sgpu_endpoint *source = &t->request.end;
	uint64_t there = bytes;

	t->reading = true;
	for (uint64_t at = 0; at < bytes && p->code == SGPU_OK; at += there) {
		there = source->await ? source->await(source->context) : bytes;
		there = sgpu_min_u64(there, bytes - at);
		copy_piece(p, at, at + there);
	}
	t->reading = false;
}

static int copy_run(struct sgpu_transfer *t, struct sgpu_chunk_move *move, struct sgpu_error *error)
{
	const bool live = t->request.end.live;
	const uint64_t sealed_at_once = move->run.count / LIVE_PIECES > LIVE_CHUNKS
						? move->run.count / LIVE_PIECES
						: LIVE_CHUNKS;
	const uint64_t grain = (live ? sealed_at_once : PIECE_CHUNKS) * sgpu_transfer_chunk(t);
	const uint64_t begin = sgpu_now_ns();
	const bool alone = sgpu_transfer_is_in(t) ? t->request.end.ordered
						  : !t->memory && !t->request.end.parallel;
	struct pieces pieces = { .transfer = t,
				 .host = move->buffer->host,
				 .position = move->run.first * sgpu_transfer_chunk(t) };
	const unsigned helpers = (unsigned)(move->bytes / grain / (live ? 1 : PIECES_A_HELPER));
	int rc = SGPU_OK;

	if (move->bytes == 0) {
		return SGPU_OK;
	}
	pthread_mutex_init(&pieces.lock, NULL);
	if (alone && sgpu_transfer_is_in(t)) {
		read_in_order(&pieces, move->bytes);
	} else if (alone || helpers == 0) {
		copy_piece(&pieces, 0, move->bytes);
	} else {
		sgpu_pool_enter(t->engine->pool);
		rc = sgpu_pool_for(t->engine->pool, move->bytes, grain, helpers, copy_piece,
				   &pieces);
		sgpu_pool_leave(t->engine->pool);
	}
	pthread_mutex_destroy(&pieces.lock);
	if (pieces.code != SGPU_OK) {
		*error = pieces.error;
		rc = pieces.code;
	}
	if (rc == SGPU_OK) {
		sgpu_transfer_note(t, sgpu_transfer_is_in(t) ? SGPU_STEP_READ : SGPU_STEP_WRITE,
				   begin, sgpu_now_ns(), move->bytes);
	}
	return rc;
}

/* ---- the device's part ---- */
static int enqueue(const struct sgpu_transfer *t, struct sgpu_stream *stream,
		   struct sgpu_work *work, struct sgpu_task *task, struct sgpu_error *error)
{
	static const char *const whats[] = {
		[SGPU_WORK_COPY_IN] = "copy to the device",
		[SGPU_WORK_COPY_OUT] = "copy from the device",
		[SGPU_WORK_DIGEST] = "digest on the device",
		[SGPU_WORK_OPEN] = "open on the device",
		[SGPU_WORK_SEAL] = "seal on the device",
		[SGPU_WORK_OPEN_FROM] = "open on the device",
		[SGPU_WORK_SEAL_TO] = "seal on the device",
	};
	int rc;

	work->task = task;
	task->untimed = t->request.untimed;
	rc = sgpu_enqueue(stream, work, 1);
	return rc == SGPU_OK
		       ? rc
		       : sgpu_fail(error, rc, "cannot %s: %s", whats[work->kind],
				   task->error.text[0] ? task->error.text : sgpu_strerror(rc));
}

static int record(const struct sgpu_transfer *t, struct sgpu_stream *stream,
		  struct sgpu_event **event, struct sgpu_error *error)
{
	int rc = sgpu_event_create(t->engine->device, event, error);

	rc = rc ? rc : sgpu_event_record(stream, *event);
	if (rc != SGPU_OK) {
		sgpu_event_free(event);
	}
	return rc;
}

/* Makes `to` wait for all work that `from` has so far. */
static int follow(const struct sgpu_transfer *t, struct sgpu_chunk_move *move,
		  struct sgpu_stream *from, struct sgpu_stream *to, struct sgpu_error *error)
{
	int rc = from == to ? SGPU_OK : record(t, from, &move->middle, error);

	return rc == SGPU_OK && move->middle ? sgpu_stream_wait(to, move->middle) : rc;
}

static int enqueue_run(struct sgpu_transfer *t, struct sgpu_chunk_move *move,
		       struct sgpu_error *error)
{
	const struct sgpu_transfer_request *request = &t->request;
	const bool in = sgpu_transfer_is_in(t);
	uint8_t *host = t->direct      ? t->memory + move->run.first * sgpu_transfer_chunk(t)
			: move->buffer ? move->buffer->host
				       : NULL;
	const sgpu_devptr plain = request->memory + move->run.first * SGPU_CHUNK;
	const sgpu_devptr sealed = request->key && move->buffer ? move->buffer->device : plain;
	struct sgpu_work crypt = { .kind = in ? SGPU_WORK_OPEN : SGPU_WORK_SEAL,
				   .in = in ? sealed : plain,
				   .out = in ? plain : sealed,
				   .size = in ? move->bytes : move->plain,
				   .key = request->key,
				   .first = request->first + move->run.first,
				   .last = request->last &&
					   move->run.first + move->run.count == t->plan.total,
				   .alone = !t->direct };
	struct sgpu_work copy = { .kind = in ? SGPU_WORK_COPY_IN : SGPU_WORK_COPY_OUT,
				  .size = move->bytes };
	int rc = SGPU_OK;

	*(in ? &copy.out : &copy.in) = sealed;
	copy.from = in ? host : NULL;
	copy.to = in ? NULL : host;
	if (move->reached) {
		crypt.kind = in ? SGPU_WORK_OPEN_FROM : SGPU_WORK_SEAL_TO;
		crypt.from = copy.from;
		crypt.to = copy.to;
		*(in ? &crypt.in : &crypt.out) = 0;
		return enqueue(t, request->crypt, &crypt, &move->crypt, error);
	}
	if (!in && request->key) {
		rc = enqueue(t, request->crypt, &crypt, &move->crypt, error);
		rc = rc ? rc : follow(t, move, request->crypt, request->copy, error);
	}
	if (rc == SGPU_OK && move->bytes > 0) {
		rc = enqueue(t, request->copy, &copy, &move->copy, error);
	}
	if (in && request->key) {
		rc = rc ? rc : follow(t, move, request->copy, request->crypt, error);
		rc = rc ? rc : enqueue(t, request->crypt, &crypt, &move->crypt, error);
	}
	return rc;
}

static struct sgpu_stream *last_stream(const struct sgpu_transfer *t,
				       const struct sgpu_chunk_move *move)
{
	return move->is_digest || move->reached || (sgpu_transfer_is_in(t) && t->request.key)
		       ? t->request.crypt
		       : t->request.copy;
}

static void give_buffer(struct sgpu_transfer *t, struct sgpu_chunk_move *move)
{
	if (move->buffer) {
		sgpu_staging_give(t->engine, move->buffer);
		move->buffer = NULL;
	}
}

/* Nothing touches the buffers and the destination any more after this. */
static void sync_streams(const struct sgpu_transfer *t)
{
	(void)!sgpu_stream_sync(t->request.copy, NULL);
	(void)!sgpu_stream_sync(t->request.crypt, NULL);
}

/* Ends the enqueuing of a move. If that failed half way, waits for what was enqueued. */
static void seal_move(struct sgpu_transfer *t, struct sgpu_chunk_move *move, int rc,
		      struct sgpu_error *error)
{
	rc = rc ? rc : record(t, last_stream(t, move), &move->ended, error);
	if (rc == SGPU_OK) {
		return;
	}
	fail(t, move->run.first, rc, error);
	sync_streams(t);
	sgpu_event_free(&move->middle);
	give_buffer(t, move);
	t->begun--;
}

/* ---- one step ---- */
static struct sgpu_chunk_move *next_move(struct sgpu_transfer *t)
{
	struct sgpu_chunk_move *move = &t->moves[t->begun++ % SGPU_MOVES_MAX];

	memset(move, 0, sizeof(*move));
	return move;
}

static bool begin_run(struct sgpu_transfer *t)
{
	const uint64_t whole = sgpu_transfer_bytes(t), unit = sgpu_transfer_chunk(t);
	struct sgpu_staging_buffer *buffer = NULL;
	struct sgpu_error error = { 0 };
	struct sgpu_chunk_move *move;
	int rc = t->class == SGPU_STAGING_NONE ? SGPU_OK
					       : sgpu_staging_await(t, t->class, &buffer, &error);

	if (rc == SGPU_OK && t->class != SGPU_STAGING_NONE && !buffer) {
		return false;
	}
	if (rc != SGPU_OK) {
		fail(t, t->claimed, rc, &error);
		return true;
	}
	move = next_move(t);
	move->buffer = buffer;
	move->run = sgpu_chunk_run_at(&t->plan, t->claimed);
	t->claimed += move->run.count;
	t->claimed_all = t->claimed == t->plan.total;
	move->bytes = sgpu_min_u64(t->claimed * unit, whole) - move->run.first * unit;
	move->plain = t->request.key ? sgpu_opened_size(move->bytes) : move->bytes;
	if (buffer) {
		rc = sgpu_staging_fill(t->engine, buffer, !t->direct, false, &error);
	}
	if (rc == SGPU_OK && t->request.key) {
		move->reached = sgpu_device_reaches(t->engine->device,
						    t->direct ? t->memory + move->run.first * unit
							      : buffer->host,
						    move->bytes, !sgpu_transfer_is_in(t));
		rc = move->reached || !buffer
			     ? SGPU_OK
			     : sgpu_staging_fill(t->engine, buffer, false, true, &error);
	}
	if (rc == SGPU_OK && sgpu_transfer_is_in(t) && !t->direct) {
		rc = copy_run(t, move, &error);
		sgpu_staging_filled(t->engine, buffer);
		t->source_failed = rc != SGPU_OK && t->request.end.ordered;
		t->consumed += move->bytes;
	}
	if (rc != SGPU_OK) {
		fail(t, move->run.first, rc, &error);
		give_buffer(t, move);
		t->begun--;
		return true;
	}
	t->touched = true;
	seal_move(t, move, enqueue_run(t, move, &error), &error);
	return true;
}

/* The digest of an output is computed beside its runs, that of an input after them. */
static void begin_digest(struct sgpu_transfer *t)
{
	struct sgpu_work digest = { .kind = SGPU_WORK_DIGEST,
				    .in = t->request.memory,
				    .to = t->result.digest,
				    .size = t->request.size };
	struct sgpu_chunk_move *move = next_move(t);
	struct sgpu_error error = { 0 };
	int rc;

	move->is_digest = true;
	t->needs_digest = false;
	rc = sgpu_transfer_is_in(t) ? follow(t, move, t->request.copy, t->request.crypt, &error)
				    : SGPU_OK;
	rc = rc ? rc : enqueue(t, t->request.crypt, &digest, &move->crypt, &error);
	seal_move(t, move, rc, &error);
}

static void end_move(struct sgpu_transfer *t, struct sgpu_chunk_move *move)
{
	const bool in = sgpu_transfer_is_in(t);
	const struct sgpu_task *bad = move->copy.code != SGPU_OK ? &move->copy : &move->crypt;
	const bool lent = t->direct ? t->registered : move->buffer && move->buffer->lent;
	const uint8_t *expected = t->request.expected;
	struct sgpu_error error = { 0 };
	int rc;

	sgpu_transfer_note(t, in ? SGPU_STEP_COPY_IN : SGPU_STEP_COPY_OUT, move->copy.begin_ns,
			   move->copy.end_ns, move->bytes);
	if (!move->is_digest) {
		sgpu_transfer_note(t, in ? SGPU_STEP_OPEN : SGPU_STEP_SEAL, move->crypt.begin_ns,
				   move->crypt.end_ns, move->bytes);
	}
	if (bad->code == SGPU_EAUTH && !move->is_digest) {
		fail(t, bad->bad_chunk - t->request.first, SGPU_EAUTH, &bad->error);
	} else if (bad->code != SGPU_OK) {
		fail(t, move->run.first, bad->code, &bad->error);
	} else if (move->is_digest) {
		if (expected && !sgpu_equal(expected, t->result.digest, SGPU_KT128_SIZE)) {
			sgpu_fail(&error, SGPU_EAUTH, "%s", SGPU_TRANSFER_OTHER_DIGEST);
			fail(t, 0, SGPU_EAUTH, &error);
		}
	} else {
		t->result.bytes[!t->engine->pins || !lent ? SGPU_PATH_PAGEABLE
				: t->direct		  ? SGPU_PATH_REGISTERED
							  : SGPU_PATH_PINNED] += move->bytes;
		if (!in && !t->direct && !t->failed) {
			rc = copy_run(t, move, &error);
			if (rc != SGPU_OK) {
				fail(t, move->run.first, rc, &error);
			}
		}
	}
	give_buffer(t, move);
}

static bool look_at_oldest(struct sgpu_transfer *t)
{
	struct sgpu_chunk_move *move = &t->moves[t->over % SGPU_MOVES_MAX];
	struct sgpu_error error = { 0 };
	bool done = false;
	int rc;

	if (t->over + t->reading == t->begun) {
		return false;
	}
	rc = sgpu_event_query(move->ended, &done, &error);
	if (!done && rc == SGPU_OK) {
		return false;
	}
	/* The first step has ended, too, but only an event of its own stream tells its outcome. */
	rc = rc || !move->middle ? rc : sgpu_event_sync(move->middle, &error);
	if (rc != SGPU_OK) { /* the device is lost, or still at work */
		fail(t, move->run.first, rc, &error);
		sync_streams(t);
	}
	sgpu_event_free(&move->middle);
	sgpu_event_free(&move->ended);
	t->over++;
	end_move(t, move);
	return true;
}

/* While a read blocks, ended runs keep staging buffers that others may need. */
static bool may_read(const struct sgpu_transfer *t, bool may_block)
{
	const struct sgpu_endpoint *source = &t->request.end;

	return (may_block && (source->await || t->over == t->begun)) || !source->waits ||
	       !source->waits(source->context);
}

bool sgpu_transfer_is_idle(const struct sgpu_transfer *t)
{
	return t->over + t->reading == t->begun;
}

/* On the device or in the caller's memory. */
static void clear_destination(struct sgpu_transfer *t)
{
	const struct sgpu_transfer_request *request = &t->request;

	if (!sgpu_transfer_is_in(t)) {
		if (request->end.memory) {
			sgpu_wipe(t->memory, sgpu_transfer_bytes(t));
		}
	} else if (t->touched && request->size > 0 &&
		   sgpu_device_clear(request->crypt, request->memory,
				     request->key ? sgpu_opened_size(request->size) : request->size,
				     NULL) == SGPU_OK) {
		/* a device that fails here cannot be used any more */
		(void)!sgpu_stream_sync(request->crypt, NULL);
	}
	t->touched = false;
}

/* Ends a transfer of which nothing is under way, unless a rest has to be read first. */
static bool come_to_end(struct sgpu_transfer *t, bool may_block)
{
	const struct sgpu_endpoint *end = &t->request.end;
	uint8_t rest[16384];

	sgpu_staging_leave(t);
	if (t->failed) {
		clear_destination(t);
	}
	if (t->failed && end->ordered && !t->stopped && !t->source_failed &&
	    t->consumed < t->request.size) { /* others may follow in the pipe */
		const size_t count = sgpu_min_u64(t->request.size - t->consumed, sizeof(rest));

		if (!may_read(t, may_block)) {
			return false;
		}
		t->source_failed =
			end->read(end->context, t->consumed, rest, count, NULL) != SGPU_OK;
		t->consumed += count;
		sgpu_wipe(rest, sizeof(rest));
		return true;
	}
	if (end->close) {
		end->close(end->context);
	}
	t->result.end_ns = sgpu_now_ns();
	t->ended = true;
	return true;
}

bool sgpu_transfer_step(struct sgpu_transfer *t, bool may_block)
{
	bool done;

	if (t->ended) {
		return false;
	}
	done = look_at_oldest(t);
	if (t->reading) {
		return done;
	}
	if (!t->failed && t->begun - t->over < t->most_moves) {
		if (t->needs_digest && (!sgpu_transfer_is_in(t) || t->claimed_all)) {
			begin_digest(t);
			return true;
		}
		if (!t->claimed_all && may_read(t, may_block)) {
			return begin_run(t) || done;
		}
	}
	if (t->over == t->begun && (t->failed || (t->claimed_all && !t->needs_digest))) {
		return come_to_end(t, may_block) || done;
	}
	return done;
}

bool sgpu_transfer_has_read(const struct sgpu_transfer *t)
{
	return t->ended || (t->claimed_all && !t->failed);
}

void sgpu_transfer_stop(struct sgpu_transfer *t, int rc)
{
	if (!t->ended && !t->stopped) {
		fail(t, 0, rc, NULL);
		t->stopped = true;
	}
}

const struct sgpu_transfer_result *sgpu_transfer_end(const struct sgpu_transfer *t)
{
	return t->ended ? &t->result : NULL;
}

const struct sgpu_transfer_result *sgpu_transfer_wait(struct sgpu_transfer *t)
{
	uint64_t since = sgpu_now_ns();

	while (!t->ended) {
		if (sgpu_transfer_step(t, true)) {
			since = sgpu_now_ns();
		} else {
			sgpu_device_pause(since);
		}
	}
	return &t->result;
}

void sgpu_transfer_free(struct sgpu_transfer **transfer)
{
	if (transfer && *transfer) {
		sgpu_free_wiped(transfer, sizeof(**transfer));
	}
}
