/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve on the workers of a pool. They compute the leaves of one window after another; the
 * final node takes the chaining values of a window in order while the leaves of the next one are
 * computed.
 */
#include <pthread.h>
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "crypto/kt128.h"

enum {
	PIECE = 8, /* leaves that a worker computes at a time: as many as the widest vectors hold */
	WINDOW = 4096,	      /* leaves whose chaining values are kept until the node takes them */
	SHARED_MIN = 1 << 20, /* least bytes for which it pays to wake workers */
};

/* The source of bytes: memory, or a file, and maybe another file to copy them to. */
struct source {
	const uint8_t *data;
	const struct sgpu_file_place *file, *copy;
};

struct window {
	const struct source *source;
	uint64_t position; /* of the first leaf in the source, in bytes */
	uint64_t leaves;
	uint8_t *values;
	struct sgpu_kt128 *state; /* the digest that takes the values */
	const uint8_t *before;	  /* chaining values of the previous window */
	uint64_t before_count;	  /* how many */
	pthread_mutex_t lock;
	int code; /* the first failure */
	struct sgpu_error error;
};

/* Returns the bytes at a position of the source: in memory, or read into `buffer` and written to
 * the copy. NULL after a failure. */
static const uint8_t *get_bytes(const struct source *source, uint64_t position, uint8_t *buffer,
				size_t size, int *code, struct sgpu_error *error)
{
	size_t got = 0;

	if (source->data) {
		return source->data + position;
	}
	*code = sgpu_pread(source->file->fd, source->file->name, buffer, size,
			   source->file->offset + position, &got, error);
	if (*code == SGPU_OK && got < size) {
		*code = sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read",
				  source->file->name);
	}
	if (*code == SGPU_OK && source->copy) {
		*code = sgpu_pwrite(source->copy->fd, source->copy->name, buffer, size,
				    source->copy->offset + position, error);
	}
	return *code == SGPU_OK ? buffer : NULL;
}

static void compute_piece(struct window *w, uint64_t first)
{
	const uint64_t leaves = w->leaves - first < PIECE ? w->leaves - first : PIECE;
	uint8_t buffer[PIECE * SGPU_KT128_CHUNK];
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;
	const uint8_t *data = get_bytes(w->source, w->position + first * SGPU_KT128_CHUNK, buffer,
					leaves * SGPU_KT128_CHUNK, &rc, &error);

	if (data) {
		sgpu_kt128_leaves(data, leaves, w->values + first * SGPU_KT128_VALUE);
		return;
	}
	pthread_mutex_lock(&w->lock);
	if (w->code == SGPU_OK) {
		w->code = rc;
		w->error = error;
	}
	pthread_mutex_unlock(&w->lock);
}

/* Runs pieces of a window. In piece 0, the node takes the values of the previous window; each other
 * piece computes leaves. */
static void window_pieces(void *argument, uint64_t begin, uint64_t end)
{
	struct window *w = argument;

	for (uint64_t i = begin; i < end; i++) {
		if (i == 0) {
			sgpu_kt128_take(w->state, w->before, w->before_count);
		} else {
			compute_piece(w, (i - 1) * PIECE);
		}
	}
}

static int run_window(struct window *w, struct sgpu_pool *pool, struct sgpu_error *error)
{
	const uint64_t pieces = 1 + (w->leaves + PIECE - 1) / PIECE;
	const bool shared = w->leaves * SGPU_KT128_CHUNK >= SHARED_MIN;
	int rc = SGPU_OK;

	if (pthread_mutex_init(&w->lock, NULL) != 0) {
		return sgpu_fail_nomem(error);
	}
	if (pool) {
		rc = sgpu_pool_for(pool, pieces, shared ? 1 : pieces, window_pieces, w);
	} else {
		window_pieces(w, 0, pieces);
	}
	pthread_mutex_destroy(&w->lock);
	if (w->code != SGPU_OK) {
		if (error) {
			*error = w->error;
		}
		return w->code;
	}
	if (rc != SGPU_OK || (w->source->file && sgpu_io_interrupted())) {
		return sgpu_fail(error, SGPU_ECANCELED,
				 rc != SGPU_OK ? "the digest was cancelled" : "interrupted");
	}
	return SGPU_OK;
}

/* Adds `count` whole leaves; the digest must be at the start of a leaf. */
static int add_leaves(struct sgpu_kt128 *state, struct sgpu_pool *pool, const struct source *source,
		      uint64_t position, uint64_t count, struct sgpu_error *error)
{
	const size_t room = (size_t)WINDOW * SGPU_KT128_VALUE;
	struct window w = { .source = source, .position = position, .state = state };
	int rc = SGPU_OK;

	if (!state->values) {
		state->values = malloc(2 * room);
		if (!state->values) {
			return sgpu_fail_nomem(error);
		}
	}
	w.values = state->values;
	w.before = state->values + room;
	for (uint64_t done = 0; rc == SGPU_OK && done < count; done += w.leaves) {
		w.leaves = count - done < WINDOW ? count - done : WINDOW;
		w.position = position + done * SGPU_KT128_CHUNK;
		rc = run_window(&w, pool, error);
		w.before = w.values;
		w.before_count = w.leaves;
		w.values = w.values == state->values ? state->values + room : state->values;
	}
	if (rc == SGPU_OK) {
		sgpu_kt128_take(state, w.before, w.before_count);
	}
	return rc;
}

static int add(struct sgpu_kt128 *state, struct sgpu_pool *pool, const struct source *source,
	       uint64_t size, struct sgpu_error *error)
{
	uint64_t now;
	int rc = SGPU_OK;

	for (uint64_t at = 0; rc == SGPU_OK && at < size; at += now) {
		if (sgpu_kt128_at_leaf(state) && size - at >= SGPU_KT128_CHUNK) {
			now = (size - at) / SGPU_KT128_CHUNK * SGPU_KT128_CHUNK;
			rc = add_leaves(state, pool, source, at, now / SGPU_KT128_CHUNK, error);
		} else {
			uint8_t buffer[SGPU_KT128_CHUNK];
			const uint8_t *data;

			now = size - at < sgpu_kt128_room(state) ? size - at
								 : sgpu_kt128_room(state);
			data = get_bytes(source, at, buffer, now, &rc, error);
			if (data) {
				now = sgpu_kt128_fill(state, data, now);
			}
		}
	}
	return rc;
}

int sgpu_kt128_update_shared(struct sgpu_kt128 *state, struct sgpu_pool *pool, const void *data,
			     size_t size, struct sgpu_error *error)
{
	const struct source source = { .data = data };

	if (!pool || size < SHARED_MIN) {
		sgpu_kt128_update(state, data, size);
		return SGPU_OK;
	}
	return add(state, pool, &source, size, error);
}

int sgpu_kt128_update_file(struct sgpu_kt128 *state, struct sgpu_pool *pool,
			   const struct sgpu_file_place *from, const struct sgpu_file_place *copy,
			   uint64_t size, struct sgpu_error *error)
{
	const struct source source = { .file = from, .copy = copy };

	return add(state, pool, &source, size, error);
}

int sgpu_kt128_shared(struct sgpu_pool *pool, const void *data, size_t size, const void *custom,
		      size_t custom_size, uint8_t *digest, size_t digest_size,
		      struct sgpu_error *error)
{
	struct sgpu_kt128 state = { 0 };
	int rc = sgpu_kt128_update_shared(&state, pool, data, size, error);

	if (rc == SGPU_OK) {
		sgpu_kt128_finish(&state, custom, custom_size, digest, digest_size);
	}
	free(state.values);
	sgpu_wipe(&state, sizeof(state));
	return rc;
}
