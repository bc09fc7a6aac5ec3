/* SPDX-License-Identifier: Apache-2.0
 *
 * The drain: results that are too large for pinned memory. Its thread sends a piece into a pinned slot, and while that
 * is under way copies the one before it on to ordinary memory, with all cores. So the driver waits for none of it.
 */
#include "run/output.h"

#include <signal.h>
#include <stdlib.h>

struct sgpu_drain {
	pthread_t thread;
	bool started;
	pthread_mutex_t mutex;          /* the queue and `end` */
	pthread_cond_t filled;
	struct sgpu_run_leaving *head, *tail;
	bool end;
	/* the thread's */
	struct sgpu_run *run;
	void *slots[SGPU_RUN_DRAIN_SLOTS];
	bool no_slots;                  /* none could be had: then the device's driver copies to ordinary memory */
	struct sgpu_event *copied[SGPU_RUN_DRAIN_SLOTS];
	struct sgpu_pool *movers;
};

static void make_slots(struct sgpu_drain *drain, uint64_t size)
{
	drain->no_slots = !drain->run->pins;
	for (int i = 0; i < SGPU_RUN_DRAIN_SLOTS && !drain->no_slots; i++) {
		drain->no_slots = !drain->slots[i] &&
			sgpu_host_alloc(drain->run->device, size, &drain->slots[i], NULL) != SGPU_OK;
	}
}

/* Waits for a piece, and takes it on to where it belongs. */
static int finish_piece(struct sgpu_drain *drain, struct sgpu_run_leaving *l, int piece)
{
	int slot = piece % SGPU_RUN_DRAIN_SLOTS, rc = sgpu_event_sync(drain->copied[slot], &l->error);
	uint64_t bytes, at = sgpu_result_offset(l, piece, &bytes);

	sgpu_event_free(&drain->copied[slot]);
	if (rc == SGPU_OK) {
		rc = l->pieces[piece].copy.code;
	}
	if (rc == SGPU_OK && !drain->no_slots) {
		sgpu_move_copy(drain->movers, drain->run->segments[l->segment].out_data + at, drain->slots[slot],
			       bytes);
	}
	return rc;
}

static int send_piece(struct sgpu_drain *drain, struct sgpu_run_leaving *l, int piece)
{
	struct sgpu_run *run = drain->run;
	int slot = piece % SGPU_RUN_DRAIN_SLOTS;
	uint64_t bytes, at = sgpu_result_offset(l, piece, &bytes);
	void *to = drain->no_slots ? run->segments[l->segment].out_data + at : drain->slots[slot];
	int rc = atomic_load(&run->stop);

	if (rc == SGPU_OK) {
		rc = sgpu_result_send(run, l, piece, to, &l->error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_event_create(run->device, &drain->copied[slot], &l->error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_event_record(run->streams[l->lane->copy_row], drain->copied[slot]);
	}
	if (rc != SGPU_OK) {
		sgpu_event_free(&drain->copied[slot]);
	}
	return rc;
}

static void drain_one(struct sgpu_drain *drain, struct sgpu_run_leaving *l)
{
	int sent = 0, done = 0, ended, rc = sgpu_result_begin(drain->run, l, &l->error);

	make_slots(drain, l->lane->slot_size);
	(void)sgpu_movers(drain->run, &drain->movers, l->actual);
	l->rung = drain->no_slots ? SGPU_RUNG_PAGEABLE : SGPU_RUNG_PINNED;
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
	sgpu_run_post(l->left);
}

static struct sgpu_run_leaving *next_one(struct sgpu_drain *drain)
{
	struct sgpu_run_leaving *l;

	pthread_mutex_lock(&drain->mutex);
	while (!drain->head && !drain->end) {
		pthread_cond_wait(&drain->filled, &drain->mutex);
	}
	l = drain->head;
	if (l) {
		drain->head = l->next;
	}
	pthread_mutex_unlock(&drain->mutex);
	return l;
}

static void *drain_thread(void *argument)
{
	struct sgpu_run_leaving *l;

	while ((l = next_one(argument))) {
		drain_one(argument, l);
	}
	return NULL;
}

static int start(struct sgpu_run *run, struct sgpu_error *error)
{
	struct sgpu_drain *drain = calloc(1, sizeof(*drain));
	sigset_t all, old;
	int failure;

	if (!drain) {
		return sgpu_fail_nomem(error);
	}
	drain->run = run;
	pthread_mutex_init(&drain->mutex, NULL);
	pthread_cond_init(&drain->filled, NULL);
	run->drain = drain;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	failure = pthread_create(&drain->thread, NULL, drain_thread, drain);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	drain->started = failure == 0;
	if (failure != 0) {
		sgpu_drain_stop(run);
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot start a thread");
	}
	return SGPU_OK;
}

int sgpu_drain_add(struct sgpu_run *run, struct sgpu_run_leaving *l, struct sgpu_error *error)
{
	struct sgpu_drain *drain;
	int rc = run->drain ? SGPU_OK : start(run, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	drain = run->drain;
	pthread_mutex_lock(&drain->mutex);
	if (drain->head) {
		drain->tail->next = l;
	} else {
		drain->head = l;
	}
	drain->tail = l;
	pthread_cond_signal(&drain->filled);
	pthread_mutex_unlock(&drain->mutex);
	return SGPU_OK;
}

void sgpu_drain_stop(struct sgpu_run *run)
{
	struct sgpu_drain *drain = run->drain;

	if (!drain) {
		return;
	}
	if (drain->started) {
		pthread_mutex_lock(&drain->mutex);
		drain->end = true;
		pthread_cond_signal(&drain->filled);
		pthread_mutex_unlock(&drain->mutex);
		pthread_join(drain->thread, NULL);
	}
	for (int i = 0; i < SGPU_RUN_DRAIN_SLOTS; i++) {
		sgpu_host_free(run->device, &drain->slots[i], run->lanes[run->lane_count].slot_size);
	}
	sgpu_pool_free(&drain->movers);
	pthread_cond_destroy(&drain->filled);
	pthread_mutex_destroy(&drain->mutex);
	free(drain);
	run->drain = NULL;
}
