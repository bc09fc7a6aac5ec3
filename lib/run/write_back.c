/* SPDX-License-Identifier: Apache-2.0
 *
 * The drain: results that are too large for pinned memory. Its thread sends a piece into a pinned slot, and while that
 * is under way copies the one before it on to ordinary memory, with all cores. So the driver waits for none of it.
 */
#include "run/transfers.h"

#include <stdlib.h>

struct sgpu_write_back {
	struct sgpu_transfers *run;
	struct sgpu_blocking task;
	pthread_mutex_t mutex;          /* the queue, and whether a thread works on it */
	pthread_cond_t idle;
	struct sgpu_run_leaving *head, *tail;
	bool working;
	/* the thread's */
	void *slots[SGPU_RUN_DRAIN_SLOTS];
	bool no_slots;                  /* none could be had: then the device's driver copies to ordinary memory */
	struct sgpu_event *copied[SGPU_RUN_DRAIN_SLOTS];
};

static void make_slots(struct sgpu_write_back *drain, uint64_t size)
{
	drain->no_slots = !drain->run->base->traits->pins;
	for (int i = 0; i < SGPU_RUN_DRAIN_SLOTS && !drain->no_slots; i++) {
		drain->no_slots = !drain->slots[i] &&
			sgpu_stock_take_host(drain->run->base->stock, size, &drain->slots[i], NULL) != SGPU_OK;
	}
}

/* Waits for a piece, and takes it on to where it belongs. */
static int finish_piece(struct sgpu_write_back *drain, struct sgpu_run_leaving *l, int piece)
{
	int slot = piece % SGPU_RUN_DRAIN_SLOTS, rc = sgpu_event_sync(drain->copied[slot], &l->error);
	uint64_t bytes, at = sgpu_result_offset(l, piece, &bytes);

	sgpu_event_free(&drain->copied[slot]);
	if (rc == SGPU_OK) {
		rc = l->pieces[piece].copy.code;
	}
	if (rc == SGPU_OK && !drain->no_slots) {
		sgpu_move_copy(sgpu_movers(drain->run, bytes), drain->run->segments[l->segment].out_data + at, drain->slots[slot],
			       bytes);
	}
	return rc;
}

static int send_piece(struct sgpu_write_back *drain, struct sgpu_run_leaving *l, int piece)
{
	struct sgpu_transfers *run = drain->run;
	int slot = piece % SGPU_RUN_DRAIN_SLOTS;
	uint64_t bytes, at = sgpu_result_offset(l, piece, &bytes);
	void *to = drain->no_slots ? run->segments[l->segment].out_data + at : drain->slots[slot];
	int rc = atomic_load(&run->base->stop);

	if (rc == SGPU_OK) {
		rc = sgpu_result_send(run, l, piece, to, &l->error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_event_create(run->base->traits->device, &drain->copied[slot], &l->error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_event_record(run->streams[l->lane->copy_row - run->rows.operations], drain->copied[slot]);
	}
	if (rc != SGPU_OK) {
		sgpu_event_free(&drain->copied[slot]);
	}
	return rc;
}

static void drain_one(struct sgpu_write_back *drain, struct sgpu_run_leaving *l)
{
	int sent = 0, done = 0, ended, rc = sgpu_result_begin(drain->run, l, &l->error);

	make_slots(drain, l->lane->slot_size);
	l->path = drain->no_slots ? SGPU_PATH_PAGEABLE : SGPU_PATH_PINNED;
	while (rc == SGPU_OK && sent < l->piece_count) {
		if (sent - done == SGPU_RUN_DRAIN_SLOTS) {
			rc = finish_piece(drain, l, done++);
		}
		if (rc == SGPU_OK) {
			rc = send_piece(drain, l, sent);
			sent += rc == SGPU_OK;
		}
	}
	while (done < sent) {
		ended = finish_piece(drain, l, done++);
		rc = rc == SGPU_OK ? ended : rc;
	}
	/* What became of the sealing is known only now. */
	ended = sgpu_result_settle(drain->run, l->lane);
	l->code = rc == SGPU_OK ? ended : rc;
	sgpu_loop_post(drain->run->base->loop, l->left);
}

static struct sgpu_run_leaving *next_one(struct sgpu_write_back *drain)
{
	struct sgpu_run_leaving *l;

	pthread_mutex_lock(&drain->mutex);
	l = drain->head;
	if (l) {
		drain->head = l->next;
	} else {
		drain->working = false;
		sgpu_threads_release(drain->run->base->threads);
		pthread_cond_signal(&drain->idle);
	}
	pthread_mutex_unlock(&drain->mutex);
	return l;
}

static void write_back_blocking(struct sgpu_blocking *task)
{
	struct sgpu_run_leaving *l;

	while ((l = next_one(task->owner))) {
		drain_one(task->owner, l);
	}
}

static int make(struct sgpu_transfers *run, struct sgpu_error *error)
{
	struct sgpu_write_back *drain = run->drain ? run->drain : calloc(1, sizeof(*drain));

	if (!drain) {
		return sgpu_fail_nomem(error);
	}
	if (!run->drain) {
		drain->run = run;
		drain->task = (struct sgpu_blocking){ .work = write_back_blocking, .owner = drain };
		pthread_mutex_init(&drain->mutex, NULL);
		pthread_cond_init(&drain->idle, NULL);
		run->drain = drain;
	}
	return SGPU_OK;
}

int sgpu_drain_add(struct sgpu_transfers *run, struct sgpu_run_leaving *l, struct sgpu_error *error)
{
	struct sgpu_write_back *drain;
	int rc = make(run, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	drain = run->drain;
	pthread_mutex_lock(&drain->mutex);
	if (!drain->working) {
		rc = sgpu_threads_reserve(run->base->threads, error);
	}
	if (rc == SGPU_OK) {
		if (drain->head) {
			drain->tail->next = l;
		} else {
			drain->head = l;
		}
		drain->tail = l;
		if (!drain->working) {
			drain->working = true;
			sgpu_threads_give(run->base->threads, &drain->task);
		}
	}
	pthread_mutex_unlock(&drain->mutex);
	return rc;
}

void sgpu_drain_free(struct sgpu_transfers *run)
{
	struct sgpu_write_back *drain = run->drain;

	if (!drain) {
		return;
	}
	pthread_mutex_lock(&drain->mutex);
	while (drain->working) {
		pthread_cond_wait(&drain->idle, &drain->mutex);
	}
	pthread_mutex_unlock(&drain->mutex);
	for (int i = 0; i < SGPU_RUN_DRAIN_SLOTS; i++) {
		sgpu_stock_give_host(run->base->stock, &drain->slots[i], run->lanes[run->lane_count].slot_size);
	}
	pthread_cond_destroy(&drain->idle);
	pthread_mutex_destroy(&drain->mutex);
	free(drain);
	run->drain = NULL;
}
