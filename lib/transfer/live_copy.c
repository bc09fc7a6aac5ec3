/* SPDX-License-Identifier: Apache-2.0
 *
 * Live copies, the device's side: the thread that asked for the copy gives chunk runs to the
 * workers and to the streams. It works on parts itself until the workers are awake, or when there
 * are few of them; else it only feeds the streams.
 */
#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"
#include "transfer/engine.h"

enum {
	ALONE = 3,	 /* with fewer workers, the caller's thread works on parts, too */
	FEW_CHUNKS = 32, /* a copy of no more ends before a worker wakes */
};

struct driver {
	struct sgpu_live *live;
	struct sgpu_engine *engine;
	struct sgpu_transfer_result *result;
	struct sgpu_stream *copy, *crypt;
	struct sgpu_worker_job job;
	uint64_t planned;	       /* chunks for which runs exist */
	uint64_t offered, sent, ended; /* runs given to workers, put on streams, ended on streams */
	uint64_t written;	       /* runs from the device that workers have finished */
	uint64_t oldest;	       /* the first run that may have parts for this thread */
	bool started;		       /* the workers were called */
	unsigned rounds;	       /* consecutive rounds of waiting */
	_Alignas(64) uint8_t scratch[SGPU_CHUNK];
};

static void note(struct driver *d, int rc, const struct sgpu_error *error)
{
	if (rc != SGPU_OK && d->result->code == SGPU_OK) {
		d->result->code = rc;
		if (error && error->text[0]) {
			d->result->error = *error;
			d->result->error.code = rc;
		} else {
			sgpu_fail(&d->result->error, rc, "%s", sgpu_strerror(rc));
		}
	}
}

static bool is_going_on(const struct driver *d)
{
	return d->result->code == SGPU_OK &&
	       !atomic_load_explicit(&d->live->failed, memory_order_relaxed);
}

static struct sgpu_live_buffer *buffer_of(struct driver *d, uint64_t number)
{
	return &d->live->buffers[number % d->live->buffer_count];
}

/* ---- the workers ---- */
/* A worker stays until the copy is over. */
static bool worker_step(void *argument, unsigned thread)
{
	struct sgpu_live *live = argument;
	_Alignas(64) uint8_t scratch[SGPU_CHUNK];
	uint64_t oldest = 0;
	unsigned rounds = 0;

	if (atomic_load(&live->over)) {
		return false;
	}
	atomic_fetch_add(&live->there, 1);
	for (;;) {
		/* Read first, so that all runs offered before the end are worked on. */
		bool over = atomic_load(&live->over);

		if (sgpu_live_help(live, &oldest, thread, scratch)) {
			rounds = 0;
		} else if (over) {
			break;
		} else {
			sgpu_worker_pause(&rounds);
		}
	}
	sgpu_wipe(scratch, sizeof(scratch));
	return true;
}

/* Ends a round of the loop. If it made no progress, works on a part or waits a moment. */
static void end_round(struct driver *d, bool progress)
{
	struct sgpu_live *live = d->live;
	unsigned workers = sgpu_workers_count(d->engine->workers);

	if (!d->started && live->plan.total > FEW_CHUNKS) {
		struct sgpu_error error = { 0 };

		/* Waking takes long, so it comes after the first run was put on the streams (out)
		 * or offered (in). */
		d->job = (struct sgpu_worker_job){ .step = worker_step, .argument = live };
		note(d, sgpu_workers_add(d->engine->workers, &d->job, &error), &error);
		sgpu_workers_wake(d->engine->workers, workers);
		d->started = true;
	}
	if (progress) {
		d->rounds = 0;
	} else if ((workers >= ALONE &&
		    atomic_load_explicit(&live->there, memory_order_relaxed) == workers) ||
		   !sgpu_live_help(live, &d->oldest, workers, d->scratch)) {
		sgpu_worker_pause(&d->rounds);
	}
}

/* ---- the streams ---- */
static int record(struct driver *d, struct sgpu_stream *stream, struct sgpu_event **event,
		  struct sgpu_error *error)
{
	int rc = sgpu_event_create(d->engine->device, event, error);

	if (rc == SGPU_OK) {
		rc = sgpu_event_record(stream, *event);
		if (rc != SGPU_OK) {
			sgpu_event_free(event);
		}
	}
	return rc;
}

/* Records the end of the first step, and makes the second wait for it. */
static int hand_over(struct driver *d, struct sgpu_stream *from, struct sgpu_stream *to,
		     struct sgpu_event **event, struct sgpu_error *error)
{
	int rc = record(d, from, event, error);

	return rc == SGPU_OK ? sgpu_stream_wait(to, *event) : rc;
}

/* Whether kernels reach the run in host memory, so that no copy is needed. */
static bool is_reached(const struct driver *d, const struct sgpu_live_buffer *buffer,
		       uint64_t bytes, bool out)
{
	return buffer->run.count == d->live->plan.total &&
	       sgpu_device_reaches(d->engine->device, buffer->staging->host, bytes, out);
}

/* The work that opens or seals the run in the buffer; `sealed`: its bytes on the bus. */
static struct sgpu_work crypt_of(const struct driver *d, const struct sgpu_live_buffer *buffer,
				 uint64_t sealed, bool out)
{
	const struct sgpu_live *live = d->live;
	const uint64_t first = buffer->run.first, count = buffer->run.count;
	const bool reached = is_reached(d, buffer, sealed, out);
	const sgpu_devptr plain = live->device + first * SGPU_CHUNK;
	struct sgpu_work work = { .key = live->key->on_device,
				  .first = live->base + first,
				  .last = first + count == live->plan.total };

	if (out) {
		work.kind = reached ? SGPU_WORK_SEAL_TO : SGPU_WORK_SEAL;
		work.in = plain;
		work.size = sgpu_live_plain(live, first, count);
		work.out = buffer->staging->device;
		work.to = reached ? buffer->staging->host : NULL;
	} else {
		work.kind = reached ? SGPU_WORK_OPEN_FROM : SGPU_WORK_OPEN;
		work.in = buffer->staging->device;
		work.from = reached ? buffer->staging->host : NULL;
		work.size = sealed;
		work.out = plain;
	}
	return work;
}

static int send_in(struct driver *d, struct sgpu_live_buffer *buffer, struct sgpu_error *error)
{
	struct sgpu_live *live = d->live;
	const uint64_t bytes = sgpu_live_bytes(live, buffer->run.first, buffer->run.count);
	const struct sgpu_work open = crypt_of(d, buffer, bytes, false);
	const bool reached = open.kind == SGPU_WORK_OPEN_FROM;
	const struct sgpu_work copy = { .kind = SGPU_WORK_COPY_IN,
					.from = buffer->staging->host,
					.out = open.in,
					.size = bytes };
	int rc = SGPU_OK;

	if (!reached) {
		rc = sgpu_engine_enqueue(d->copy, &copy, &buffer->copy, error);
	}
	if (rc == SGPU_OK && !reached) {
		rc = hand_over(d, d->copy, d->crypt, &buffer->middle, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_engine_enqueue(d->crypt, &open, &buffer->crypt, error);
	}
	return rc == SGPU_OK ? record(d, d->crypt, &buffer->end, error) : rc;
}

static int send_out(struct driver *d, struct sgpu_live_buffer *buffer, struct sgpu_error *error)
{
	const uint64_t bytes = sgpu_live_bytes(d->live, buffer->run.first, buffer->run.count);
	const struct sgpu_work seal = crypt_of(d, buffer, bytes, true);
	const bool reached = seal.kind == SGPU_WORK_SEAL_TO;
	const struct sgpu_work copy = { .kind = SGPU_WORK_COPY_OUT,
					.in = seal.out,
					.to = buffer->staging->host,
					.size = bytes };
	int rc = sgpu_engine_enqueue(d->crypt, &seal, &buffer->crypt, error);

	if (rc == SGPU_OK && !reached) {
		rc = hand_over(d, d->crypt, d->copy, &buffer->middle, error);
	}
	if (rc == SGPU_OK && !reached) {
		rc = sgpu_engine_enqueue(d->copy, &copy, &buffer->copy, error);
	}
	return rc == SGPU_OK ? record(d, reached ? d->crypt : d->copy, &buffer->end, error) : rc;
}

/* Puts a run on the streams. From now on end_oldest frees its resources, whatever happens. */
static void send(struct driver *d, bool out)
{
	struct sgpu_live_buffer *buffer = buffer_of(d, d->sent++);
	struct sgpu_error error = { 0 };
	int rc;

	memset(&buffer->copy, 0, sizeof(buffer->copy));
	memset(&buffer->crypt, 0, sizeof(buffer->crypt));
	rc = sgpu_staging_fill(d->engine, buffer->staging, true, true, &error);
	if (rc == SGPU_OK) {
		rc = out ? send_out(d, buffer, &error) : send_in(d, buffer, &error);
	}
	note(d, rc, &error);
}

/* Waits for the oldest run on the streams, and keeps the copy's first failure. */
static void end_oldest(struct driver *d)
{
	struct sgpu_live_buffer *buffer = buffer_of(d, d->ended++);
	struct sgpu_error error = { 0 };

	/* A run without this event was not wholly enqueued: synchronize() has waited for it. */
	if (buffer->end) {
		note(d, sgpu_event_sync(buffer->end, &error), &error);
		/* The first step has ended, too, but only its own event reports its errors. */
		note(d, buffer->middle ? sgpu_event_sync(buffer->middle, &error) : SGPU_OK, &error);
		note(d, buffer->copy.code, &buffer->copy.error);
		if (d->result->code == SGPU_OK && buffer->crypt.code != SGPU_OK) {
			d->result->bad_chunk = buffer->crypt.bad_chunk;
			note(d, buffer->crypt.code, &buffer->crypt.error);
		}
	}
	sgpu_event_free(&buffer->middle);
	sgpu_event_free(&buffer->end);
}

/* Whether the oldest run has ended on the streams, even with an error. */
static bool oldest_has_ended(struct driver *d)
{
	struct sgpu_live_buffer *buffer = buffer_of(d, d->ended);
	struct sgpu_error error = { 0 };
	bool done = false;
	int rc;

	if (d->ended == d->sent) {
		return false;
	}
	rc = sgpu_event_query(buffer->end, &done, &error);
	note(d, rc, &error);
	return done || rc != SGPU_OK;
}

static void synchronize(struct driver *d)
{
	struct sgpu_stream *streams[] = { d->copy, d->crypt };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(streams); i++) {
		struct sgpu_error error = { 0 };

		if (streams[i]) {
			note(d, sgpu_stream_sync(streams[i], &error), &error);
		}
	}
}

/* ---- both directions ---- */
static void drive_in(struct driver *d)
{
	struct sgpu_live *live = d->live;

	while (is_going_on(d) && (d->planned < live->plan.total || d->sent < d->offered)) {
		bool progress = false;

		if (d->planned < live->plan.total && d->offered - d->ended < live->buffer_count) {
			struct sgpu_chunk_run run = sgpu_chunk_run_at(&live->plan, d->planned);

			sgpu_live_offer(live, d->offered++, run);
			d->planned += run.count;
			progress = true;
		}
		if (d->sent < d->offered && sgpu_live_finished(live, d->sent) && is_going_on(d)) {
			send(d, false);
			progress = true;
		}
		if (is_going_on(d) && oldest_has_ended(d)) {
			end_oldest(d);
			progress = true;
		}
		end_round(d, progress);
	}
}

static void drive_out(struct driver *d)
{
	struct sgpu_live *live = d->live;

	while (is_going_on(d) && (d->planned < live->plan.total || d->written < d->sent)) {
		bool progress = false;

		if (d->planned < live->plan.total && d->sent - d->written < live->buffer_count) {
			buffer_of(d, d->sent)->run = sgpu_chunk_run_at(&live->plan, d->planned);
			d->planned += buffer_of(d, d->sent)->run.count;
			send(d, true);
			progress = true;
		}
		if (is_going_on(d) && oldest_has_ended(d)) {
			struct sgpu_chunk_run run = buffer_of(d, d->ended)->run;

			end_oldest(d);
			if (d->result->code == SGPU_OK) {
				sgpu_live_offer(live, d->offered++, run);
			}
			progress = true;
		}
		if (d->written < d->offered && sgpu_live_finished(live, d->written)) {
			d->written++;
			progress = true;
		}
		end_round(d, progress);
	}
}

static void note_failure(struct driver *d)
{
	struct sgpu_transfer_result *result = d->result;
	struct sgpu_live *live = d->live;
	struct sgpu_error error;

	if (result->code == SGPU_OK && live->code != SGPU_OK) {
		result->bad_chunk = live->base + live->bad_chunk;
		sgpu_fail(&error, live->code, "AES-256-GCM failed");
		note(d, live->code, &error);
	}
	if (result->code == SGPU_EAUTH) {
		result->bad_chunk -= live->base;
		sgpu_fail(&result->error, result->code,
			  "what crossed the bus does not verify at chunk %llu of it",
			  (unsigned long long)result->bad_chunk);
	}
}

/* Takes at least one staging buffer, and as many more as are available and useful. */
static int take_buffers(struct sgpu_live *live, uint64_t runs, struct sgpu_error *error)
{
	struct sgpu_engine *engine = live->engine;
	uint64_t most = runs < engine->config.live_buffers ? runs : engine->config.live_buffers;
	struct sgpu_staging_buffer *buffer = NULL;
	int rc = SGPU_OK;

	pthread_mutex_lock(&engine->mutex);
	engine->waiting_live++;
	while (rc == SGPU_OK && live->buffer_count < most) {
		rc = sgpu_staging_take(engine, SGPU_STAGING_LARGE, (unsigned)most, &buffer);
		if (buffer) {
			live->buffers[live->buffer_count++].staging = buffer;
		} else if (live->buffer_count > 0) {
			rc = SGPU_OK;
			break;
		} else if (rc == SGPU_OK) {
			pthread_cond_wait(&engine->changed, &engine->mutex);
		}
	}
	engine->waiting_live--;
	sgpu_staging_share(engine, SGPU_STAGING_LARGE);
	pthread_mutex_unlock(&engine->mutex);
	rc = rc == SGPU_OK ? rc : sgpu_fail_nomem(error);
	for (unsigned i = 0; rc == SGPU_OK && i < live->buffer_count; i++) {
		rc = sgpu_staging_fill(engine, live->buffers[i].staging, true, false, error);
	}
	return rc;
}

static void give_buffers(struct sgpu_live *live)
{
	pthread_mutex_lock(&live->engine->mutex);
	for (unsigned i = 0; i < live->buffer_count; i++) {
		sgpu_staging_give(live->engine, live->buffers[i].staging);
	}
	pthread_mutex_unlock(&live->engine->mutex);
}

static int prepare(struct driver *d, bool out)
{
	struct sgpu_live *live = d->live;
	const struct sgpu_engine_config *config = &d->engine->config;
	const uint64_t chunks = live->size / SGPU_CHUNK + 1;
	struct sgpu_error error = { 0 };
	int rc;

	live->plan = (struct sgpu_run_plan){ .total = chunks,
					     .largest = config->staged_run / SGPU_CHUNK,
					     .at_begin = config->first_run / SGPU_CHUNK,
					     .at_end = config->last_run / SGPU_CHUNK };
	live->work = out ? sgpu_live_open : sgpu_live_seal;
	live->workers = sgpu_workers_count(d->engine->workers);
	live->workers += live->workers < ALONE;
	live->demote = !out && d->engine->demotes;
	live->base = live->key->next;
	live->key->next += chunks; /* these numbers are used up even if this copy fails */
	rc = take_buffers(live, chunks / (config->first_run / SGPU_CHUNK) + 1, &error);
	if (rc == SGPU_OK) {
		rc = sgpu_engine_get_stream(d->engine,
					    out ? SGPU_ENGINE_COPY_OUT : SGPU_ENGINE_COPY_IN,
					    &d->copy, &error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_engine_get_stream(d->engine, out ? SGPU_ENGINE_SEAL : SGPU_ENGINE_OPEN,
					    &d->crypt, &error);
	}
	note(d, rc, &error);
	return rc;
}

/* Ends a copy: waits for all of its work, and clears what a failed copy left. */
static void finish(struct driver *d, bool out)
{
	struct sgpu_live *live = d->live;

	if (d->result->code != SGPU_OK) {
		synchronize(d);
	}
	while (d->ended < d->sent) {
		end_oldest(d);
	}
	if (d->result->code == SGPU_OK) {
		return;
	}
	if (out) {
		sgpu_wipe(live->plaintext, live->size);
	} else if (live->size > 0 && d->crypt &&
		   sgpu_device_clear(d->crypt, live->device, live->size, NULL) == SGPU_OK) {
		synchronize(d);
	}
}

static int copy(struct sgpu_live *live, bool out, struct sgpu_transfer_result *result)
{
	struct sgpu_engine *engine = live->engine;
	struct driver driver = { .live = live, .engine = engine, .result = result };

	memset(result, 0, sizeof(*result));
	result->begin_ns = sgpu_now_ns();
	if (live->key->engine != engine) {
		result->code = sgpu_fail(&result->error, SGPU_EUSAGE,
					 "the key of a live copy is another engine's");
		return result->code;
	}
	pthread_mutex_lock(&engine->live_lock);
	pthread_mutex_init(&live->lock, NULL);
	if (prepare(&driver, out) == SGPU_OK) {
		if (out) {
			drive_out(&driver);
		} else {
			drive_in(&driver);
		}
		while (result->code == SGPU_OK && driver.ended < driver.sent) {
			end_oldest(&driver);
		}
	}
	atomic_store(&live->over, true);
	if (driver.started) {
		sgpu_workers_remove(engine->workers, &driver.job);
	}
	note_failure(&driver);
	finish(&driver, out);
	give_buffers(live);
	sgpu_wipe(driver.scratch, sizeof(driver.scratch));
	result->bytes[engine->pins ? SGPU_PATH_PINNED : SGPU_PATH_PAGEABLE] = live->size;
	result->end_ns = sgpu_now_ns();
	pthread_mutex_destroy(&live->lock);
	pthread_mutex_unlock(&engine->live_lock);
	return result->code;
}

/* Allocates the state of a copy, which is too large for the stack of a library's caller. */
static int copy_with(struct sgpu_engine *engine, struct sgpu_live_key *key, bool out,
		     void *plaintext, uint64_t size, sgpu_devptr device,
		     struct sgpu_transfer_result *result)
{
	struct sgpu_transfer_result local;
	struct sgpu_live *live = aligned_alloc(64, sizeof(*live));
	int rc;

	result = result ? result : &local;
	if (!live) {
		memset(result, 0, sizeof(*result));
		result->code = sgpu_fail_nomem(&result->error);
		return result->code;
	}
	memset(live, 0, sizeof(*live));
	live->engine = engine;
	live->key = key;
	live->plaintext = plaintext;
	live->size = size;
	live->device = device;
	rc = copy(live, out, result);
	free(live);
	return rc;
}

int sgpu_live_in(struct sgpu_engine *engine, struct sgpu_live_key *key, const void *plaintext,
		 uint64_t size, sgpu_devptr to, struct sgpu_transfer_result *result)
{
	return copy_with(engine, key, false, (void *)(uintptr_t)plaintext, size, to, result);
}

int sgpu_live_out(struct sgpu_engine *engine, struct sgpu_live_key *key, sgpu_devptr from,
		  uint64_t size, void *plaintext, struct sgpu_transfer_result *result)
{
	return copy_with(engine, key, true, plaintext, size, from, result);
}

/* ---- keys ---- */
int sgpu_live_key_load(struct sgpu_engine *engine, const struct sgpu_sealed_keys *keys,
		       struct sgpu_live_key **key, struct sgpu_error *error)
{
	unsigned count = sgpu_workers_count(engine->workers) + 1;
	struct sgpu_live_key *new = calloc(1, sizeof(*new) + count * sizeof(new->aeads[0]));
	struct sgpu_stream *stream = NULL;
	int rc;

	*key = NULL;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->engine = engine;
	new->keys = *keys;
	new->aead_count = count;
	rc = sgpu_aead_create(NULL, keys->key, &new->aeads[0], error);
	for (unsigned i = 1; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_aead_copy(new->aeads[0], &new->aeads[i], error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_engine_get_stream(engine, SGPU_ENGINE_OPEN, &stream, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_device_key_load(stream, keys, &new->on_device, error);
	}
	if (rc != SGPU_OK) {
		sgpu_live_key_free(&new);
	}
	*key = new;
	return rc;
}

void sgpu_live_key_free(struct sgpu_live_key **key)
{
	struct sgpu_live_key *k = key ? *key : NULL;

	if (!k) {
		return;
	}
	for (unsigned i = 0; i < k->aead_count; i++) {
		sgpu_aead_free(&k->aeads[i]);
	}
	sgpu_device_key_free(&k->on_device);
	sgpu_free_wiped(key, sizeof(*k) + k->aead_count * sizeof(k->aeads[0]));
}
