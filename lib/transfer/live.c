/* SPDX-License-Identifier: Apache-2.0
 *
 * Live copies: chunk runs lie in staging buffers, where workers seal parts of the oldest run that
 * has any left. A worker prefers the same positions in every run, which its own cache may still
 * hold. The thread that asked for the copy gives the runs to the workers, then to the streams. It
 * seals parts itself until the workers are awake, or when there are few of them; else it only feeds
 * the streams.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "crypto/crypto.h"
#include "transfer/engine.h"

enum {
	PARTS = 32,
	BUFFERS_MAX = 64,
	ALONE = 3,	 /* with fewer workers, the caller's thread works on parts, too */
	FEW_CHUNKS = 32, /* a copy of no more ends before a worker wakes */
	ROUNDS_BEFORE_YIELD = 2000,
};
#define ALL_PARTS ((uint64_t)UINT32_MAX)

struct sgpu_live_key {
	struct sgpu_engine *engine;
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *on_device;
	uint64_t next; /* number of chunks sealed so far */
	unsigned aead_count;
	struct sgpu_aead *aeads[]; /* one for each worker, and the caller's */
};

/* A chunk run in a staging buffer. Workers take parts of the run. */
struct buffer {
	/* The run's number modulo 2^32 and, in the lower half, a bit for each part that was taken.
	 * Both are in one word, so that no worker takes a part of a later run by mistake. */
	_Alignas(64) atomic_uint_fast64_t taken;
	_Alignas(64) atomic_uint finished; /* parts */
	atomic_uint parts;
	struct sgpu_chunk_run run;
	struct sgpu_staging_buffer *staging;
	/* used only by the copy's calling thread */
	struct sgpu_event *middle; /* end of the copy */
	struct sgpu_event *end;	   /* end of both steps */
	struct sgpu_task copy, crypt;
};

struct live {
	struct sgpu_engine *engine;
	struct sgpu_live_key *key;
	struct sgpu_run_plan plan;
	uint64_t base;		  /* number of the copy's first chunk under the key */
	const uint8_t *plaintext; /* in the host's memory */
	sgpu_devptr device;	  /* the device's memory */
	uint64_t size;		  /* bytes of plaintext */
	unsigned workers;	  /* threads that each prefer their own parts of a run */
	unsigned buffer_count;
	struct buffer buffers[BUFFERS_MAX];
	_Alignas(64) atomic_uint_fast64_t offered; /* runs offered to workers so far */
	_Alignas(64) atomic_bool over;
	atomic_uint there; /* workers that have begun */
	atomic_int code;   /* why sealing failed */
	/* used only by the copy's calling thread */
	struct sgpu_transfer_result *result;
	struct sgpu_stream *copy, *crypt;
	struct sgpu_worker_job job;
	uint64_t planned;     /* chunks for which runs exist */
	uint64_t sent, ended; /* runs put on streams, ended on streams */
	uint64_t oldest;      /* the first run that may have parts for this thread */
	bool started;	      /* the workers were called */
	unsigned rounds;      /* consecutive rounds of waiting */
};

static struct buffer *buffer_of(struct live *live, uint64_t number)
{
	return &live->buffers[number % live->buffer_count];
}

/* The size of `count` chunks from `first` on, in plaintext. */
static uint64_t plain_size(const struct live *live, uint64_t first, uint64_t count)
{
	uint64_t from = first * SGPU_CHUNK, bytes = count * SGPU_CHUNK;

	return bytes < live->size - from ? bytes : live->size - from;
}

/* ---- parts of runs, sealed on workers and on the caller's thread ---- */
static void offer(struct live *live, struct sgpu_chunk_run run)
{
	const uint64_t number = atomic_load_explicit(&live->offered, memory_order_relaxed);
	struct buffer *buffer = buffer_of(live, number);
	unsigned parts = PARTS / live->workers * live->workers;

	parts = parts ? parts : PARTS;
	parts = run.count < parts ? (unsigned)run.count : parts;
	buffer->run = run;
	atomic_store_explicit(&buffer->parts, parts, memory_order_relaxed);
	atomic_store_explicit(&buffer->finished, 0, memory_order_relaxed);
	/* Bits without a part count as taken. */
	atomic_store_explicit(&buffer->taken,
			      number << PARTS | (ALL_PARTS & ~(((uint64_t)1 << parts) - 1)),
			      memory_order_release);
	atomic_store_explicit(&live->offered, number + 1, memory_order_release);
}

/* Whether all parts of a run that was offered are sealed. */
static bool is_sealed(struct live *live, uint64_t number)
{
	struct buffer *buffer = buffer_of(live, number);

	return atomic_load_explicit(&buffer->finished, memory_order_acquire) ==
	       atomic_load_explicit(&buffer->parts, memory_order_relaxed);
}

/* Takes the first free part in the bit mask `which`; -1 if none is free. */
static int take(struct buffer *buffer, uint64_t number, uint32_t which)
{
	uint_fast64_t taken = atomic_load_explicit(&buffer->taken, memory_order_acquire);

	while (taken >> PARTS == (uint32_t)number) {
		int part = __builtin_ffs((int)(~(uint32_t)taken & which)) - 1;

		if (part < 0) {
			return part;
		}
		if (atomic_compare_exchange_weak_explicit(
			    &buffer->taken, &taken, taken | (uint64_t)1 << part,
			    memory_order_acq_rel, memory_order_acquire)) {
			return part;
		}
	}
	return -1;
}

/* Bit mask of the parts of a run that this worker prefers. */
static uint32_t own_parts(const struct live *live, const struct buffer *buffer, unsigned thread)
{
	unsigned parts = atomic_load_explicit(&buffer->parts, memory_order_relaxed);
	unsigned begin = thread * parts / live->workers, end = (thread + 1) * parts / live->workers;

	return (uint32_t)(((uint64_t)1 << end) - ((uint64_t)1 << begin));
}

/* Whether all parts of the run are taken, or the run is over. */
static bool all_taken(struct live *live, uint64_t number)
{
	uint64_t taken =
		atomic_load_explicit(&buffer_of(live, number)->taken, memory_order_acquire);

	return taken >> PARTS != (uint32_t)number || (uint32_t)taken == ALL_PARTS;
}

static void seal_part(struct live *live, struct buffer *buffer, int part, unsigned thread)
{
	unsigned parts = atomic_load_explicit(&buffer->parts, memory_order_relaxed);
	uint64_t begin = buffer->run.count * (unsigned)part / parts;
	uint64_t end = buffer->run.count * ((unsigned)part + 1) / parts;
	uint64_t first = buffer->run.first + begin;
	uint8_t *sealed = (uint8_t *)buffer->staging->host + begin * SGPU_SEALED_CHUNK;
	int rc = sgpu_seal_chunks(live->key->aeads[thread], &live->key->keys, live->base + first,
				  buffer->run.first + end == live->plan.total,
				  live->plaintext + first * SGPU_CHUNK,
				  plain_size(live, first, end - begin), sealed);

	if (rc != SGPU_OK) {
		atomic_store(&live->code, rc);
	}
	if (live->engine->demotes) {
		sgpu_transfer_demote(sealed, (end - begin) * SGPU_SEALED_CHUNK);
	}
	atomic_fetch_add_explicit(&buffer->finished, 1, memory_order_release);
}

/* Seals a part of an offered run, if there is any. *oldest: the first run that may have parts left;
 * 0 at first. */
static bool help(struct live *live, uint64_t *oldest, unsigned thread)
{
	uint64_t offered = atomic_load_explicit(&live->offered, memory_order_acquire);

	while (*oldest < offered && all_taken(live, *oldest)) {
		++*oldest;
	}
	for (uint64_t number = *oldest; number < offered; number++) {
		struct buffer *buffer = buffer_of(live, number);
		int part = take(buffer, number, own_parts(live, buffer, thread));

		part = part >= 0 ? part : take(buffer, number, UINT32_MAX);
		if (part >= 0) {
			seal_part(live, buffer, part, thread);
			return true;
		}
	}
	return false;
}

/* Waits a moment. *rounds counts the moments and starts at 0. */
static void pause_round(unsigned *rounds)
{
	if (++*rounds > ROUNDS_BEFORE_YIELD) {
		sched_yield(); /* the awaited thread may need this processor */
		return;
	}
	sgpu_pause();
}

/* A worker stays until the copy is over. */
static bool worker_step(void *argument, unsigned thread)
{
	struct live *live = argument;
	uint64_t oldest = 0;
	unsigned rounds = 0;

	if (atomic_load(&live->over)) {
		return false;
	}
	atomic_fetch_add(&live->there, 1);
	for (;;) {
		/* Read first, so that all runs offered before the end are worked on. */
		bool over = atomic_load(&live->over);

		if (help(live, &oldest, thread)) {
			rounds = 0;
		} else if (over) {
			break;
		} else {
			pause_round(&rounds);
		}
	}
	return true;
}

/* ---- the caller's thread ---- */
static void note(struct live *live, int rc, const struct sgpu_error *error)
{
	if (rc != SGPU_OK && live->result->code == SGPU_OK) {
		live->result->code = rc;
		if (error && error->text[0]) {
			live->result->error = *error;
			live->result->error.code = rc;
		} else {
			sgpu_fail(&live->result->error, rc, "%s", sgpu_strerror(rc));
		}
	}
}

static bool is_going_on(const struct live *live)
{
	return live->result->code == SGPU_OK &&
	       atomic_load_explicit(&live->code, memory_order_relaxed) == SGPU_OK;
}

/* Ends a round of the loop. If it made no progress, seals a part or waits a moment. */
static void end_round(struct live *live, bool progress)
{
	unsigned workers = sgpu_workers_count(live->engine->workers);

	if (!live->started && live->plan.total > FEW_CHUNKS) {
		struct sgpu_error error = { 0 };

		/* Waking takes long, so it comes after the first run was offered. */
		live->job = (struct sgpu_worker_job){ .step = worker_step, .argument = live };
		note(live, sgpu_workers_add(live->engine->workers, &live->job, &error), &error);
		sgpu_workers_wake(live->engine->workers, workers);
		live->started = true;
	}
	if (progress) {
		live->rounds = 0;
	} else if ((workers >= ALONE &&
		    atomic_load_explicit(&live->there, memory_order_relaxed) == workers) ||
		   !help(live, &live->oldest, workers)) {
		pause_round(&live->rounds);
	}
}

static int record(struct live *live, struct sgpu_stream *stream, struct sgpu_event **event,
		  struct sgpu_error *error)
{
	int rc = sgpu_event_create(live->engine->device, event, error);

	if (rc == SGPU_OK) {
		rc = sgpu_event_record(stream, *event);
		if (rc != SGPU_OK) {
			sgpu_event_free(event);
		}
	}
	return rc;
}

/* Copies and opens a run. If kernels reach the only run in host memory, no copy is needed. */
static int enqueue(struct live *live, struct buffer *buffer, struct sgpu_error *error)
{
	const uint64_t first = buffer->run.first, count = buffer->run.count;
	const uint64_t sealed = plain_size(live, first, count) + count * SGPU_TAG_SIZE;
	const bool last = first + count == live->plan.total;
	const bool reached =
		first == 0 && last &&
		sgpu_device_reaches(live->engine->device, buffer->staging->host, sealed, false);
	const struct sgpu_work open = { .kind = reached ? SGPU_WORK_OPEN_FROM : SGPU_WORK_OPEN,
					.in = buffer->staging->device,
					.from = reached ? buffer->staging->host : NULL,
					.size = sealed,
					.out = live->device + first * SGPU_CHUNK,
					.key = live->key->on_device,
					.first = live->base + first,
					.last = last };
	const struct sgpu_work copy = { .kind = SGPU_WORK_COPY_IN,
					.from = buffer->staging->host,
					.out = open.in,
					.size = sealed };
	int rc = SGPU_OK;

	if (!reached) {
		rc = sgpu_engine_enqueue(live->copy, &copy, &buffer->copy, error);
		rc = rc ? rc : record(live, live->copy, &buffer->middle, error);
		rc = rc ? rc : sgpu_stream_wait(live->crypt, buffer->middle);
	}
	rc = rc ? rc : sgpu_engine_enqueue(live->crypt, &open, &buffer->crypt, error);
	return rc ? rc : record(live, live->crypt, &buffer->end, error);
}

/* Puts a run on the streams. From now on end_oldest frees its resources, whatever happens. */
static void send(struct live *live)
{
	struct buffer *buffer = buffer_of(live, live->sent++);
	struct sgpu_error error = { 0 };
	int rc;

	memset(&buffer->copy, 0, sizeof(buffer->copy));
	memset(&buffer->crypt, 0, sizeof(buffer->crypt));
	rc = sgpu_staging_fill(live->engine, buffer->staging, true, true, &error);
	note(live, rc ? rc : enqueue(live, buffer, &error), &error);
}

/* Waits for the oldest run on the streams, and keeps the copy's first failure. */
static void end_oldest(struct live *live)
{
	struct buffer *buffer = buffer_of(live, live->ended++);
	struct sgpu_error error = { 0 };

	/* A run without this event was not wholly enqueued: synchronize() has waited for it. */
	if (buffer->end) {
		note(live, sgpu_event_sync(buffer->end, &error), &error);
		/* The first step has ended, too, but only its own event reports its errors. */
		note(live, buffer->middle ? sgpu_event_sync(buffer->middle, &error) : SGPU_OK,
		     &error);
		note(live, buffer->copy.code, &buffer->copy.error);
		if (live->result->code == SGPU_OK && buffer->crypt.code != SGPU_OK) {
			live->result->bad_chunk = buffer->crypt.bad_chunk;
			note(live, buffer->crypt.code, &buffer->crypt.error);
		}
	}
	sgpu_event_free(&buffer->middle);
	sgpu_event_free(&buffer->end);
}

/* Whether the oldest run has ended on the streams, even with an error. */
static bool oldest_has_ended(struct live *live)
{
	struct sgpu_error error = { 0 };
	bool done = false;
	int rc;

	if (live->ended == live->sent) {
		return false;
	}
	rc = sgpu_event_query(buffer_of(live, live->ended)->end, &done, &error);
	note(live, rc, &error);
	return done || rc != SGPU_OK;
}

static void synchronize(struct live *live)
{
	struct sgpu_stream *streams[] = { live->copy, live->crypt };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(streams); i++) {
		struct sgpu_error error = { 0 };

		if (streams[i]) {
			note(live, sgpu_stream_sync(streams[i], &error), &error);
		}
	}
}

static void drive(struct live *live)
{
	uint64_t offered = 0;

	while (is_going_on(live) && (live->planned < live->plan.total || live->sent < offered)) {
		bool progress = false;

		if (live->planned < live->plan.total &&
		    offered - live->ended < live->buffer_count) {
			struct sgpu_chunk_run run = sgpu_chunk_run_at(&live->plan, live->planned);

			offer(live, run);
			offered++;
			live->planned += run.count;
			progress = true;
		}
		if (live->sent < offered && is_sealed(live, live->sent) && is_going_on(live)) {
			send(live);
			progress = true;
		}
		if (is_going_on(live) && oldest_has_ended(live)) {
			end_oldest(live);
			progress = true;
		}
		end_round(live, progress);
	}
	while (is_going_on(live) && live->ended < live->sent) {
		end_oldest(live);
	}
}

static void note_failure(struct live *live)
{
	struct sgpu_transfer_result *result = live->result;
	const int rc = atomic_load(&live->code);
	struct sgpu_error error;

	if (rc != SGPU_OK) {
		sgpu_fail(&error, rc, "AES-256-GCM failed");
		note(live, rc, &error);
	}
	if (result->code == SGPU_EAUTH) {
		result->bad_chunk -= live->base;
		sgpu_fail(&result->error, result->code,
			  "what crossed the bus does not verify at chunk %llu of it",
			  (unsigned long long)result->bad_chunk);
	}
}

/* ---- the whole copy ---- */
/* Takes at least one staging buffer, and as many more as are available and useful. */
static int take_buffers(struct live *live, uint64_t runs, struct sgpu_error *error)
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

static void give_buffers(struct live *live)
{
	pthread_mutex_lock(&live->engine->mutex);
	for (unsigned i = 0; i < live->buffer_count; i++) {
		sgpu_staging_give(live->engine, live->buffers[i].staging);
	}
	pthread_mutex_unlock(&live->engine->mutex);
}

static int prepare(struct live *live)
{
	struct sgpu_engine *engine = live->engine;
	const struct sgpu_engine_config *config = &engine->config;
	const uint64_t chunks = live->size / SGPU_CHUNK + 1;
	struct sgpu_error error = { 0 };
	int rc;

	live->plan = (struct sgpu_run_plan){ .total = chunks,
					     .largest = config->staged_run / SGPU_CHUNK,
					     .at_begin = config->first_run / SGPU_CHUNK,
					     .at_end = config->last_run / SGPU_CHUNK };
	live->workers = sgpu_workers_count(engine->workers);
	live->workers += live->workers < ALONE;
	live->base = live->key->next;
	live->key->next += chunks; /* these numbers are used up even if this copy fails */
	rc = take_buffers(live, chunks / (config->first_run / SGPU_CHUNK) + 1, &error);
	rc = rc ? rc : sgpu_engine_get_stream(engine, SGPU_ENGINE_COPY_IN, &live->copy, &error);
	rc = rc ? rc : sgpu_engine_get_stream(engine, SGPU_ENGINE_OPEN, &live->crypt, &error);
	note(live, rc, &error);
	return rc;
}

/* Ends a copy: waits for all of its work, and clears what a failed copy left. */
static void finish(struct live *live)
{
	if (live->result->code != SGPU_OK) {
		synchronize(live);
	}
	while (live->ended < live->sent) {
		end_oldest(live);
	}
	if (live->result->code != SGPU_OK && live->size > 0 && live->crypt &&
	    sgpu_device_clear(live->crypt, live->device, live->size, NULL) == SGPU_OK) {
		synchronize(live);
	}
}

static int copy_in(struct live *live)
{
	struct sgpu_transfer_result *result = live->result;
	struct sgpu_engine *engine = live->engine;

	if (live->key->engine != engine) {
		result->code = sgpu_fail(&result->error, SGPU_EUSAGE,
					 "the key of a live copy is another engine's");
		return result->code;
	}
	pthread_mutex_lock(&engine->live_lock);
	if (prepare(live) == SGPU_OK) {
		drive(live);
	}
	atomic_store(&live->over, true);
	if (live->started) {
		sgpu_workers_remove(engine->workers, &live->job);
	}
	note_failure(live);
	finish(live);
	give_buffers(live);
	result->bytes[engine->pins ? SGPU_PATH_PINNED : SGPU_PATH_PAGEABLE] = live->size;
	result->end_ns = sgpu_now_ns();
	pthread_mutex_unlock(&engine->live_lock);
	return result->code;
}

int sgpu_live_in(struct sgpu_engine *engine, struct sgpu_live_key *key, const void *plaintext,
		 uint64_t size, sgpu_devptr to, struct sgpu_transfer_result *result)
{
	struct sgpu_transfer_result own;
	/* too large for the stack of a library's caller */
	struct live *live = aligned_alloc(64, sizeof(*live));
	int rc;

	result = result ? result : &own;
	memset(result, 0, sizeof(*result));
	result->begin_ns = sgpu_now_ns();
	if (!live) {
		result->code = sgpu_fail_nomem(&result->error);
		return result->code;
	}
	memset(live, 0, sizeof(*live));
	live->engine = engine;
	live->key = key;
	live->plaintext = plaintext;
	live->size = size;
	live->device = to;
	live->result = result;
	rc = copy_in(live);
	free(live);
	return rc;
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
