/* SPDX-License-Identifier: Apache-2.0
 *
 * The workers of a transfer: what each does, how they start, stop, and how one error is chosen.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sgpu/io.h>

#include "seal/transfer.h"

enum { BUFFER_ALIGNMENT = 4096, WATCH_INTERVAL_NS = 50 * 1000 * 1000 };

void sgpu_transfer_fail(struct sgpu_transfer *transfer, uint64_t group, const struct sgpu_error *error,
			uint64_t bad_chunk)
{
	pthread_mutex_lock(&transfer->lock);
	if (!transfer->failed || group < transfer->failed_group) {
		transfer->failed = true;
		transfer->failed_group = group;
		transfer->error = *error;
		transfer->job->bad_chunk = bad_chunk;
	}
	pthread_cond_broadcast(&transfer->turn);
	pthread_mutex_unlock(&transfer->lock);
}

bool sgpu_transfer_moot(struct sgpu_transfer *transfer, uint64_t group)
{
	pthread_mutex_lock(&transfer->lock);
	bool moot = transfer->canceled || (transfer->failed && transfer->failed_group < group);
	pthread_mutex_unlock(&transfer->lock);
	return moot || sgpu_io_interrupted();
}

static int seal_group(struct sgpu_transfer_worker *worker, const struct sgpu_group *group, struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = worker->transfer;
	size_t chunks = group->size / SGPU_CHUNK + (group->last ? 1 : 0);
	int code = sgpu_seal_chunks(worker->aead, &transfer->keys, group->index * SGPU_GROUP_CHUNKS, group->last,
				    worker->in, group->size, worker->out);

	if (code) {
		return sgpu_fail(error, code, "AES-256-GCM failed");
	}
	return sgpu_transfer_deliver(worker, group, group->size + chunks * SGPU_TAG_SIZE, true, error);
}

/* Says what is wrong with chunk `bad` of a group. */
static int bad_chunk_error(const struct sgpu_transfer *transfer, const struct sgpu_group *group, uint64_t bad,
			   struct sgpu_error *error)
{
	uint64_t offset = SGPU_SEALED_HEADER + bad * SGPU_SEALED_CHUNK;
	size_t rest = group->size - (size_t)(bad - group->index * SGPU_GROUP_CHUNKS) * SGPU_SEALED_CHUNK;

	if (group->last && rest < SGPU_TAG_SIZE) {
		return sgpu_fail(error, SGPU_EAUTH, "'%s' ends without its end mark, at chunk %llu (offset %llu)",
				 transfer->in.name, (unsigned long long)bad, (unsigned long long)offset);
	}
	return sgpu_fail(error, SGPU_EAUTH, "authentication failed at chunk %llu (offset %llu) of '%s'",
			 (unsigned long long)bad, (unsigned long long)offset, transfer->in.name);
}

static int open_group(struct sgpu_transfer_worker *worker, const struct sgpu_group *group, uint64_t *bad,
		      struct sgpu_error *error)
{
	struct sgpu_transfer *transfer = worker->transfer;
	uint64_t first = group->index * SGPU_GROUP_CHUNKS;
	int code = sgpu_open_chunks(worker->aead, &transfer->keys, first, group->last, worker->in, group->size,
				    worker->out, bad);

	if (!code) {
		*bad = SGPU_SIZE_UNKNOWN;
		size_t chunks = group->size / SGPU_SEALED_CHUNK + (group->last ? 1 : 0);
		return sgpu_transfer_deliver(worker, group, group->size - chunks * SGPU_TAG_SIZE, true, error);
	}
	if (code != SGPU_EAUTH) {
		*bad = SGPU_SIZE_UNKNOWN;
		return sgpu_fail(error, code, "AES-256-GCM failed");
	}
	/* A stream still gets the chunks before the bad one: how many must not depend on how they were grouped. */
	size_t good = (size_t)(*bad - first);
	if (!transfer->out.positioned && good) {
		code = sgpu_open_chunks(worker->aead, &transfer->keys, first, false, worker->in,
					good * SGPU_SEALED_CHUNK, worker->out, NULL);
		if (!code) {
			code = sgpu_transfer_deliver(worker, group, good * SGPU_CHUNK, false, error);
		}
		if (code) {
			*bad = SGPU_SIZE_UNKNOWN;
			return code;
		}
	}
	return bad_chunk_error(transfer, group, *bad, error);
}

/* One group; false ends the worker. */
static bool work_once(struct sgpu_transfer_worker *worker)
{
	struct sgpu_error error = { 0 };
	struct sgpu_group group = { 0 };
	uint64_t bad = SGPU_SIZE_UNKNOWN;
	bool taken = false;
	int code = sgpu_transfer_take(worker, &group, &taken, &error);

	if (!code && taken) {
		code = worker->transfer->opening ? open_group(worker, &group, &bad, &error)
						 : seal_group(worker, &group, &error);
	}
	if (code) {
		sgpu_transfer_fail(worker->transfer, group.index, &error, bad);
	}
	return !code && taken;
}

static void worker_ended(struct sgpu_transfer *transfer)
{
	pthread_mutex_lock(&transfer->lock);
	transfer->running--;
	pthread_cond_broadcast(&transfer->finished);
	pthread_mutex_unlock(&transfer->lock);
}

static void *worker_main(void *argument)
{
	struct sgpu_transfer_worker *worker = argument;

	while (work_once(worker)) {
	}
	worker_ended(worker->transfer);
	return NULL;
}

static void worker_free(struct sgpu_transfer_worker *worker)
{
	sgpu_aead_free(&worker->aead);
	sgpu_free_wiped(&worker->out, worker->out_capacity);
	sgpu_free_wiped(&worker->in, worker->in_capacity);
}

static int worker_init(struct sgpu_transfer *transfer, struct sgpu_transfer_worker *worker, struct sgpu_error *error)
{
	size_t in = transfer->opening ? SGPU_GROUP_SEALED : SGPU_GROUP_PLAIN;

	worker->transfer = transfer;
	if (transfer->in_size < in) {
		in = transfer->in_size ? (size_t)transfer->in_size : 1;
	}
	/* Room for the tags of one direction, or more than enough for the other. */
	worker->in_capacity = (in + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
	worker->out_capacity = (in + (in / SGPU_CHUNK + 1) * SGPU_TAG_SIZE + BUFFER_ALIGNMENT - 1) /
			       BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
	worker->in = aligned_alloc(BUFFER_ALIGNMENT, worker->in_capacity);
	worker->out = aligned_alloc(BUFFER_ALIGNMENT, worker->out_capacity);
	if (!worker->in || !worker->out) {
		return sgpu_fail_nomem(error);
	}
	return sgpu_aead_copy(transfer->aead, &worker->aead, error);
}

/* With all signals blocked: they are for the threads of the program. */
static void start(struct sgpu_transfer_worker *worker)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	worker->own_thread = true;
	pthread_mutex_lock(&worker->transfer->lock);
	worker->transfer->running++;
	pthread_mutex_unlock(&worker->transfer->lock);
	if (pthread_create(&worker->thread, NULL, worker_main, worker)) {
		worker_ended(worker->transfer);
		worker->own_thread = false;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Waits for the workers; looks for an interrupt, which a signal handler cannot announce by a condition. */
static void supervise(struct sgpu_transfer *transfer, struct sgpu_transfer_worker *workers, unsigned count)
{
	struct timespec until;

	pthread_mutex_lock(&transfer->lock);
	while (transfer->running > 0) {
		if (sgpu_io_interrupted() && !transfer->canceled) {
			transfer->canceled = true;
			pthread_cond_broadcast(&transfer->turn);
		}
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += WATCH_INTERVAL_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&transfer->finished, &transfer->lock, &until);
	}
	pthread_mutex_unlock(&transfer->lock);
	for (unsigned i = 0; i < count; i++) {
		if (workers[i].own_thread) {
			pthread_join(workers[i].thread, NULL);
		}
	}
}

static int run_workers(struct sgpu_transfer *transfer, struct sgpu_transfer_worker *workers, unsigned count,
		       struct sgpu_error *error)
{
	unsigned ready = 0;

	for (unsigned i = 0; i < count; i++, ready++) {
		int code = worker_init(transfer, &workers[i], error);
		/* Fewer will do. */
		if (code && i == 0) {
			return code;
		}
		if (code) {
			break;
		}
	}
	if (ready > 1) {
		for (unsigned i = 0; i < ready; i++) {
			start(&workers[i]);
		}
		supervise(transfer, workers, ready);
	}
	if (!workers[0].own_thread) {
		/* In the caller's thread, whose blocking calls its signals interrupt. */
		while (work_once(&workers[0])) {
		}
	}
	return 0;
}

int sgpu_transfer_run(struct sgpu_transfer *transfer, struct sgpu_error *error)
{
	struct sgpu_transfer_worker *workers = calloc(transfer->jobs, sizeof(*workers));
	pthread_condattr_t monotonic;

	if (!workers) {
		return sgpu_fail_nomem(error);
	}
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&transfer->lock, NULL);
	pthread_mutex_init(&transfer->writing, NULL);
	pthread_cond_init(&transfer->turn, NULL);
	pthread_cond_init(&transfer->finished, &monotonic);
	pthread_condattr_destroy(&monotonic);

	sgpu_transfer_open_streams(transfer);
	int code = run_workers(transfer, workers, transfer->jobs, error);
	sgpu_transfer_close_streams(transfer);
	if (!code && transfer->failed && transfer->error.code) {
		if (error) {
			*error = transfer->error;
		}
		code = transfer->error.code;
	}
	if (!code && (transfer->canceled || !transfer->ended)) {
		code = sgpu_fail(error, SGPU_ECANCELED, "interrupted");
	}
	for (unsigned i = 0; i < transfer->jobs; i++) {
		worker_free(&workers[i]);
	}
	pthread_cond_destroy(&transfer->finished);
	pthread_cond_destroy(&transfer->turn);
	pthread_mutex_destroy(&transfer->writing);
	pthread_mutex_destroy(&transfer->lock);
	free(workers);
	return code;
}
