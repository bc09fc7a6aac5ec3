/* SPDX-License-Identifier: Apache-2.0
 *
 * One transfer, driven by its thread. On its way in, a chunk run is read into a staging buffer, or
 * in place by the device; then it is copied, and opened or digested by the device. Even if the
 * source changes meanwhile, only verified bytes are used. On its way out a run is sealed on the
 * device, and copied to its destination or to a staging buffer, from which it is written. Workers
 * help to read and to write; the device works at earlier runs meanwhile.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "transfer/engine.h"

enum {
	PIECE_CHUNKS = 8,    /* that a worker copies at a time */
	PIECES_A_HELPER = 2, /* pieces for each worker that is called */
	DIRECT_MIN_RUNS = 8,
};
#define SPIN_NS ((uint64_t)100000)
#define SLEEP_MIN_NS ((uint64_t)5000)
#define SLEEP_MAX_NS ((uint64_t)200000)

void sgpu_wait_a_little(uint64_t begin_ns)
{
	const uint64_t waited = sgpu_now_ns() - begin_ns;
	uint64_t step = waited / 16;

	if (waited < SPIN_NS) {
		sgpu_pause();
		if (sgpu_cpu_count() < 2) {
			(void)sched_yield();
		}
		return;
	}
	step = step < SLEEP_MIN_NS ? SLEEP_MIN_NS : step < SLEEP_MAX_NS ? step : SLEEP_MAX_NS;
	(void)nanosleep(&(struct timespec){ .tv_nsec = (long)step }, NULL);
}

/* ---- chunk runs: small at an end where other stages would wait for a large one ---- */
static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct sgpu_chunk_run sgpu_chunk_run_at(const struct sgpu_run_plan *plan, uint64_t first)
{
	struct sgpu_chunk_run run = { .first = first, .count = plan->largest };
	uint64_t rest = plan->total - first, left;

	if (plan->at_begin) {
		run.count = sgpu_min_u64(
			run.count, max_u64(first, plan->at_begin)); /* all earlier runs together */
	}
	if (plan->at_end) {
		/* A device opens more than three times as fast as the bus moves, so take most of
		 * the rest. */
		run.count = sgpu_min_u64(run.count, max_u64(rest / 4 * 3, plan->at_end));
	}
	run.count = sgpu_min_u64(run.count, rest);
	/* Adds a small rest. The last chunk is never a run of its own: if it is empty, its address
	 * is past the end. */
	left = rest - run.count;
	if (left < 2 || 2 * left < max_u64(plan->at_begin, plan->at_end)) {
		run.count = rest;
	}
	return run;
}

/* A largest run with the small rest that may be added. */
uint64_t sgpu_chunk_run_most(uint64_t largest, uint64_t smallest)
{
	return largest + smallest / 2 + 2;
}

/* ---- what a transfer moves ---- */
static bool is_in(const struct sgpu_transfer *t)
{
	return t->request.direction == SGPU_TRANSFER_IN;
}

static uint64_t chunk_bytes(const struct sgpu_transfer *t)
{
	return t->request.key ? SGPU_SEALED_CHUNK : SGPU_CHUNK;
}

/* As moved: the size of the whole transfer. */
static uint64_t all_bytes(const struct sgpu_transfer *t)
{
	const bool seals = t->request.key && !is_in(t);

	return t->request.size + (seals ? t->plan.total * SGPU_TAG_SIZE : 0);
}

static void note_span(struct sgpu_transfer *t, enum sgpu_transfer_step step, int row,
		      uint64_t begin_ns, uint64_t end_ns, uint64_t bytes)
{
	const struct sgpu_transfer_span span = {
		.step = step, .row = row, .begin_ns = begin_ns, .end_ns = end_ns, .bytes = bytes
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

static int plan_chunks(struct sgpu_transfer *t, struct sgpu_error *error)
{
	const struct sgpu_transfer_request *request = &t->request;
	uint64_t unit = request->key && is_in(t) ? SGPU_SEALED_CHUNK : SGPU_CHUNK, end;

	if (!sgpu_add_u64(request->size, (request->size / SGPU_CHUNK + 1) * SGPU_TAG_SIZE, &end) ||
	    (request->key && !is_in(t) && !request->last && request->size % SGPU_CHUNK != 0)) {
		return sgpu_fail(error, SGPU_EUSAGE, "a transfer of %llu bytes has no whole chunks",
				 (unsigned long long)request->size);
	}
	t->plan.total = request->size / unit +
			(request->size % unit != 0 || (request->key && !is_in(t) && request->last));
	return SGPU_OK;
}

/* Finds the source's or sink's memory. Time to register it counts as reading. */
static void look_at_ends(struct sgpu_transfer *t)
{
	const struct sgpu_transfer_request *request = &t->request;
	uint64_t bytes = all_bytes(t), begin = sgpu_now_ns();

	if (!is_in(t) && request->sink.view) {
		t->memory = request->sink.view(request->sink.context, bytes, &t->registered);
	} else if (is_in(t) && request->source.view && !request->source.ordered) {
		t->memory = request->source.view(request->source.context, bytes, &t->registered);
		if (t->memory && request->source.read) {
			note_span(t, SGPU_STEP_READ, -1, begin, sgpu_now_ns(), bytes);
		}
	}
	t->direct = t->memory && (t->registered || !t->engine->pins);
}

/* Chooses the kind and number of staging buffers and the runs' size. */
static void plan_runs(struct sgpu_transfer *t)
{
	struct sgpu_engine *engine = t->engine;
	const struct sgpu_engine_config *config = &engine->config;
	const bool sealed = t->request.key != NULL;
	const uint64_t bytes = all_bytes(t);
	struct sgpu_run_plan *plan = &t->plan;

	plan->largest = config->staged_run / SGPU_CHUNK;
	t->most_moves = SGPU_MOVES_MAX;
	if (bytes <= SGPU_TRANSFER_SMALL) {
		t->class = t->direct && !sealed ? SGPU_STAGING_NONE : SGPU_STAGING_SMALL;
		plan->largest = plan->total;
	} else if (!t->direct || (sealed && bytes < DIRECT_MIN_RUNS * config->staged_run)) {
		t->class = SGPU_STAGING_LARGE;
		pthread_mutex_lock(&engine->mutex);
		engine->staging[SGPU_STAGING_LARGE].earned += bytes / 4;
		pthread_mutex_unlock(&engine->mutex);
	} else {
		t->class = sealed ? SGPU_STAGING_DIRECT : SGPU_STAGING_NONE;
		t->most_moves = config->direct_count < SGPU_MOVES_MAX ? config->direct_count
								      : SGPU_MOVES_MAX;
		plan->largest = config->direct_run / SGPU_CHUNK;
	}
	if (sealed && plan->total > plan->largest) {
		plan->at_end = is_in(t) ? config->last_run / SGPU_CHUNK : 0;
		plan->at_begin = t->request.source.live ? config->first_run / SGPU_CHUNK
				 : is_in(t)		? 0
							: config->last_run / SGPU_CHUNK;
	}
}

int sgpu_transfer_begin(struct sgpu_engine *engine, const struct sgpu_transfer_request *request,
			struct sgpu_transfer **transfer, struct sgpu_error *error)
{
	const bool in = request->direction == SGPU_TRANSFER_IN;
	struct sgpu_transfer *t;
	int rc;

	*transfer = NULL;
	if (in ? !request->source.read && (request->source.ordered || !request->source.view)
	       : !request->sink.write && !request->sink.view) {
		return sgpu_fail(error, SGPU_EUSAGE, "a transfer lacks a source or a sink");
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		return sgpu_fail_nomem(error);
	}
	t->engine = engine;
	t->request = *request;
	t->class = SGPU_STAGING_NONE;
	t->result.begin_ns = sgpu_now_ns();
	rc = plan_chunks(t, error);
	if (rc != SGPU_OK) {
		free(t);
		return rc;
	}
	look_at_ends(t);
	plan_runs(t);
	t->needs_digest = request->digested && !request->key;
	*transfer = t;
	return SGPU_OK;
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
	const struct sgpu_transfer_source *source = &t->request.source;
	const struct sgpu_transfer_sink *sink = &t->request.sink;
	const uint64_t at = p->position + begin, size = end - begin;
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;

	if (t->memory && is_in(t)) {
		memcpy(p->host + begin, t->memory + at, size);
	} else if (t->memory) {
		sgpu_transfer_store(t->memory + at, p->host + begin, size);
	} else if (is_in(t)) {
		rc = source->read(source->context, at, p->host + begin, size, &error);
	} else {
		rc = sink->write(sink->context, at, p->host + begin, size, &error);
	}
	if (rc != SGPU_OK) {
		pthread_mutex_lock(&p->lock);
		p->error = p->code == SGPU_OK ? error : p->error;
		p->code = p->code == SGPU_OK ? rc : p->code;
		pthread_mutex_unlock(&p->lock);
	}
}

/* Reads a run into its staging buffer, or writes it from there. */
static int copy_run(struct sgpu_transfer *t, struct sgpu_chunk_move *move, struct sgpu_error *error)
{
	/* The pages of a file are mapped for each piece, which costs less for large ones. */
	const bool maps = !is_in(t) && !t->memory;
	const uint64_t grain = (maps ? 4 : 1) * PIECE_CHUNKS * chunk_bytes(t);
	const uint64_t begin = sgpu_now_ns();
	const bool alone =
		is_in(t) ? t->request.source.ordered : !t->memory && !t->request.sink.parallel;
	struct pieces pieces = { .transfer = t,
				 .host = move->buffer->host,
				 .position = move->run.first * chunk_bytes(t) };
	unsigned helpers =
		(unsigned)sgpu_min_u64(move->bytes / grain / PIECES_A_HELPER, SGPU_POOL_JOBS_MAX);
	int rc = SGPU_OK;

	if (move->bytes == 0) {
		return SGPU_OK;
	}
	pthread_mutex_init(&pieces.lock, NULL);
	if (alone || helpers == 0) {
		copy_piece(&pieces, 0, move->bytes);
	} else {
		sgpu_pool_enter(t->engine->pool);
		rc = sgpu_pool_share(t->engine->pool, move->bytes, grain, helpers, copy_piece,
				     &pieces);
		sgpu_pool_leave(t->engine->pool);
	}
	pthread_mutex_destroy(&pieces.lock);
	if (pieces.code != SGPU_OK) {
		*error = pieces.error;
		rc = pieces.code;
	}
	if (rc == SGPU_OK) {
		note_span(t, is_in(t) ? SGPU_STEP_READ : SGPU_STEP_WRITE, -1, begin, sgpu_now_ns(),
			  move->bytes);
	}
	return rc;
}

/* ---- the device's part ---- */
static int enqueue(struct sgpu_stream *stream, struct sgpu_work *work, struct sgpu_task *task,
		   struct sgpu_error *error)
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
	rc = sgpu_enqueue(stream, work, 1);
	return rc == SGPU_OK
		       ? rc
		       : sgpu_fail(error, rc, "cannot %s: %s", whats[work->kind],
				   task->error.text[0] ? task->error.text : sgpu_strerror(rc));
}

/* Records an event after all work that the stream has. */
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

/* Enqueues the run's copy and its opening or sealing. */
static int enqueue_run(struct sgpu_transfer *t, struct sgpu_chunk_move *move,
		       struct sgpu_error *error)
{
	const struct sgpu_transfer_request *request = &t->request;
	const bool in = is_in(t);
	uint8_t *host = t->direct      ? t->memory + move->run.first * chunk_bytes(t)
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
		return enqueue(request->crypt, &crypt, &move->crypt, error);
	}
	if (!in && request->key) {
		rc = enqueue(request->crypt, &crypt, &move->crypt, error);
		rc = rc ? rc : follow(t, move, request->crypt, request->copy, error);
	}
	if (rc == SGPU_OK && move->bytes > 0) {
		rc = enqueue(request->copy, &copy, &move->copy, error);
	}
	if (in && request->key) {
		rc = rc ? rc : follow(t, move, request->copy, request->crypt, error);
		rc = rc ? rc : enqueue(request->crypt, &crypt, &move->crypt, error);
	}
	return rc;
}

/* The stream on which the move's work ends. */
static struct sgpu_stream *last_stream(const struct sgpu_transfer *t,
				       const struct sgpu_chunk_move *move)
{
	return move->is_digest || move->reached || (is_in(t) && t->request.key) ? t->request.crypt
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

/* Begins the next run. Returns false if no staging buffer is free. */
static bool begin_run(struct sgpu_transfer *t)
{
	const uint64_t whole = all_bytes(t), unit = chunk_bytes(t);
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
						    move->bytes, !is_in(t));
		rc = move->reached || !buffer
			     ? SGPU_OK
			     : sgpu_staging_fill(t->engine, buffer, false, true, &error);
	}
	if (rc == SGPU_OK && is_in(t) && !t->direct) {
		rc = copy_run(t, move, &error);
		sgpu_staging_filled(t->engine, buffer);
		t->result.source_failed = rc != SGPU_OK && t->request.source.ordered;
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
	rc = is_in(t) ? follow(t, move, t->request.copy, t->request.crypt, &error) : SGPU_OK;
	rc = rc ? rc : enqueue(t->request.crypt, &digest, &move->crypt, &error);
	seal_move(t, move, rc, &error);
}

static void check_digest(struct sgpu_transfer *t)
{
	const uint8_t *expected = t->request.expected;
	struct sgpu_error error;

	if (expected && !sgpu_equal(expected, t->result.digest, SGPU_KT128_SIZE)) {
		sgpu_fail(&error, SGPU_EAUTH,
			  "its KangarooTwelve digest is not the one that was named");
		fail(t, 0, SGPU_EAUTH, &error);
	}
}

/* Takes the outcome of the oldest move, whose work has ended, and writes what came out. */
static void end_move(struct sgpu_transfer *t, struct sgpu_chunk_move *move)
{
	const bool in = is_in(t);
	const struct sgpu_task *bad = move->copy.code != SGPU_OK ? &move->copy : &move->crypt;
	const bool lent = t->direct ? t->registered : move->buffer && move->buffer->lent;
	struct sgpu_error error = { 0 };
	int rc;

	note_span(t, in ? SGPU_STEP_COPY_IN : SGPU_STEP_COPY_OUT,
		  in ? SGPU_ENGINE_COPY_IN : SGPU_ENGINE_COPY_OUT, move->copy.begin_ns,
		  move->copy.end_ns, move->bytes);
	if (!move->is_digest) {
		note_span(t, in ? SGPU_STEP_OPEN : SGPU_STEP_SEAL,
			  in ? SGPU_ENGINE_OPEN : SGPU_ENGINE_SEAL, move->crypt.begin_ns,
			  move->crypt.end_ns, move->bytes);
	}
	if (bad->code == SGPU_EAUTH && !move->is_digest) {
		sgpu_fail(&error, SGPU_EAUTH, "chunk %llu does not verify",
			  (unsigned long long)bad->bad_chunk);
		fail(t, bad->bad_chunk - t->request.first, SGPU_EAUTH, &error);
	} else if (bad->code != SGPU_OK) {
		fail(t, move->run.first, bad->code, &bad->error);
	} else if (move->is_digest) {
		check_digest(t);
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

/* Ends the oldest move if the device has. */
static bool look_at_oldest(struct sgpu_transfer *t)
{
	struct sgpu_chunk_move *move = &t->moves[t->over % SGPU_MOVES_MAX];
	struct sgpu_error error = { 0 };
	bool done = false;
	int rc;

	if (t->over == t->begun) {
		return false;
	}
	rc = sgpu_event_query(move->ended, &done, &error);
	if (!done && rc == SGPU_OK) {
		return false;
	}
	/* The first step has ended, too, but only an event of its own stream tells its outcome. */
	rc = rc || !move->middle ? rc : sgpu_event_query(move->middle, &done, &error);
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

/* While a read blocks, runs that have ended keep their staging buffers, which others may need. */
static bool may_read(const struct sgpu_transfer *t, bool may_block)
{
	const struct sgpu_transfer_source *source = &t->request.source;

	return (may_block && t->over == t->begun) || !source->waits ||
	       !source->waits(source->context);
}

/* Whether a failed payload has a rest, which is read, since others may follow it in the pipe. */
static bool has_rest(const struct sgpu_transfer *t)
{
	return t->request.source.ordered && !t->stopped && !t->result.source_failed &&
	       t->consumed < t->request.size;
}

/* Reads a piece of the rest. */
static void skip_piece(struct sgpu_transfer *t)
{
	const struct sgpu_transfer_source *source = &t->request.source;
	uint8_t data[16384];
	const size_t count = sgpu_min_u64(t->request.size - t->consumed, sizeof(data));

	t->result.source_failed =
		source->read(source->context, t->consumed, data, count, NULL) != SGPU_OK;
	t->consumed += count;
	sgpu_wipe(data, sizeof(data));
}

/* Clears data that were not verified, on the device or in the caller's memory. */
static void clear_destination(struct sgpu_transfer *t)
{
	const struct sgpu_transfer_request *request = &t->request;

	if (!is_in(t)) {
		if (t->memory && !request->sink.write) {
			sgpu_wipe(t->memory, all_bytes(t));
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

static void end(struct sgpu_transfer *t)
{
	const struct sgpu_transfer_request *request = &t->request;

	if (is_in(t) && request->source.close) {
		request->source.close(request->source.context);
	} else if (!is_in(t) && request->sink.close) {
		request->sink.close(request->sink.context);
	}
	t->result.end_ns = sgpu_now_ns();
	t->ended = true;
}

/* Ends a transfer of which nothing is under way, unless a rest has to be read first. */
static bool come_to_end(struct sgpu_transfer *t, bool may_block)
{
	bool reads;

	sgpu_staging_leave(t);
	if (t->failed) {
		clear_destination(t);
	}
	if (!t->failed || !has_rest(t)) {
		end(t);
		return true;
	}
	reads = may_read(t, may_block);
	if (reads) {
		skip_piece(t);
	}
	return reads;
}

static bool step(struct sgpu_transfer *t, bool may_block)
{
	bool done;

	if (t->ended) {
		return false;
	}
	done = look_at_oldest(t);
	if (!t->failed && t->begun - t->over < t->most_moves) {
		if (t->needs_digest && (!is_in(t) || t->claimed_all)) {
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

bool sgpu_transfer_step(struct sgpu_transfer *t)
{
	return step(t, false);
}

bool sgpu_transfer_block(struct sgpu_transfer *t)
{
	return step(t, true);
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
		if (sgpu_transfer_block(t)) {
			since = sgpu_now_ns();
		} else {
			sgpu_wait_a_little(since);
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
