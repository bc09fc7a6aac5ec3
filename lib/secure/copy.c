/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure copies: sealed with a fresh key where the data leave, opened and verified where they arrive, so that what passes
 * between is ciphertext. A piece is sealed or opened by the host, by several cores, while the one before it is copied.
 */
#include <stdlib.h>
#include <string.h>

#include "run/run.h"
#include "secure/secure.h"

enum {
	PIECE_CHUNKS = 128,        /* 2 MiB of plaintext */
	GRAIN_CHUNKS = 16,         /* what one core does at a time */
	JOBS_MAX = 8,
	SLOTS = 2,
};
#define PIECE ((uint64_t)PIECE_CHUNKS * SGPU_CHUNK)
#define SLOT_SIZE (((uint64_t)PIECE_CHUNKS * SGPU_SEALED_CHUNK + SGPU_TAG_SIZE + 4095) / 4096 * 4096)

struct slot {
	void *host;
	sgpu_devptr device;
	struct sgpu_event *done;   /* after the piece that is under way, or NULL */
	struct sgpu_task copy, crypt;
	uint64_t piece;
};

struct sgpu_copier {
	struct sgpu_stream *stream;
	struct sgpu_pool *pool;    /* made for the first large copy; NULL: one core does it */
	struct slot slots[SLOTS];
};

/* One copy. */
struct copy {
	struct sgpu_secure *context;
	struct sgpu_copier *copier;
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead;
	struct sgpu_device_key *key;
	bool to_host;
	uint8_t *host;
	sgpu_devptr memory;
	uint64_t size;
};

/* The host's half of one piece. */
struct half {
	const struct copy *copy;
	uint8_t *plain, *sealed;
	uint64_t first, size, chunks;
	bool last;
	atomic_int code;
};

/* ---- the host's half ---- */
static void crypt_part(void *argument, uint64_t begin, uint64_t end)
{
	struct half *h = argument;
	uint64_t to = end * SGPU_CHUNK < h->size ? end * SGPU_CHUNK : h->size, size = to - begin * SGPU_CHUNK;
	uint8_t *plain = h->plain + begin * SGPU_CHUNK, *sealed = h->sealed + begin * SGPU_SEALED_CHUNK;
	bool last = h->last && end == h->chunks;
	struct sgpu_aead *aead = NULL;
	int rc = sgpu_aead_copy(h->copy->aead, &aead, NULL);

	if (rc == SGPU_OK && h->copy->to_host) {
		rc = sgpu_open_chunks(aead, &h->copy->keys, h->first + begin, last, sealed,
				      (size_t)sgpu_piece_sealed(size, last), plain, NULL);
	} else if (rc == SGPU_OK) {
		rc = sgpu_seal_chunks(aead, &h->copy->keys, h->first + begin, last, plain, (size_t)size, sealed);
	}
	sgpu_aead_free(&aead);
	if (rc != SGPU_OK) {
		atomic_store(&h->code, rc);
	}
}

static int crypt_piece(const struct copy *c, uint64_t piece, void *sealed)
{
	uint64_t at = piece * PIECE, size = c->size - at < PIECE ? c->size - at : PIECE;
	struct half h = { .copy = c, .plain = c->host + at, .sealed = sealed, .first = piece * PIECE_CHUNKS,
			  .size = size, .last = at + size == c->size };
	struct sgpu_pool *pool = c->copier->pool;

	h.chunks = size / SGPU_CHUNK + h.last;
	if (!pool || h.chunks <= GRAIN_CHUNKS) {
		crypt_part(&h, 0, h.chunks);
		return atomic_load(&h.code);
	}
	sgpu_pool_enter(pool);
	if (sgpu_pool_for(pool, h.chunks, GRAIN_CHUNKS, crypt_part, &h) != SGPU_OK) {
		atomic_store(&h.code, SGPU_ECANCELED);
	}
	sgpu_pool_leave(pool);
	return atomic_load(&h.code);
}

/* ---- pieces ---- */
static const char *words(const struct sgpu_task *task)
{
	return task->error.text[0] ? task->error.text : sgpu_strerror(task->code);
}

/* Waits for the piece in a slot, and opens it if it came to the host. */
static int finish(struct copy *c, struct slot *s, struct sgpu_error *error)
{
	const struct sgpu_task *bad;
	int rc;

	if (!s->done) {
		return SGPU_OK;
	}
	rc = sgpu_event_sync(s->done, error);
	sgpu_event_free(&s->done);
	bad = s->crypt.code != SGPU_OK ? &s->crypt : &s->copy;
	if (rc == SGPU_OK && bad->code != SGPU_OK) {
		rc = sgpu_fail(error, bad->code, "%s", words(bad));
	}
	if (rc == SGPU_OK && c->to_host) {
		rc = crypt_piece(c, s->piece, s->host);
		if (rc != SGPU_OK) {
			sgpu_fail(error, rc, rc == SGPU_EAUTH ? "what came from the device does not verify" : "%s",
				  sgpu_strerror(rc));
		}
	}
	return rc;
}

static int enqueue(struct copy *c, struct slot *s, uint64_t size, bool last)
{
	struct sgpu_stream *stream = c->copier->stream;
	uint64_t first = s->piece * PIECE_CHUNKS, sealed = sgpu_piece_sealed(size, last);
	sgpu_devptr memory = c->memory + s->piece * PIECE;
	int rc;

	if (c->to_host) {
		rc = sgpu_device_seal_chunks(stream, c->key, first, last, memory, size, s->device, &s->crypt);
		return rc == SGPU_OK ? sgpu_copy_out(stream, s->host, s->device, sealed, &s->copy) : rc;
	}
	rc = sgpu_copy_in(stream, s->device, s->host, sealed, &s->copy);
	return rc == SGPU_OK ? sgpu_device_open_chunks(stream, c->key, first, last, s->device, sealed, memory,
						       &s->crypt) : rc;
}

static int start(struct copy *c, struct slot *s, uint64_t piece, struct sgpu_error *error)
{
	uint64_t at = piece * PIECE, size = c->size - at < PIECE ? c->size - at : PIECE;
	int rc = SGPU_OK;

	memset(&s->copy, 0, sizeof(s->copy));
	memset(&s->crypt, 0, sizeof(s->crypt));
	s->piece = piece;
	if (!c->to_host) {
		rc = crypt_piece(c, piece, s->host);
	}
	if (rc == SGPU_OK) {
		rc = enqueue(c, s, size, at + size == c->size);
	}
	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "%s", s->copy.code != SGPU_OK ? words(&s->copy) :
				 s->crypt.code != SGPU_OK ? words(&s->crypt) : sgpu_strerror(rc));
	}
	rc = sgpu_event_create(sgpu_secure_device(c->context), &s->done, error);
	if (rc == SGPU_OK && sgpu_event_record(c->copier->stream, s->done) != SGPU_OK) {
		sgpu_event_free(&s->done);
		rc = sgpu_fail(error, SGPU_EDEVICE, "cannot record an event");
	}
	return rc;
}

static int all_pieces(struct copy *c, struct sgpu_error *error)
{
	uint64_t count = (c->size + PIECE - 1) / PIECE;
	int rc = SGPU_OK;

	for (uint64_t i = 0; rc == SGPU_OK && i < count + SLOTS; i++) {
		struct slot *s = &c->copier->slots[i % SLOTS];

		rc = finish(c, s, error);
		if (rc == SGPU_OK && i < count) {
			rc = start(c, s, i, error);
		}
	}
	/* Nothing may still read or write what is used again. */
	if (rc != SGPU_OK && sgpu_stream_sync(c->copier->stream, NULL) != SGPU_OK) {
		rc = SGPU_EDEVICE;
	}
	for (int i = 0; i < SLOTS; i++) {
		sgpu_event_free(&c->copier->slots[i].done);
	}
	return rc;
}

/* ---- a whole copy ---- */
static int make_keys(struct copy *c, struct sgpu_error *error)
{
	static const char custom[] = "sgpu secure copy v1";
	uint8_t key[SGPU_KEY_SIZE];
	int rc = sgpu_random(key, sizeof(key), error);

	if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(key, custom, sizeof(custom) - 1, &c->keys, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_aead_create(NULL, c->keys.key, &c->aead, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_device_key_load(c->copier->stream, &c->keys, &c->key, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

/* The context's, made on first use; the lock is held. */
static int make_copier(struct sgpu_secure *context, struct sgpu_error *error)
{
	struct sgpu_device *device = sgpu_secure_device(context);
	struct sgpu_copier *copier = context->copier;
	int rc = SGPU_OK;

	if (copier) {
		return SGPU_OK;
	}
	context->copier = copier = calloc(1, sizeof(*copier));
	if (!copier) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_stream_create(device, &copier->stream, error);
	for (int i = 0; rc == SGPU_OK && i < SLOTS; i++) {
		rc = sgpu_host_alloc(device, SLOT_SIZE, &copier->slots[i].host, error);
		if (rc == SGPU_OK) {
			rc = sgpu_device_alloc(device, SLOT_SIZE, &copier->slots[i].device, error);
		}
	}
	if (rc != SGPU_OK) {
		sgpu_secure_copier_free(context);
	}
	return rc;
}

static void make_pool(struct sgpu_copier *copier, uint64_t size)
{
	unsigned jobs = sgpu_cpu_count();

	if (!copier->pool && jobs > 1 && size >= PIECE &&
	    sgpu_pool_create(jobs < JOBS_MAX ? jobs : JOBS_MAX, &copier->pool, NULL) != SGPU_OK) {
		copier->pool = NULL; /* then one core does it */
	}
}

void sgpu_secure_copier_free(struct sgpu_secure *context)
{
	struct sgpu_device *device = sgpu_secure_device(context);
	struct sgpu_copier *copier = context->copier;

	if (!copier) {
		return;
	}
	sgpu_stream_free(&copier->stream);
	for (int i = 0; i < SLOTS; i++) {
		sgpu_host_free(device, &copier->slots[i].host, SLOT_SIZE);
		sgpu_device_free(device, &copier->slots[i].device, SLOT_SIZE);
	}
	sgpu_pool_free(&copier->pool);
	free(copier);
	context->copier = NULL;
}

static int copy_bytes(struct copy *c, struct sgpu_error *error)
{
	int rc = make_copier(c->context, error);

	c->copier = c->context->copier;
	if (rc == SGPU_OK) {
		make_pool(c->copier, c->size);
		rc = make_keys(c, error);
	}
	if (rc == SGPU_OK) {
		rc = all_pieces(c, error);
	}
	sgpu_device_key_free(&c->key);
	sgpu_aead_free(&c->aead);
	sgpu_wipe(&c->keys, sizeof(c->keys));
	return rc;
}

int sgpu_secure_memcpy(struct sgpu_secure *context, void *host, sgpu_devptr memory, uint64_t size,
		       enum sgpu_secure_direction direction, struct sgpu_error *error)
{
	struct copy c = { .context = context, .to_host = direction == SGPU_SECURE_TO_HOST, .host = host,
			  .memory = memory, .size = size };
	struct sgpu_task task = { 0 };
	int rc = sgpu_secure_check_range(context, memory, size, &task);

	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "%s", task.error.text);
	}
	if (size == 0) {
		return SGPU_OK;
	}
	pthread_mutex_lock(&context->copy_lock);
	rc = copy_bytes(&c, error);
	pthread_mutex_unlock(&context->copy_lock);
	if (rc != SGPU_OK && c.to_host) {
		sgpu_wipe(host, (size_t)size); /* what came before the piece that failed */
	}
	return rc;
}
