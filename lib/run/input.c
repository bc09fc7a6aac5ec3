/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrivals: a payload comes in pieces, through staging memory, onto the device, and is opened there piece by piece
 * while the next one is read. It counts as arrived only when every piece, the end mark or the digest included, has
 * verified; until then nothing may read it. Whatever its source does meanwhile, what is used is what was verified: the
 * device's own copy, opened or digested where it lies.
 */
#include <stdlib.h>
#include <string.h>

#include "run/inputs.h"
#include "run/transfers.h"

/* One arrival under way. */
struct arrival {
	struct sgpu_run_loader *loader;
	const struct sgpu_load_source *source;
	int segment;
	bool sealed;
	sgpu_devptr memory;            /* of the plaintext */
	uint64_t payload, read;        /* bytes of it, and those that were read in order */
	uint64_t size, at;             /* plaintext bytes, and those that were brought in order */
	struct sgpu_pinned pinned;     /* the payload behind its header, registered */
};

static const char *deadline_text = "the deadline passed before it arrived";

static const char *id_of(const struct sgpu_transfers *run, int segment)
{
	return run->job->manifest->segments[segment].id;
}

void sgpu_load_fail(struct sgpu_transfers *run, int segment, int code, const char *text)
{
	struct sgpu_run_segment *s = &run->segments[segment];

	pthread_mutex_lock(&run->mutex);
	if (atomic_load(&s->in_code) == SGPU_OK) {
		s->in_text = sgpu_run_text("segment '%s' failed: %s", id_of(run, segment), text);
		atomic_store(&s->in_code, code);
	}
	pthread_mutex_unlock(&run->mutex);
}

void sgpu_load_release(struct sgpu_transfers *run, int segment)
{
	if (atomic_fetch_sub(&run->segments[segment].pending, 1) == 1) {
		sgpu_loop_post(run->base->loop, &run->segments[segment].arrived);
	}
}

int sgpu_input_end(struct sgpu_transfers *run, int segment, const char **text)
{
	sgpu_device_key_free(&run->segments[segment].key);
	*text = run->segments[segment].in_text;
	return atomic_load(&run->segments[segment].in_code);
}

static void begin_segment(struct sgpu_transfers *run, int segment)
{
	struct sgpu_run_segment *s = &run->segments[segment];

	s->loaded = true;
	atomic_store(&s->pending, 1);
}

void sgpu_load_miss(struct sgpu_transfers *run, int segment, int code, const char *text)
{
	begin_segment(run, segment);
	sgpu_load_fail(run, segment, code == SGPU_OK ? SGPU_EINVALID : code,
		       code == SGPU_ETIMEOUT ? deadline_text : text);
	sgpu_load_release(run, segment);
}

/* ---- pieces ---- */
static int read_at(const struct arrival *a, const struct sgpu_load_source *source, uint64_t position, void *data,
		   size_t size, struct sgpu_error *error)
{
	struct sgpu_transfers *run = a->loader->run;
	uint64_t begin = sgpu_now_ns();
	int rc = source->read(source, position, data, size, error);

	if (rc == SGPU_OK) {
		sgpu_trace_add(run->base->trace, SGPU_SPAN_READ, -1, id_of(run, a->segment), begin, sgpu_now_ns(), size);
		atomic_fetch_add(&run->base->trace->bytes_in, size);
	}
	return rc;
}

static int read_next(struct arrival *a, void *data, size_t size, struct sgpu_error *error)
{
	int rc = read_at(a, a->source, a->read, data, size, error);

	a->read += rc == SGPU_OK ? size : 0;
	return rc;
}

/* Memory for a piece, and the piece in it. Only a failure to read is returned; the others are the segment's. */
static int fill(const struct arrival *a, const struct sgpu_load_source *source, uint64_t position,
		struct sgpu_run_slot *slot, struct sgpu_slot_piece *piece, struct sgpu_error *error)
{
	struct sgpu_transfers *run = a->loader->run;
	enum sgpu_transfer_path path = SGPU_PATH_REGISTERED, of_slot;
	struct sgpu_error why = { 0 };
	int rc = sgpu_slot_fill(slot, !a->pinned.data, a->sealed, &of_slot, &why);

	if (rc != SGPU_OK) {
		sgpu_load_fail(run, a->segment, rc, why.text);
		return SGPU_OK;
	}
	if (a->pinned.data) {
		piece->from = a->pinned.data + (position - SGPU_SEALED_HEADER);
		atomic_fetch_add(&run->base->trace->bytes_in, piece->bytes);
	} else {
		path = of_slot;
		piece->from = slot->host;
		rc = read_at(a, source, position, slot->host, piece->bytes, error);
	}
	if (rc == SGPU_OK) {
		sgpu_trace_path(run->base->trace, false, path, piece->bytes);
	}
	return rc;
}

/* Bytes [at, at + size) of the plaintext from the source to the device. Only a failure to read is returned. */
static int bring_piece(const struct arrival *a, const struct sgpu_load_source *source, uint64_t at, uint64_t size,
		       struct sgpu_error *error)
{
	struct sgpu_transfers *run = a->loader->run;
	struct sgpu_slot_piece piece = { .segment = a->segment, .key = run->segments[a->segment].key,
					 .chunk = at / SGPU_CHUNK, .last = at + size == a->size };
	uint64_t position = a->sealed ? SGPU_SEALED_HEADER + sgpu_piece_sealed(at, false) : at;
	struct sgpu_run_slot *slot = sgpu_slot_take(a->loader);
	int rc;

	/* The end mark may be all that is in the last piece: then nothing is written, and nothing lies behind. */
	piece.to = a->memory + (size == 0 ? 0 : at);
	piece.bytes = a->sealed ? sgpu_piece_sealed(size, piece.last) : size;
	rc = fill(a, source, position, slot, &piece, error);
	if (rc != SGPU_OK || atomic_load(&run->segments[a->segment].in_code) != SGPU_OK) {
		sgpu_slot_give(slot);
	} else {
		sgpu_slot_send(slot, &piece);
	}
	return rc;
}

static int bring_next(struct arrival *a, struct sgpu_error *error)
{
	uint64_t size = sgpu_piece_next(a->size - a->at, a->loader->piece);
	bool last = a->at + size == a->size;
	int rc = bring_piece(a, a->source, a->at, size, error);

	if (rc == SGPU_OK) {
		a->at += size;
		a->read += a->sealed ? sgpu_piece_sealed(size, last) : size;
	}
	return rc;
}

/* ---- pieces of a file, by several cores, each with slots of its own: none waits for another ---- */
struct shared {
	const struct arrival *arrival;
	struct sgpu_load_source source;
	uint64_t *at;                  /* where pieces begin, and the end */
};

static void bring_shared(void *argument, uint64_t begin, uint64_t end)
{
	const struct shared *s = argument;
	struct sgpu_transfers *run = s->arrival->loader->run;
	int segment = s->arrival->segment;

	for (uint64_t i = begin; i < end; i++) {
		struct sgpu_error why = { 0 };
		int rc = atomic_load(&run->base->stop);

		if (atomic_load(&run->segments[segment].in_code) != SGPU_OK) {
			return;
		}
		if (rc == SGPU_OK) {
			rc = bring_piece(s->arrival, &s->source, s->at[i], s->at[i + 1] - s->at[i], &why);
		}
		if (rc != SGPU_OK) {
			sgpu_load_fail(run, segment, rc, rc == SGPU_ETIMEOUT ? deadline_text :
				       why.text[0] ? why.text : sgpu_strerror(rc));
		}
	}
}

/* Streams are made by one thread. */
static int make_streams(const struct arrival *a, struct sgpu_error *error)
{
	const struct sgpu_run_loader *loader = a->loader;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < loader->copy_count + loader->apart; i++) {
		struct sgpu_stream *stream;

		rc = sgpu_run_stream(loader->run, loader->first_row + i, &stream, error);
	}
	return rc;
}

/* All pieces of a sealed payload in a file. What fails is the segment's. */
static void bring_together(struct arrival *a)
{
	struct shared s = { .arrival = a, .source = *a->source };
	struct sgpu_pool *movers = a->source->movers;
	struct sgpu_error why = { 0 };
	uint64_t count = 0, at = 0;
	int rc = make_streams(a, &why);

	s.at = calloc(a->size / SGPU_RUN_PIECE_MIN + 4, sizeof(*s.at));
	if (rc == SGPU_OK && !s.at) {
		rc = sgpu_fail_nomem(&why);
	}
	if (rc == SGPU_OK) {
		while (at < a->size) {
			at += sgpu_piece_next(a->size - at, a->loader->piece);
			s.at[++count] = at;
		}
		s.source.movers = NULL; /* those who read hold its tokens */
		sgpu_pool_enter(movers);
		rc = sgpu_pool_for(movers, count, 1, bring_shared, &s);
		sgpu_pool_leave(movers);
	}
	if (rc != SGPU_OK) {
		sgpu_load_fail(a->loader->run, a->segment, rc, why.text[0] ? why.text : sgpu_strerror(rc));
	}
	free(s.at);
	a->read = a->payload;
}

/* What is left of a payload that has failed must still be read where others follow it. */
static int skip_rest(struct arrival *a, struct sgpu_error *error)
{
	uint8_t data[16384];
	int rc = SGPU_OK;

	while (rc == SGPU_OK && a->read < a->payload && a->source->fatal) {
		uint64_t left = a->payload - a->read;

		rc = read_next(a, data, left < sizeof(data) ? (size_t)left : sizeof(data), error);
	}
	sgpu_wipe(data, sizeof(data));
	return rc;
}

/* ---- the whole payload ---- */
static int read_header(struct arrival *a, struct sgpu_error *error)
{
	struct sgpu_transfers *run = a->loader->run;
	uint8_t header[SGPU_SEALED_HEADER], key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	struct sgpu_sealed_keys keys = { 0 };
	struct sgpu_stream *stream = NULL;
	struct sgpu_error why = { 0 };
	size_t context_size = 0;
	int opened, rc = read_next(a, header, sizeof(header), error);

	if (rc != SGPU_OK) {
		return rc;
	}
	opened = sgpu_batch_segment_key(run->job->batch, run->job->batch_key, id_of(run, a->segment), NULL, key, context,
					&context_size, &why);
	if (opened == SGPU_OK) {
		opened = sgpu_sealed_keys_open(key, context, context_size, header, &keys, &why);
	}
	if (opened == SGPU_OK) {
		opened = sgpu_run_stream(run, a->loader->first_row, &stream, &why);
	}
	if (opened == SGPU_OK) {
		opened = sgpu_device_key_load(stream, &keys, &run->segments[a->segment].key, &why);
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_wipe(&keys, sizeof(keys));
	if (opened != SGPU_OK) {
		/* Key and context follow from an index that has verified: it is the payload that is not the owner's. */
		sgpu_load_fail(run, a->segment, opened == SGPU_EKEY ? SGPU_EAUTH : opened, why.text);
	}
	return SGPU_OK;
}

/* May be a callback, which may ask nothing of the device. */
static void compare_digest(void *argument)
{
	struct sgpu_run_segment *s = argument;
	struct sgpu_transfers *run = s->transfers;
	const struct sgpu_task *task = &s->digesting;
	int segment = s->arrived.index;

	if (task->code != SGPU_OK) {
		sgpu_load_fail(run, segment, task->code,
			       task->error.text[0] ? task->error.text : sgpu_strerror(task->code));
	} else if (!sgpu_equal(s->digest, run->job->batch->segments[run->job->in_batch[segment]].kt128, sizeof(s->digest))) {
		sgpu_load_fail(run, segment, SGPU_EAUTH, "its kt128 is not the one that the batch names");
	}
	sgpu_load_release(run, segment);
}

/* Enqueues the digest of what lies on the device, behind the copies on all streams that brought it. */
static int start_digest(const struct arrival *a, struct sgpu_stream **stream, struct sgpu_error *error)
{
	const struct sgpu_run_loader *loader = a->loader;
	struct sgpu_transfers *run = loader->run;
	struct sgpu_run_segment *s = &run->segments[a->segment];
	int rc = sgpu_run_stream(run, loader->first_row, stream, error);

	for (int i = 1; rc == SGPU_OK && i < loader->copy_count; i++) {
		struct sgpu_stream *other = run->streams[loader->first_row + i - run->rows.operations];

		rc = other ? sgpu_run_follow(run, other, *stream, error) : SGPU_OK;
	}
	if (rc == SGPU_OK && a->size > 0) {
		rc = sgpu_device_digest(*stream, a->memory, a->size, NULL, 0, s->digest, &s->digesting);
	} else if (rc == SGPU_OK) {
		sgpu_kt128(NULL, 0, NULL, 0, s->digest, sizeof(s->digest));
	}
	return rc;
}

static void check_digest(const struct arrival *a)
{
	struct sgpu_transfers *run = a->loader->run;
	struct sgpu_run_segment *s = &run->segments[a->segment];
	struct sgpu_stream *stream = NULL;
	struct sgpu_error why = { 0 };
	int rc = start_digest(a, &stream, &why);

	if (rc != SGPU_OK) {
		sgpu_load_fail(run, a->segment, rc, why.text[0] ? why.text : sgpu_strerror(rc));
		return;
	}
	atomic_fetch_add(&s->pending, 1);
	if (sgpu_stream_callback(stream, compare_digest, s) != SGPU_OK) {
		if (sgpu_stream_sync(stream, NULL) != SGPU_OK) {
			sgpu_load_fail(run, a->segment, SGPU_EDEVICE, "the device failed");
		}
		compare_digest(s);
	}
}

/* The payload of a file in memory may be read by the device itself, if it is sealed: what it is then does not matter
 * before it has verified. */
static void try_to_pin(struct arrival *a)
{
	const struct sgpu_source *file = a->source->file;
	struct sgpu_transfers *run = a->loader->run;
	uint64_t begin = sgpu_now_ns();

	if (file && a->sealed && atomic_load(&run->segments[a->segment].in_code) == SGPU_OK &&
	    sgpu_pin(run, file->fd, file->offset + a->read, a->payload - a->read, &a->pinned)) {
		sgpu_trace_add(run->base->trace, SGPU_SPAN_READ, -1, id_of(run, a->segment), begin, sgpu_now_ns(),
			      a->payload - a->read);
	}
}

static int bring(struct arrival *a, struct sgpu_error *error)
{
	struct sgpu_transfers *run = a->loader->run;
	const atomic_int *code = &run->segments[a->segment].in_code;
	struct sgpu_error why = { 0 };
	int made, rc = SGPU_OK;

	made = sgpu_memory_get(run->base->memory, run->job->plan->in_buffer[a->segment], &a->memory, &why);
	if (made != SGPU_OK) {
		sgpu_load_fail(run, a->segment, made, why.text);
	} else if (a->sealed) {
		rc = read_header(a, error);
		if (rc == SGPU_OK) {
			try_to_pin(a);
		}
	}
	if (rc == SGPU_OK && atomic_load(code) == SGPU_OK && a->sealed && a->source->movers && !a->pinned.data) {
		bring_together(a);
	}
	while (rc == SGPU_OK && a->read < a->payload && atomic_load(code) == SGPU_OK) {
		if (atomic_load(&run->base->stop)) {
			return sgpu_fail(error, atomic_load(&run->base->stop), "the run was stopped");
		}
		rc = bring_next(a, error);
	}
	if (rc == SGPU_OK) {
		rc = skip_rest(a, error);
	}
	if (rc == SGPU_OK && !a->sealed && atomic_load(code) == SGPU_OK) {
		check_digest(a);
	}
	return rc;
}

int sgpu_load_segment(struct sgpu_run_loader *loader, int segment, const struct sgpu_load_source *source,
		      struct sgpu_error *error)
{
	struct sgpu_transfers *run = loader->run;
	const struct sgpu_batch_segment *in_batch = &run->job->batch->segments[run->job->in_batch[segment]];
	struct arrival a = { .loader = loader, .source = source, .segment = segment, .sealed = in_batch->sealed,
			     .payload = sgpu_batch_payload_size(run->job->batch, run->job->in_batch[segment]),
			     .size = in_batch->size };
	struct sgpu_error why = { 0 };
	int rc;

	begin_segment(run, segment);
	rc = bring(&a, &why);
	if (rc != SGPU_OK) {
		sgpu_load_fail(run, segment, rc, rc == SGPU_ETIMEOUT || atomic_load(&run->base->stop) == SGPU_ETIMEOUT ?
			       deadline_text : why.text);
	}
	sgpu_load_release(run, segment);
	if (a.pinned.data) {
		sgpu_slots_wait(loader);
		sgpu_unpin(run, &a.pinned);
	}
	if (rc != SGPU_OK && source->fatal) {
		if (error) {
			*error = why;
		}
		return rc;
	}
	return SGPU_OK;
}
