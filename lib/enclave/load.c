/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrivals: a payload comes in pieces, through staging memory, onto the device, and is opened there piece by piece
 * while the next one is read. It counts as arrived only when every piece, the end mark or the digest included, has
 * verified; until then nothing may read it.
 */
#include <stdlib.h>
#include <string.h>

#include "enclave/run.h"

/* One arrival under way. */
struct arrival {
	struct sgpu_run_loader *loader;
	struct sgpu_load_source *source;
	int segment;
	sgpu_devptr memory;            /* of the plaintext */
	uint64_t left;                 /* bytes of the payload still to be read */
	uint64_t at;                   /* plaintext bytes that were brought */
	uint64_t chunk;
	struct sgpu_device_key *key;   /* sealed; the segment keeps it */
	struct sgpu_sha256 *digest;    /* not sealed */
};

static const char *id_of(const struct sgpu_run *run, int segment)
{
	return run->manifest->segments[segment].id;
}

/* The first failure of a segment stands. */
static void fail_segment(struct sgpu_run *run, int segment, int code, const char *text)
{
	struct sgpu_run_segment *s = &run->segments[segment];

	pthread_mutex_lock(&run->mutex);
	if (atomic_load(&s->in_code) == SGPU_OK) {
		s->in_text = sgpu_run_text("segment '%s' failed: %s", id_of(run, segment), text);
		atomic_store(&s->in_code, code);
	}
	pthread_mutex_unlock(&run->mutex);
}

/* One of those that hold the segment back has ended; the last posts it. */
static void release_segment(struct sgpu_run *run, int segment)
{
	struct sgpu_run_segment *s = &run->segments[segment];

	if (atomic_fetch_sub(&s->pending, 1) == 1) {
		sgpu_device_key_free(&s->key);
		sgpu_run_post(&s->arrived);
	}
}

static void begin_segment(struct sgpu_run *run, int segment)
{
	struct sgpu_run_segment *s = &run->segments[segment];

	s->loaded = true;
	s->arrived = (struct sgpu_run_node){ .run = run, .kind = SGPU_NODE_ARRIVED, .index = segment };
	atomic_store(&s->pending, 1);
}

void sgpu_load_miss(struct sgpu_run *run, int segment, int code, const char *text)
{
	begin_segment(run, segment);
	fail_segment(run, segment, code == SGPU_OK ? SGPU_EINVALID : code,
		     code == SGPU_ETIMEOUT ? "the deadline passed before it arrived" : text);
	release_segment(run, segment);
}

/* ---- slots ---- */
static struct sgpu_run_slot *find_slot(struct sgpu_run_loader *loader)
{
	for (int i = 0; i < loader->slot_count; i++) {
		if (!loader->slots[i].busy) {
			return &loader->slots[i];
		}
	}
	return NULL;
}

/* Waits for a free slot. They come back without fail: what a stop cuts short ends too. */
static struct sgpu_run_slot *take_slot(struct sgpu_run_loader *loader)
{
	struct sgpu_run *run = loader->run;
	struct sgpu_run_slot *slot;

	pthread_mutex_lock(&run->mutex);
	while (!(slot = find_slot(loader))) {
		pthread_cond_wait(&run->slot_free, &run->mutex);
	}
	slot->busy = true;
	pthread_mutex_unlock(&run->mutex);
	memset(&slot->copy, 0, sizeof(slot->copy));
	memset(&slot->open, 0, sizeof(slot->open));
	return slot;
}

static void give_slot(struct sgpu_run_slot *slot)
{
	struct sgpu_run *run = slot->loader->run;

	pthread_mutex_lock(&run->mutex);
	slot->busy = false;
	pthread_cond_broadcast(&run->slot_free);
	pthread_mutex_unlock(&run->mutex);
}

static int row_of(const struct sgpu_run_slot *slot)
{
	const struct sgpu_run_loader *loader = slot->loader;

	return loader->first_row + (int)(slot - loader->slots) % loader->stream_count;
}

static int fill_slot(struct sgpu_run_slot *slot, bool sealed, struct sgpu_error *error)
{
	struct sgpu_run_loader *loader = slot->loader;

	if (!slot->host) {
		slot->host = aligned_alloc(4096, (loader->slot_size + 4095) / 4096 * 4096);
		if (!slot->host) {
			return sgpu_fail_nomem(error);
		}
	}
	if (sealed && !slot->device) {
		return sgpu_device_alloc(loader->run->device, loader->slot_size, &slot->device, error);
	}
	return SGPU_OK;
}

/* On a stream's thread, when a piece has been brought in and opened, or not. */
static void piece_done(void *argument)
{
	struct sgpu_run_slot *slot = argument;
	struct sgpu_run *run = slot->loader->run;
	int segment = slot->segment;
	const struct sgpu_task *bad = slot->copy.code != SGPU_OK ? &slot->copy : &slot->open;

	if (bad->code == SGPU_EAUTH) {
		char text[128];

		snprintf(text, sizeof(text), "chunk %llu does not verify", (unsigned long long)bad->bad_chunk);
		fail_segment(run, segment, SGPU_EAUTH, text);
	} else if (bad->code != SGPU_OK) {
		fail_segment(run, segment, bad->code, bad->error.text[0] ? bad->error.text : sgpu_strerror(bad->code));
	}
	sgpu_span_add(run, SGPU_SPAN_COPY_IN, row_of(slot), id_of(run, segment), slot->copy.begin_ns,
		      slot->copy.end_ns, slot->bytes);
	sgpu_span_add(run, SGPU_SPAN_OPEN, row_of(slot), id_of(run, segment), slot->open.begin_ns, slot->open.end_ns,
		      slot->bytes);
	give_slot(slot);
	release_segment(run, segment);
}

/* ---- pieces ---- */
static int enqueue_piece(struct arrival *a, struct sgpu_run_slot *slot, size_t size, bool sealed, bool last,
			 struct sgpu_stream *stream, struct sgpu_error *error)
{
	/* The end mark may be all that is in the last piece: then nothing is written, and nothing lies behind. */
	bool empty = sealed && last && size == SGPU_TAG_SIZE;
	sgpu_devptr to = empty ? a->memory : a->memory + a->at;
	int rc;

	rc = sgpu_copy_in(stream, sealed ? slot->device : to, slot->host, size, &slot->copy);
	if (rc == SGPU_OK && sealed) {
		rc = sgpu_device_open_chunks(stream, a->key, a->chunk, last, slot->device, size, to, &slot->open);
	}
	if (rc != SGPU_OK) {
		sgpu_fail(error, rc, "the device refused a piece: %s", sgpu_strerror(rc));
	}
	return rc;
}

/* Hands a piece that was read to the device. From here on the slot is the stream's. */
static int send_piece(struct arrival *a, struct sgpu_run_slot *slot, size_t size, bool sealed, bool last)
{
	struct sgpu_run *run = a->loader->run;
	struct sgpu_error error = { 0 };
	struct sgpu_stream *stream = NULL;
	int rc = sgpu_run_stream(run, row_of(slot), &stream, &error);

	if (rc == SGPU_OK) {
		rc = enqueue_piece(a, slot, size, sealed, last, stream, &error);
	}
	if (rc != SGPU_OK) {
		fail_segment(run, a->segment, rc, error.text);
	}
	slot->segment = a->segment;
	slot->bytes = size;
	atomic_fetch_add(&run->segments[a->segment].pending, 1);
	if (!stream || sgpu_stream_callback(stream, piece_done, slot) != SGPU_OK) {
		if (stream && sgpu_stream_sync(stream, NULL) != SGPU_OK) {
			fail_segment(run, a->segment, SGPU_EDEVICE, "the device failed");
		}
		piece_done(slot);
	}
	return rc;
}

static int read_piece(struct arrival *a, void *data, size_t size, struct sgpu_error *error)
{
	struct sgpu_run *run = a->loader->run;
	uint64_t begin = sgpu_now_ns();
	int rc = a->source->read(a->source, data, size, error);

	if (rc == SGPU_OK) {
		sgpu_span_add(run, SGPU_SPAN_READ, -1, id_of(run, a->segment), begin, sgpu_now_ns(), size);
		atomic_fetch_add(&run->bytes_in, size);
		a->left -= size;
	}
	return rc;
}

/* One piece from the source to the device. Only a failure to read is returned. */
static int bring_piece(struct arrival *a, bool sealed, struct sgpu_error *error)
{
	struct sgpu_run *run = a->loader->run;
	size_t most = sealed ? SGPU_RUN_SEALED_PIECE : SGPU_RUN_PIECE;
	size_t size = a->left < most ? (size_t)a->left : most;
	struct sgpu_run_slot *slot = take_slot(a->loader);
	struct sgpu_error why = { 0 };
	int rc = fill_slot(slot, sealed, &why);

	if (rc != SGPU_OK) {
		fail_segment(run, a->segment, rc, why.text);
		give_slot(slot);
		return SGPU_OK;
	}
	rc = read_piece(a, slot->host, size, error);
	if (rc == SGPU_OK && a->digest) {
		int hashed = sgpu_sha256_update(a->digest, slot->host, size, &why);

		if (hashed != SGPU_OK) {
			fail_segment(run, a->segment, hashed, why.text);
		}
	}
	if (rc != SGPU_OK || atomic_load(&run->segments[a->segment].in_code) != SGPU_OK) {
		give_slot(slot);
		return rc;
	}
	if (send_piece(a, slot, size, sealed, a->left == 0) == SGPU_OK) {
		a->at += sealed ? SGPU_RUN_PIECE : size;
		a->chunk += SGPU_RUN_PIECE_CHUNKS;
	}
	return SGPU_OK;
}

/* What is left of a payload that has failed must still be read where others follow it. */
static int skip_rest(struct arrival *a, struct sgpu_error *error)
{
	uint8_t data[16384];
	int rc = SGPU_OK;

	while (rc == SGPU_OK && a->left > 0 && a->source->fatal) {
		rc = read_piece(a, data, a->left < sizeof(data) ? (size_t)a->left : sizeof(data), error);
	}
	sgpu_wipe(data, sizeof(data));
	return rc;
}

/* ---- the whole payload ---- */
static int read_header(struct arrival *a, struct sgpu_error *error)
{
	struct sgpu_run *run = a->loader->run;
	uint8_t header[SGPU_SEALED_HEADER], key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	struct sgpu_sealed_keys keys = { 0 };
	struct sgpu_stream *stream = NULL;
	struct sgpu_error why = { 0 };
	size_t context_size = 0;
	int opened, rc = read_piece(a, header, sizeof(header), error);

	if (rc != SGPU_OK) {
		return rc;
	}
	opened = sgpu_batch_segment_key(run->batch, run->batch_key, id_of(run, a->segment), false, key, context,
					&context_size, &why);
	if (opened == SGPU_OK) {
		opened = sgpu_sealed_keys_open(key, context, context_size, header, &keys, &why);
	}
	if (opened == SGPU_OK) {
		opened = sgpu_run_stream(run, a->loader->first_row, &stream, &why);
	}
	if (opened == SGPU_OK) {
		opened = sgpu_device_key_load(stream, &keys, &run->segments[a->segment].key, &why);
		a->key = run->segments[a->segment].key;
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_wipe(&keys, sizeof(keys));
	if (opened != SGPU_OK) {
		fail_segment(run, a->segment, opened, why.text);
	}
	return SGPU_OK;
}

static void check_digest(struct arrival *a, const struct sgpu_batch_segment *in_batch)
{
	struct sgpu_run *run = a->loader->run;
	uint8_t digest[SGPU_SHA256_SIZE];
	struct sgpu_error why = { 0 };
	int rc = sgpu_sha256_finish(a->digest, digest, &why);

	if (rc != SGPU_OK) {
		fail_segment(run, a->segment, rc, why.text);
	} else if (!sgpu_equal(digest, in_batch->sha256, sizeof(digest))) {
		fail_segment(run, a->segment, SGPU_EAUTH, "its SHA-256 is not the one that the batch names");
	}
}

static int bring(struct arrival *a, const struct sgpu_batch_segment *in_batch, struct sgpu_error *error)
{
	struct sgpu_run *run = a->loader->run;
	const atomic_int *code = &run->segments[a->segment].in_code;
	struct sgpu_error why = { 0 };
	int made, rc = SGPU_OK;

	made = sgpu_run_memory(run, run->plan->in_buffer[a->segment], &a->memory, &why);
	if (made == SGPU_OK && !in_batch->sealed) {
		made = sgpu_sha256_create(&a->digest, &why);
	}
	if (made != SGPU_OK) {
		fail_segment(run, a->segment, made, why.text);
	} else if (in_batch->sealed) {
		rc = read_header(a, error);
	}
	while (rc == SGPU_OK && a->left > 0 && atomic_load(code) == SGPU_OK) {
		if (atomic_load(&run->stop)) {
			return sgpu_fail(error, atomic_load(&run->stop), "the run was stopped");
		}
		rc = bring_piece(a, in_batch->sealed, error);
	}
	if (rc == SGPU_OK) {
		rc = skip_rest(a, error);
	}
	if (rc == SGPU_OK && a->digest && atomic_load(code) == SGPU_OK) {
		check_digest(a, in_batch);
	}
	return rc;
}

int sgpu_load_segment(struct sgpu_run_loader *loader, int segment, struct sgpu_load_source *source,
		      struct sgpu_error *error)
{
	struct sgpu_run *run = loader->run;
	int in_batch = run->segments[segment].in_batch;
	struct arrival a = { .loader = loader, .source = source, .segment = segment,
			     .left = sgpu_batch_payload_size(run->batch, in_batch) };
	struct sgpu_error why = { 0 };
	int rc;

	begin_segment(run, segment);
	rc = bring(&a, &run->batch->segments[in_batch], &why);
	if (rc != SGPU_OK) {
		fail_segment(run, segment, rc, rc == SGPU_ETIMEOUT || atomic_load(&run->stop) == SGPU_ETIMEOUT ?
			     "the deadline passed before it arrived" : why.text);
	}
	sgpu_sha256_free(&a.digest);
	release_segment(run, segment);
	if (rc != SGPU_OK && source->fatal) {
		if (error) {
			*error = why;
		}
		return rc;
	}
	return SGPU_OK;
}

void sgpu_load_free(struct sgpu_run *run)
{
	for (int l = 0; l < SGPU_RUN_LOADERS; l++) {
		struct sgpu_run_loader *loader = &run->loaders[l];

		for (int i = 0; i < loader->slot_count; i++) {
			free(loader->slots[i].host);
			loader->slots[i].host = NULL;
			sgpu_device_free(run->device, &loader->slots[i].device, loader->slot_size);
		}
	}
}
