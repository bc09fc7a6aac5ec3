/* SPDX-License-Identifier: Apache-2.0
 *
 * Live copies: a transfer of sealed chunk runs whose source seals what it reads from the caller's
 * memory, or whose sink opens what it writes there.
 */
#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"
#include "crypto/internal.h"
#include "transfer/engine.h"

#define SMALLEST_RUN ((uint64_t)512 << 10)

struct sgpu_live_key {
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *on_device;
	atomic_uint_fast64_t next; /* chunks that were sealed */
	struct sgpu_aead *model;   /* of the ciphers; only copied */
	pthread_mutex_t mutex;
	unsigned idle, most; /* ciphers that nobody uses */
	struct sgpu_aead *aeads[];
};

struct live {
	struct sgpu_live_key *key;
	enum sgpu_transfer_stage stage;
	bool demotes;
	uint64_t base;			/* number of the copy's first chunk */
	uint64_t chunks;		/* of the copy */
	uint8_t *plaintext;		/* the host's */
	uint64_t size;			/* bytes of plaintext */
	atomic_uint_fast64_t bad_chunk; /* the lowest that the host has found, from `base` on */
};

static int take_aead(struct sgpu_live_key *key, struct sgpu_aead **aead, struct sgpu_error *error)
{
	pthread_mutex_lock(&key->mutex);
	*aead = key->idle > 0 ? key->aeads[--key->idle] : NULL;
	pthread_mutex_unlock(&key->mutex);
	return *aead ? SGPU_OK : sgpu_aead_copy(key->model, aead, error);
}

static void give_aead(struct sgpu_live_key *key, struct sgpu_aead *aead)
{
	pthread_mutex_lock(&key->mutex);
	if (key->idle < key->most) {
		key->aeads[key->idle++] = aead;
		aead = NULL;
	}
	pthread_mutex_unlock(&key->mutex);
	sgpu_aead_free(&aead);
}

/* ---- to the device ---- */
/* The tag of each chunk goes where the next one is written. */
static int seal_without_tags(struct live *live, struct sgpu_aead *aead, uint64_t first, uint8_t *to,
			     size_t size)
{
	uint8_t last[SGPU_SEALED_CHUNK];
	int rc = SGPU_OK;

	for (size_t at = 0; rc == SGPU_OK && at < size; at += SGPU_CHUNK) {
		const bool ends = size - at <= SGPU_CHUNK;
		const size_t part = ends ? size - at : SGPU_CHUNK;

		rc = sgpu_seal_chunks(aead, &live->key->keys, live->base + first, part < SGPU_CHUNK,
				      live->plaintext + first * SGPU_CHUNK, part,
				      ends ? last : to + at);
		if (ends) {
			memcpy(to + at, last, part);
		}
		first++;
	}
	return rc;
}

static int encrypt(struct live *live, uint64_t first, void *to, size_t size)
{
	uint8_t nonce[SGPU_NONCE_SIZE];

	sgpu_sealed_nonce(&live->key->keys, live->base + first, nonce);
	return sgpu_aes_ctr(live->key->keys.key, nonce, live->plaintext + first * SGPU_CHUNK, size,
			    to);
}

static int seal_run(void *context, uint64_t position, void *data, size_t size,
		    struct sgpu_error *error)
{
	struct live *live = context;
	const bool sealed = live->stage == SGPU_TRANSFER_OPEN;
	const uint64_t first = position / (sealed ? SGPU_SEALED_CHUNK : SGPU_CHUNK);
	struct sgpu_aead *aead = NULL;
	int rc = take_aead(live->key, &aead, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	if (sealed) {
		rc = sgpu_seal_chunks(aead, &live->key->keys, live->base + first,
				      position + size == sgpu_run_sealed_size(live->size, true),
				      live->plaintext + first * SGPU_CHUNK, sgpu_opened_size(size),
				      data);
	} else if (live->stage == SGPU_TRANSFER_STAGE) {
		memcpy(data, live->plaintext + position, size);
	} else {
		rc = live->stage == SGPU_TRANSFER_ENCRYPT
			     ? encrypt(live, first, data, size)
			     : seal_without_tags(live, aead, first, data, size);
	}
	give_aead(live->key, aead);
	if (live->demotes) {
		sgpu_transfer_demote(data, size);
	}
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "AES-256-GCM failed");
}

/* ---- from the device ---- */
static void note_bad_chunk(struct live *live, uint64_t chunk)
{
	uint_fast64_t lowest = atomic_load(&live->bad_chunk);

	while (chunk < lowest && !atomic_compare_exchange_weak(&live->bad_chunk, &lowest, chunk)) {
	}
}

/* One chunk after the other into this core's own cache, and on from there once it has verified. */
static int open_run(void *context, uint64_t position, const void *data, size_t size,
		    struct sgpu_error *error)
{
	struct live *live = context;
	const uint8_t *sealed = data;
	uint64_t chunk = position / SGPU_SEALED_CHUNK;
	_Alignas(64) uint8_t scratch[SGPU_CHUNK];
	struct sgpu_aead *aead = NULL;
	int rc = take_aead(live->key, &aead, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	for (size_t at = 0; rc == SGPU_OK && at < size; at += SGPU_SEALED_CHUNK, chunk++) {
		const size_t part =
			size - at < SGPU_SEALED_CHUNK ? size - at : (size_t)SGPU_SEALED_CHUNK;

		rc = sgpu_open_chunks(aead, &live->key->keys, live->base + chunk,
				      chunk + 1 == live->chunks, sealed + at, part, scratch, NULL);
		if (rc == SGPU_OK) {
			sgpu_transfer_store(live->plaintext + chunk * SGPU_CHUNK, scratch,
					    part - SGPU_TAG_SIZE);
		} else {
			note_bad_chunk(live, chunk);
		}
	}
	sgpu_transfer_store_fence();
	sgpu_wipe(scratch, sizeof(scratch));
	give_aead(live->key, aead);
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "AES-256-GCM failed");
}

/* ---- both ---- */
/* So that every worker has some. */
static uint64_t run_size(const struct sgpu_engine *engine, uint64_t size)
{
	const uint64_t part = size / (2 * engine->config.workers);

	return part < SMALLEST_RUN ? SMALLEST_RUN : part;
}

static int copy(struct sgpu_engine *engine, struct live *live,
		struct sgpu_transfer_request *request, struct sgpu_transfer_result *result)
{
	struct sgpu_transfer_result local;
	int rc;

	result = result ? result : &local;
	request->run = run_size(engine, live->size);
	live->demotes = engine->demotes;
	live->chunks = live->size / SGPU_CHUNK + 1;
	/* never again, whatever becomes of this copy */
	request->first = live->base = atomic_fetch_add(&live->key->next, live->chunks);
	atomic_init(&live->bad_chunk, UINT64_MAX);
	rc = sgpu_transfer_sync(engine, request, result);
	if (rc == SGPU_EAUTH) {
		const uint64_t found = atomic_load(&live->bad_chunk);

		result->bad_chunk = found != UINT64_MAX ? found : result->bad_chunk - live->base;
		sgpu_fail(&result->error, rc,
			  "what crossed the bus does not verify at chunk %llu of it",
			  (unsigned long long)result->bad_chunk);
	}
	return rc;
}

int sgpu_live_in(struct sgpu_engine *engine, struct sgpu_live_key *key,
		 enum sgpu_transfer_stage stage, const void *plaintext, uint64_t size,
		 sgpu_devptr to, struct sgpu_transfer_result *result)
{
	struct live live = {
		.key = key, .stage = stage, .plaintext = (void *)(uintptr_t)plaintext, .size = size
	};
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN,
		.memory = to,
		.size = size,
		.source = { .read = seal_run, .context = &live },
	};

	if (stage == SGPU_TRANSFER_OPEN) {
		request.key = key->on_device;
		request.last = true;
		request.size = sgpu_run_sealed_size(size, true);
	}
	return copy(engine, &live, &request, result);
}

int sgpu_live_out(struct sgpu_engine *engine, struct sgpu_live_key *key, sgpu_devptr from,
		  uint64_t size, void *plaintext, struct sgpu_transfer_result *result)
{
	struct live live = { .key = key, .plaintext = plaintext, .size = size };
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_OUT,
		.key = key->on_device,
		.last = true,
		.memory = from,
		.size = size,
		.sink = { .write = open_run, .context = &live },
	};
	const int rc = copy(engine, &live, &request, result);

	if (rc != SGPU_OK) {
		sgpu_wipe(plaintext, size);
	}
	return rc;
}

/* ---- keys ---- */
int sgpu_live_key_load(struct sgpu_engine *engine, const struct sgpu_sealed_keys *keys,
		       struct sgpu_live_key **key, struct sgpu_error *error)
{
	const unsigned most = engine->config.workers + 1;
	struct sgpu_live_key *new = calloc(1, sizeof(*new) + most * sizeof(new->aeads[0]));
	struct sgpu_stream *stream = NULL;
	int rc;

	*key = NULL;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->keys = *keys;
	new->most = most;
	pthread_mutex_init(&new->mutex, NULL);
	rc = sgpu_aead_create(NULL, keys->key, &new->model, error);
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
	for (unsigned i = 0; i < k->idle; i++) {
		sgpu_aead_free(&k->aeads[i]);
	}
	sgpu_aead_free(&k->model);
	sgpu_device_key_free(&k->on_device);
	pthread_mutex_destroy(&k->mutex);
	sgpu_free_wiped(key, sizeof(*k) + k->most * sizeof(k->aeads[0]));
}
