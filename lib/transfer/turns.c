/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns: which transfer gets the next step, and which step. Transfers that may have work are in one
 * queue, those that wait for a staging buffer in another. A transfer that gets a step goes to the
 * end, so that all advance by a chunk run in turn. Transfers of lower rank come first: so one job's
 * inputs arrive before the next one's, and it computes while these arrive. If jobs alternated, all
 * inputs would be equally late.
 */
#include "transfer/engine.h"

#include <string.h>

/* ---- queues; the mutex is held ---- */
/* How many transfers are examined from either end, so that long queues cost no time. */
enum { LOOK_MAX = 64 };

void sgpu_transfer_unqueue(struct sgpu_transfer *transfer)
{
	if (!transfer->queue) {
		return;
	}
	*(transfer->before ? &transfer->before->next : &transfer->queue->head) = transfer->next;
	*(transfer->next ? &transfer->next->before : &transfer->queue->tail) = transfer->before;
	transfer->next = transfer->before = NULL;
	transfer->queue = NULL;
}

void sgpu_transfer_append(struct sgpu_transfer *transfer, struct sgpu_transfer_queue *queue)
{
	struct sgpu_transfer *before, *after = NULL;
	int i;

	sgpu_transfer_unqueue(transfer);
	before = queue->tail;
	for (i = 0; i < LOOK_MAX && before && before->request.rank > transfer->request.rank; i++) {
		after = before;
		before = before->before;
	}
	if (i == LOOK_MAX && before && before->request.rank > transfer->request.rank) {
		/* Too far from the tail: look from the head for one of higher rank. */
		for (after = queue->head, i = 0;
		     i < LOOK_MAX && after->request.rank <= transfer->request.rank; i++) {
			after = after->next;
		}
		before = after->before;
	}
	transfer->before = before;
	transfer->next = after;
	*(before ? &before->next : &queue->head) = transfer;
	*(after ? &after->before : &queue->tail) = transfer;
	transfer->queue = queue;
}

/* Whether choose() would find something to do for the transfer. */
static bool has_work(const struct sgpu_transfer *transfer)
{
	if (transfer->phase == SGPU_PHASE_NEW) {
		return transfer->failed || !sgpu_transfer_is_ordered(transfer);
	}
	return transfer->phase == SGPU_PHASE_MOVING &&
	       (sgpu_transfer_may_write(transfer) || sgpu_transfer_may_digest_beside(transfer) ||
		sgpu_transfer_may_claim(transfer) || sgpu_transfer_is_over(transfer));
}

void sgpu_transfer_post(struct sgpu_transfer *transfer)
{
	struct sgpu_engine *engine = transfer->engine;

	if (transfer->phase == SGPU_PHASE_PREPARING) {
		return; /* the thread that prepares it posts it afterwards */
	}
	if (sgpu_transfer_is_ordered(transfer)) {
		pthread_cond_broadcast(&engine->changed);
	}
	if (has_work(transfer)) {
		sgpu_transfer_append(transfer, &engine->ready);
		sgpu_workers_wake(engine->workers, 1);
	}
}

enum action { NOTHING, PREPARE, MOVE, WRITE, DIGEST, END };

struct turn {
	struct sgpu_transfer *transfer;
	enum action action;
	struct sgpu_chunk_move *move;
};

/* ---- choosing; the mutex is held ---- */
/* Takes a buffer for the next run, if it needs one. If none is free, the transfer waits in the
 * queue of its class. */
static bool take_buffer(struct sgpu_transfer *transfer, struct sgpu_staging_buffer **buffer)
{
	struct sgpu_engine *engine = transfer->engine;
	struct sgpu_staging_pool *pool;
	int rc = SGPU_OK;

	*buffer = transfer->granted;
	transfer->granted = NULL;
	if (*buffer || transfer->class == SGPU_STAGING_NONE) {
		return true;
	}
	pool = &engine->staging[transfer->class];
	if (transfer->queue == &pool->starved) {
		return false; /* it waits for a buffer already */
	}
	if (!pool->starved.head) {
		rc = sgpu_staging_take(engine, transfer->class,
				       sgpu_staging_most(engine, transfer->class), buffer);
	}
	if (rc != SGPU_OK) {
		sgpu_transfer_failed(transfer, transfer->claimed, rc, NULL);
		sgpu_transfer_post(transfer);
	} else if (!*buffer) {
		sgpu_transfer_append(transfer, &pool->starved);
	}
	return *buffer != NULL;
}

static enum action choose_moving(struct sgpu_transfer *transfer, struct sgpu_chunk_move **move)
{
	const bool over = sgpu_transfer_is_over(transfer);
	struct sgpu_staging_buffer *buffer;

	if (sgpu_transfer_may_write(transfer)) {
		*move = transfer->arrived;
		transfer->arrived = (*move)->next;
		return WRITE;
	}
	if (sgpu_transfer_may_digest_beside(transfer) ||
	    (over && transfer->needs_digest && !transfer->failed)) {
		transfer->needs_digest = false;
		*move = sgpu_chunk_move_of_digest(transfer);
		return *move ? DIGEST : NOTHING;
	}
	if (sgpu_transfer_may_claim(transfer)) {
		if (!take_buffer(transfer, &buffer)) {
			return NOTHING;
		}
		*move = sgpu_chunk_move_claim(transfer, buffer);
		return *move ? MOVE : NOTHING;
	}
	if (over) {
		transfer->phase = SGPU_PHASE_ENDING;
	}
	return over ? END : NOTHING;
}

static enum action choose(struct sgpu_transfer *transfer, struct sgpu_chunk_move **move)
{
	*move = NULL;
	if (transfer->phase == SGPU_PHASE_MOVING) {
		return choose_moving(transfer, move);
	}
	if (transfer->phase != SGPU_PHASE_NEW) {
		return NOTHING;
	}
	if (transfer->failed) { /* cancelled before it began */
		transfer->phase = SGPU_PHASE_ENDING;
		return END;
	}
	if (sgpu_transfer_is_ordered(transfer)) {
		return NOTHING; /* sgpu_transfer_pump begins it */
	}
	transfer->phase = SGPU_PHASE_PREPARING;
	return PREPARE;
}

/* ---- doing; without the mutex ---- */
static void prepare(struct sgpu_transfer *transfer)
{
	struct sgpu_engine *engine = transfer->engine;
	struct sgpu_error error = { 0 };
	int rc = sgpu_transfer_prepare(transfer, &error);

	pthread_mutex_lock(&engine->mutex);
	if (rc != SGPU_OK) {
		sgpu_transfer_failed(transfer, 0, rc, &error);
	}
	if (transfer->class != SGPU_STAGING_NONE) {
		engine->staging[transfer->class].earned += transfer->earns;
	}
	if (transfer->extra > 0 || transfer->earns > 0) {
		engine->staging[transfer->class].extra += transfer->extra;
		sgpu_staging_share(engine, transfer->class);
	}
	transfer->phase = SGPU_PHASE_MOVING;
	pthread_mutex_unlock(&engine->mutex);
}

static void act(const struct turn *turn)
{
	struct sgpu_error error = { 0 };

	switch (turn->action) {
	case PREPARE:
		prepare(turn->transfer);
		pthread_mutex_lock(&turn->transfer->engine->mutex);
		sgpu_transfer_post(turn->transfer);
		pthread_mutex_unlock(&turn->transfer->engine->mutex);
		break;
	case MOVE:
		(void)sgpu_chunk_move_start(turn->move, &error);
		break;
	case WRITE:
		(void)sgpu_chunk_move_write(turn->move, &error);
		break;
	case DIGEST:
		sgpu_chunk_move_digest(turn->move);
		break;
	case END:
		sgpu_transfer_end(turn->transfer);
		break;
	default:
		break;
	}
}

/* Chooses what to do for a queued transfer, and moves it to its queue's end. The mutex is held. */
static void take_turn(struct turn *turn)
{
	struct sgpu_engine *engine = turn->transfer->engine;

	sgpu_transfer_unqueue(turn->transfer);
	turn->action = choose(turn->transfer, &turn->move);
	if (turn->action == NOTHING) {
		return;
	}
	atomic_fetch_add(&turn->transfer->references, 1);
	if (turn->action != END && turn->action != PREPARE) {
		sgpu_transfer_append(turn->transfer, &engine->ready);
	}
	if (engine->ready.head) {
		sgpu_workers_wake(engine->workers, 1);
	}
}

/* *light: the device reaches the host's bytes itself, so the thread only told it what to move. */
static bool do_turn(const struct turn *turn, bool *light)
{
	if (turn->action == NOTHING) {
		return false;
	}
	act(turn);
	*light = turn->transfer->registered && turn->action != DIGEST;
	sgpu_transfer_unref(turn->transfer);
	return true;
}

bool sgpu_engine_work(void *argument, unsigned thread)
{
	struct sgpu_engine *engine = argument;
	struct turn turn = { .action = NOTHING };
	bool light = false;

	(void)thread;
	pthread_mutex_lock(&engine->mutex);
	while (turn.action == NOTHING && (turn.transfer = engine->ready.head)) {
		take_turn(&turn);
	}
	pthread_mutex_unlock(&engine->mutex);
	/* After light work the worker does not look long for more: what is left has its token. */
	return do_turn(&turn, &light) && !light;
}

void sgpu_transfer_begin(struct sgpu_transfer *transfer, unsigned count)
{
	struct sgpu_engine *engine = transfer->engine;
	struct turn turn = { .transfer = transfer, .action = PREPARE };

	pthread_mutex_lock(&engine->mutex);
	transfer->phase = SGPU_PHASE_PREPARING;
	pthread_mutex_unlock(&engine->mutex);
	prepare(transfer);
	for (unsigned i = 0; i < count && turn.action != NOTHING && turn.action != END; i++) {
		pthread_mutex_lock(&engine->mutex);
		turn.action = choose(transfer, &turn.move);
		pthread_mutex_unlock(&engine->mutex);
		act(&turn);
	}
	pthread_mutex_lock(&engine->mutex);
	if (!transfer->queue && transfer->phase == SGPU_PHASE_MOVING) {
		sgpu_transfer_post(transfer);
	}
	pthread_mutex_unlock(&engine->mutex);
}

/* ---- ordered transfers: the thread that pumps ---- */
/* Waits for a buffer and claims the next move of an ordered source; NULL if there is none left. The
 * mutex is held. */
static struct sgpu_chunk_move *wait_for_turn(struct sgpu_transfer *transfer)
{
	struct sgpu_staging_buffer *buffer = NULL;

	while (!transfer->failed && !transfer->claimed_all) {
		if (take_buffer(transfer, &buffer)) {
			return sgpu_chunk_move_claim(transfer, buffer);
		}
		if (!transfer->failed) {
			pthread_cond_wait(&transfer->engine->changed, &transfer->engine->mutex);
		}
	}
	return NULL;
}

/* Reads the rest of a failed payload, since others may follow it in the pipe. */
static int skip_rest(struct sgpu_transfer *transfer, struct sgpu_error *error)
{
	const struct sgpu_transfer_source *source = &transfer->request.source;
	uint64_t size = transfer->request.size;
	uint8_t data[16384];
	int rc = SGPU_OK;

	while (rc == SGPU_OK && transfer->consumed < size) {
		uint64_t left = size - transfer->consumed;
		size_t count = left < sizeof(data) ? (size_t)left : sizeof(data);

		rc = source->read(source->context, transfer->consumed, data, count, error);
		transfer->consumed += count;
	}
	sgpu_wipe(data, sizeof(data));
	return rc;
}

static int pump_in(struct sgpu_transfer *transfer, struct sgpu_error *error)
{
	struct sgpu_engine *engine = transfer->engine;
	struct sgpu_chunk_move *move;
	bool cancelled;
	int rc = SGPU_OK;

	do {
		pthread_mutex_lock(&engine->mutex);
		move = wait_for_turn(transfer);
		cancelled = transfer->cancelled;
		pthread_mutex_unlock(&engine->mutex);
		if (move) {
			rc = sgpu_chunk_move_start(move, error);
		}
	} while (move && rc == SGPU_OK);
	if (cancelled) {
		return sgpu_fail(error, transfer->result.code, "the transfer was cancelled");
	}
	return rc == SGPU_OK ? skip_rest(transfer, error) : rc;
}

/* Waits for the arrival of the next move to write; NULL if there is none left. The mutex is
 * held. */
static struct sgpu_chunk_move *wait_for_arrival(struct sgpu_transfer *transfer)
{
	struct sgpu_chunk_move **link, *move;

	while (!transfer->failed && !(transfer->claimed_all && transfer->moves == 0)) {
		for (link = &transfer->arrived; *link; link = &(*link)->next) {
			if ((*link)->run.first == transfer->consumed) {
				move = *link;
				*link = move->next;
				transfer->consumed += move->run.count;
				return move;
			}
		}
		pthread_cond_wait(&transfer->engine->changed, &transfer->engine->mutex);
	}
	return NULL;
}

static int pump_out(struct sgpu_transfer *transfer, struct sgpu_error *error)
{
	struct sgpu_engine *engine = transfer->engine;
	struct sgpu_chunk_move *move;
	int rc = SGPU_OK;

	do {
		pthread_mutex_lock(&engine->mutex);
		move = wait_for_arrival(transfer);
		if (!move && transfer->failed) {
			rc = sgpu_fail(error, transfer->result.code, "%s",
				       transfer->result.error.text);
		}
		pthread_mutex_unlock(&engine->mutex);
		if (move) {
			rc = sgpu_chunk_move_write(move, error);
		}
	} while (move && rc == SGPU_OK);
	return rc;
}

int sgpu_transfer_pump(struct sgpu_transfer *transfer, struct sgpu_error *error)
{
	bool in = sgpu_transfer_is_in(transfer), begin = false;
	struct sgpu_engine *engine = transfer->engine;
	int rc;

	if (!sgpu_transfer_is_ordered(transfer)) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "a transfer that is not ordered needs no pump");
	}
	pthread_mutex_lock(&engine->mutex);
	if (transfer->phase <= SGPU_PHASE_MOVING) {
		transfer->pumping = true;
		begin = transfer->phase == SGPU_PHASE_NEW && !transfer->failed;
		transfer->phase = begin ? SGPU_PHASE_PREPARING : transfer->phase;
	}
	pthread_mutex_unlock(&engine->mutex);
	if (begin) {
		prepare(transfer);
	}
	pthread_mutex_lock(&engine->mutex);
	sgpu_transfer_post(transfer);
	pthread_mutex_unlock(&engine->mutex);
	rc = in ? pump_in(transfer, error) : pump_out(transfer, error);
	pthread_mutex_lock(&engine->mutex);
	transfer->pumping = false;
	sgpu_transfer_post(transfer);
	pthread_mutex_unlock(&engine->mutex);
	return rc;
}
