/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves on the host alone: the workers, the order of chunk runs, and the choice of one error.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "transfer/host.h"

enum { BUFFER_ALIGNMENT = 4096 };

/* Whether a chunk run before this one has failed. The lock is held. */
static bool host_failed_before(const struct host_move *move, const struct host_part *part,
			       uint64_t sequence)
{
	return move->failed && (move->failed_part < part ||
				(move->failed_part == part && move->failed_sequence < sequence));
}

static void host_fail(struct host_move *move, uint64_t sequence, const struct host_part *part,
		      uint64_t bad_chunk, const struct sgpu_error *error)
{
	pthread_mutex_lock(&move->lock);
	if (!host_failed_before(move, part, sequence)) {
		move->failed = true;
		move->failed_sequence = sequence;
		move->failed_part = part;
		move->bad_chunk = bad_chunk;
		move->error = *error;
	}
	pthread_cond_broadcast(&move->turn_came);
	pthread_mutex_unlock(&move->lock);
}

/* Ends claims from this part on. Earlier parts go on, since their errors take precedence. */
static void host_end_at(struct host_move *move, const struct host_part *part)
{
	const size_t index = (size_t)(part - move->parts);

	move->end = index < move->end ? index : move->end;
}

/* Gives the worker its own copy of a part's key schedule. The worker holds the claim, which guards
 * the original. */
static int host_take_aead(struct host_worker *worker, const struct host_part *part,
			  struct sgpu_error *error)
{
	if (worker->aead_of == part || !part->aead) {
		return 0;
	}
	sgpu_aead_free(&worker->aead);
	worker->aead_of = NULL;
	int rc = sgpu_aead_copy(part->aead, &worker->aead, error);
	worker->aead_of = rc ? NULL : part;
	return rc;
}

static bool is_claimed(const struct host_part *part)
{
	return part->begun && part->next == part->runs;
}

/* Whether runs of `part` may be claimed while the first part is unfinished. It must not be ordered,
 * and its sink must be another, since writers of one file exclude each other. */
static bool is_apart(const struct host_move *move, const struct host_part *part)
{
	const struct host_part *first = &move->parts[move->at];

	return !part->part->source.ordered && !part->part->sink.ordered &&
	       (part == first || part->part->sink.context != first->part->sink.context);
}

static struct host_part *host_next_part(struct host_move *move)
{
	struct host_part *parts = move->parts;
	size_t end;

	while (move->at < move->end && is_claimed(&parts[move->at])) {
		move->at++;
	}
	if (move->at >= move->end) {
		return NULL;
	}
	for (end = move->at + 1; end < move->end && end < move->at + HOST_BESIDE; end++) {
		if (!parts[end - 1].begun || !is_apart(move, &parts[end - 1]) ||
		    !is_apart(move, &parts[end])) {
			break;
		}
	}
	do {
		move->latest = move->latest >= move->at && move->latest + 1 < end ? move->latest + 1
										  : move->at;
	} while (is_claimed(&parts[move->latest]));
	return &parts[move->latest];
}

/* Claims the next chunk run: begins its part, and reads the run if its source is ordered. Returns
 * false if none is left. */
static bool host_claim(struct host_worker *worker, struct host_run *run, struct sgpu_error *error,
		       int *code)
{
	struct host_move *move = worker->move;
	struct host_part *part;

	pthread_mutex_lock(&move->lock);
	if (move->failed) {
		host_end_at(move, move->failed_part);
	}
	pthread_mutex_unlock(&move->lock);
	do { /* a part that turns out to be ordered has to wait */
		/* look for a part first: if no run is left, a signal changes nothing */
		part = host_next_part(move);
		if (!part || sgpu_io_interrupted()) {
			return false;
		}
		*code = part->begun ? 0 : sgpu_host_part_begin(part, error);
	} while (!*code && part != &move->parts[move->at] && !is_apart(move, part));
	*run = (struct host_run){ .of = part, .sequence = move->sequence++ };
	*code = *code ? *code : host_take_aead(worker, part, error);
	if (*code) {
		host_end_at(move, part);
		return true;
	}
	run->index = part->next++;
	run->last = part->next == part->runs;
	run->turn = part->part->sink.ordered ? move->turns++ : 0;
	if (part->part->source.ordered) {
		*code = sgpu_host_run_read(worker, run, error);
		if (*code) {
			host_end_at(move, part);
		}
	}
	pthread_mutex_lock(&move->lock);
	if (run->last) {
		part->runs = part->next;
		part->last_sequence = run->sequence;
	}
	pthread_mutex_unlock(&move->lock);
	return true;
}

/* Waits for HOST_WAIT_MS at most, since a signal does not end the wait. The lock is held. */
static void host_wait(struct host_move *move, pthread_cond_t *condition)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += HOST_WAIT_MS * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_clockwait(condition, &move->lock, CLOCK_MONOTONIC, &until);
}

static int host_wait_for_turn(struct host_move *move, const struct host_run *run,
			      struct sgpu_error *error)
{
	bool moot = false;

	pthread_mutex_lock(&move->lock);
	while (move->turn != run->turn) {
		moot = host_failed_before(move, run->of, run->sequence) || sgpu_io_interrupted();
		if (moot) {
			break;
		}
		host_wait(move, &move->turn_came);
	}
	pthread_mutex_unlock(&move->lock);
	return moot ? sgpu_fail(error, SGPU_ECANCELED, "interrupted") : 0;
}

static int host_write(const struct host_run *run, const uint8_t *data, size_t size,
		      struct sgpu_error *error)
{
	const struct sgpu_host_part *p = run->of->part;
	uint8_t header[SGPU_SEALED_HEADER];
	uint64_t at = p->to;
	int rc = 0;

	if (p->action == SGPU_HOST_SEAL) {
		at += SGPU_SEALED_HEADER + run->index * HOST_RUN_SEALED;
		if (run->index == 0) {
			sgpu_sealed_header(&run->of->keys, header);
			rc = p->sink.write(p->sink.context, p->to, header, sizeof(header), error);
		}
	} else {
		at += run->index * HOST_RUN_PLAIN;
	}
	return rc || size == 0 ? rc : p->sink.write(p->sink.context, at, data, size, error);
}

/* Writes a chunk run's result; for an ordered sink, in its turn. */
static int host_deliver(struct host_move *move, const struct host_run *run, const uint8_t *data,
			size_t size, struct sgpu_error *error)
{
	if (run->of->part->sink.ordered) {
		int rc = host_wait_for_turn(move, run, error);
		return rc ? rc : host_write(run, data, size, error);
	}
	if (run->of->part->sink.parallel) {
		return host_write(run, data, size, error);
	}
	pthread_mutex_lock(&run->of->writing[run->index % 2]);
	int rc = host_write(run, data, size, error);
	pthread_mutex_unlock(&run->of->writing[run->index % 2]);
	return rc;
}

static void host_count(struct host_move *move, const struct host_run *run, size_t written,
		       bool *ended)
{
	struct host_part *part = run->of;
	const struct sgpu_host_move *m = move->move;
	const size_t header = run->index == 0 ? SGPU_SEALED_HEADER : 0;
	const size_t in = run->size + (part->part->action == SGPU_HOST_OPEN ? header : 0);

	pthread_mutex_lock(&move->lock);
	if (part->part->sink.ordered) {
		move->turn++;
		pthread_cond_broadcast(&move->turn_came);
	}
	part->part->bytes_in += in;
	part->part->bytes_out += written + (part->part->action == SGPU_HOST_SEAL ? header : 0);
	move->bytes_in += in;
	*ended = ++part->ended == part->runs;
	if (m->progress) {
		m->progress(m->progress_argument, move->bytes_in);
	}
	pthread_mutex_unlock(&move->lock);
}

/* Handles one chunk run; returns false if none is left. After a failure, earlier parts go on. */
static bool host_work(struct host_worker *worker)
{
	struct host_move *move = worker->move;
	struct sgpu_error error = { 0 }, late = { 0 };
	struct host_run run = { 0 };
	const uint8_t *data = NULL;
	uint64_t bad = SGPU_SIZE_UNKNOWN;
	size_t size = 0;
	bool ended = false;
	int rc = 0;

	pthread_mutex_lock(&move->lock);
	while (move->claiming) {
		host_wait(move, &move->claim_free);
	}
	move->claiming = true;
	pthread_mutex_unlock(&move->lock);
	bool taken = host_claim(worker, &run, &error, &rc);
	pthread_mutex_lock(&move->lock);
	move->claiming = false;
	pthread_cond_signal(&move->claim_free);
	pthread_mutex_unlock(&move->lock);
	if (!taken) {
		return false;
	}
	if (!rc && !run.of->part->source.ordered) {
		rc = sgpu_host_run_read(worker, &run, &error);
	}
	if (!rc) {
		rc = sgpu_host_run_transform(worker, &run, &data, &size, &bad, &error);
		/* If the run has a bad chunk, the chunks before it are written. */
		int written = !rc || (rc == SGPU_EAUTH && size)
				      ? host_deliver(move, &run, data, size, &late)
				      : 0;
		if (written) {
			rc = written;
			error = late;
			bad = SGPU_SIZE_UNKNOWN;
		}
	}
	if (!rc) {
		host_count(move, &run, size, &ended);
	}
	if (!rc && ended) {
		rc = sgpu_host_part_check(run.of, &error);
		run.sequence = run.of->last_sequence;
		sgpu_host_part_end(run.of);
	}
	if (rc) {
		host_fail(move, run.sequence, run.of, bad, &error);
	}
	return true;
}

static void host_run_worker(void *argument, uint64_t begin, uint64_t end)
{
	struct host_worker *workers = argument;

	for (; begin < end; begin++) {
		while (host_work(&workers[begin])) {
		}
	}
}

/* Returns false if out of memory; then fewer workers are used. */
static bool host_worker_init(struct host_worker *worker, struct host_move *move, uint64_t largest)
{
	size_t size = HOST_RUN_SEALED;

	if (largest < HOST_RUN_PLAIN) {
		size = (size_t)largest + (size_t)(largest / SGPU_CHUNK + 1) * SGPU_TAG_SIZE;
	}
	worker->move = move;
	worker->capacity = (size + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
	worker->in = aligned_alloc(BUFFER_ALIGNMENT, worker->capacity);
	worker->out = worker->in ? aligned_alloc(BUFFER_ALIGNMENT, worker->capacity) : NULL;
	if (!worker->out) {
		free(worker->in);
		worker->in = NULL;
	}
	return worker->in != NULL;
}

static unsigned host_count_workers(const struct sgpu_host_move *m, uint64_t *largest)
{
	unsigned jobs = m->jobs ? m->jobs : sgpu_cpu_count();
	uint64_t runs = 1;

	*largest = 0;
	jobs = jobs < SGPU_POOL_JOBS_MAX ? jobs : SGPU_POOL_JOBS_MAX;
	for (size_t i = 0; i < m->count && *largest != SGPU_SIZE_UNKNOWN; i++) {
		*largest = m->parts[i].size > *largest ? m->parts[i].size : *largest;
		runs = *largest == SGPU_SIZE_UNKNOWN ? jobs
						     : runs + m->parts[i].size / HOST_RUN_PLAIN;
	}
	return runs < jobs ? (unsigned)runs : jobs;
}

static int host_run_workers(struct host_move *move, struct sgpu_error *error)
{
	uint64_t largest = 0;
	unsigned jobs = host_count_workers(move->move, &largest), ready = 0;
	struct host_worker *workers = calloc(jobs, sizeof(*workers));
	struct sgpu_pool *pool = NULL;

	while (workers && ready < jobs && host_worker_init(&workers[ready], move, largest)) {
		ready++;
	}
	int rc = ready ? 0 : sgpu_fail_nomem(error);
	if (ready > 1 && sgpu_pool_create(ready, &pool, NULL) == 0) {
		rc = sgpu_pool_for(pool, ready, 1, host_run_worker, workers);
	} else if (ready) {
		host_run_worker(workers, 0, 1);
	}
	sgpu_pool_free(&pool);
	for (unsigned i = 0; i < ready; i++) {
		sgpu_aead_free(&workers[i].aead);
		sgpu_free_wiped(&workers[i].out, workers[i].capacity);
		sgpu_free_wiped(&workers[i].in, workers[i].capacity);
	}
	free(workers);
	return rc;
}

static int host_result(struct host_move *move, struct sgpu_error *error)
{
	struct sgpu_host_move *m = move->move;

	if (move->failed) {
		m->failed = move->failed_part->part;
		m->bad_chunk = move->bad_chunk;
		if (error) {
			*error = move->error;
		}
		return move->error.code;
	}
	return move->at < m->count ? sgpu_fail(error, SGPU_ECANCELED, "interrupted") : 0;
}

int sgpu_host_move(struct sgpu_host_move *m, struct sgpu_error *error)
{
	struct host_move move = { .move = m, .end = m->count };

	m->failed = NULL;
	m->bad_chunk = SGPU_SIZE_UNKNOWN;
	move.parts = calloc(m->count + 1, sizeof(*move.parts));
	if (!move.parts) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&move.lock, NULL);
	pthread_cond_init(&move.turn_came, NULL);
	pthread_cond_init(&move.claim_free, NULL);
	for (size_t i = 0; i < m->count; i++) {
		move.parts[i].part = &m->parts[i];
		pthread_mutex_init(&move.parts[i].writing[0], NULL);
		pthread_mutex_init(&move.parts[i].writing[1], NULL);
	}
	int rc = host_run_workers(&move, error);
	rc = rc ? rc : host_result(&move, error);
	for (size_t i = 0; i < m->count; i++) {
		sgpu_host_part_end(&move.parts[i]);
		pthread_mutex_destroy(&move.parts[i].writing[1]);
		pthread_mutex_destroy(&move.parts[i].writing[0]);
	}
	pthread_cond_destroy(&move.claim_free);
	pthread_cond_destroy(&move.turn_came);
	pthread_mutex_destroy(&move.lock);
	free(move.parts);
	return rc;
}
