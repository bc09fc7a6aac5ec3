/* SPDX-License-Identifier: Apache-2.0
 *
 * Live copies: transfers whose source seals plaintext of host memory, in pieces on all workers,
 * into staging buffers.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "crypto/crypto.h"
#include "transfer/engine.h"

struct sgpu_live_key {
	struct sgpu_engine *engine;
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *on_device;
	struct sgpu_stream *copy, *crypt;
	pthread_mutex_t copying; /* held during a copy */
	uint64_t next;		 /* number of chunks sealed so far */
	pthread_mutex_t mutex;	 /* guards the ciphers that no thread uses */
	unsigned idle, aead_count;
	struct sgpu_aead *aeads[]; /* one for each thread that the pool lets seal at once */
};

/* A copy's source: positions count sealed bytes. */
struct live {
	struct sgpu_live_key *key;
	const uint8_t *plaintext;
	uint64_t size;
	uint64_t base; /* number of the copy's first chunk under the key */
};

static int seal_piece(void *context, uint64_t position, void *data, size_t size,
		      struct sgpu_error *error)
{
	const struct live *live = context;
	struct sgpu_live_key *key = live->key;
	const uint64_t first = position / SGPU_SEALED_CHUNK, from = first * SGPU_CHUNK;
	const uint64_t plain = sgpu_opened_size(size);
	const bool last = from + plain == live->size && size % SGPU_SEALED_CHUNK != 0;
	struct sgpu_aead *aead;
	int rc;

	pthread_mutex_lock(&key->mutex);
	aead = key->aeads[--key->idle];
	pthread_mutex_unlock(&key->mutex);
	rc = sgpu_seal_chunks(aead, &key->keys, live->base + first, last, live->plaintext + from,
			      plain, data);
	pthread_mutex_lock(&key->mutex);
	key->aeads[key->idle++] = aead;
	pthread_mutex_unlock(&key->mutex);
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "AES-256-GCM failed");
}

int sgpu_live_in(struct sgpu_live_key *key, const void *plaintext, uint64_t size, sgpu_devptr to,
		 struct sgpu_transfer_result *result)
{
	const uint64_t chunks = size / SGPU_CHUNK + 1;
	struct live live = { .key = key, .plaintext = plaintext, .size = size };
	struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN,
		.key = key->on_device,
		.last = true,
		.memory = to,
		.size = size + chunks * SGPU_TAG_SIZE,
		.end = { .read = seal_piece, .live = true, .context = &live },
		.copy = key->copy,
		.crypt = key->crypt,
	};
	struct sgpu_transfer *transfer = NULL;

	memset(result, 0, sizeof(*result));
	pthread_mutex_lock(&key->copying);
	live.base = request.first = key->next;
	key->next += chunks; /* these numbers are used up even if this copy fails */
	result->code = sgpu_transfer_begin(key->engine, &request, &transfer, &result->error);
	if (result->code == SGPU_OK) {
		*result = *sgpu_transfer_wait(transfer);
		sgpu_transfer_free(&transfer);
	}
	pthread_mutex_unlock(&key->copying);
	if (result->code == SGPU_EAUTH) {
		result->bad_chunk -= live.base;
		sgpu_fail(&result->error, result->code,
			  "what crossed the bus does not verify at chunk %llu of it",
			  (unsigned long long)result->bad_chunk);
	}
	return result->code;
}

/* ---- keys ---- */
/* All of it is random: no copy has a header with a salt. */
int sgpu_live_key_load(struct sgpu_engine *engine, struct sgpu_live_key **key,
		       struct sgpu_error *error)
{
	unsigned count = sgpu_pool_jobs(engine->pool);
	struct sgpu_live_key *new = calloc(1, sizeof(*new) + count * sizeof(new->aeads[0]));
	int rc;

	*key = NULL;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&new->copying, NULL);
	pthread_mutex_init(&new->mutex, NULL);
	new->engine = engine;
	new->idle = new->aead_count = count;
	rc = sgpu_random(&new->keys, sizeof(new->keys), error);
	rc = rc ? rc : sgpu_aead_create(NULL, new->keys.key, &new->aeads[0], error);
	for (unsigned i = 1; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_aead_copy(new->aeads[0], &new->aeads[i], error);
	}
	rc = rc ? rc : sgpu_stream_create(engine->device, &new->copy, error);
	rc = rc ? rc : sgpu_stream_create(engine->device, &new->crypt, error);
	rc = rc ? rc : sgpu_device_key_load(new->crypt, &new->keys, &new->on_device, error);
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
	sgpu_stream_free(&k->copy);
	sgpu_stream_free(&k->crypt);
	pthread_mutex_destroy(&k->mutex);
	pthread_mutex_destroy(&k->copying);
	sgpu_free_wiped(key, sizeof(*k) + k->aead_count * sizeof(k->aeads[0]));
}
