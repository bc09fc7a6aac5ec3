/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve on the workers of a pool. They compute the leaves of one window after another; the
 * final node takes the chaining values of a window in order while the leaves of the next one are
 * computed.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "crypto/kt128.h"

enum {
	PIECE = 8, /* leaves that a worker computes at a time: as many as the widest vectors hold */
	WINDOW = 4096,	      /* leaves whose chaining values are kept until the node takes them */
	SHARED_MIN = 1 << 20, /* least bytes for which it pays to wake workers */
};

struct window {
	const uint8_t *data; /* whole leaves */
	uint64_t leaves;
	uint8_t *values;
	struct sgpu_kt128 *state; /* the digest that takes the values */
	const uint8_t *before;	  /* chaining values of the previous window */
	uint64_t before_count;	  /* how many */
};

/* Runs pieces of a window. In piece 0, the node takes the values of the previous window; each other
 * piece computes leaves. */
static void window_pieces(void *argument, uint64_t begin, uint64_t end)
{
	struct window *w = argument;

	for (uint64_t i = begin; i < end; i++) {
		if (i == 0) {
			sgpu_kt128_take(w->state, w->before, w->before_count);
		} else {
			const uint64_t first = (i - 1) * PIECE, left = w->leaves - first;

			sgpu_kt128_leaves(w->data + first * SGPU_KT128_CHUNK,
					  left < PIECE ? left : PIECE,
					  w->values + first * SGPU_KT128_VALUE);
		}
	}
}

/* Adds `count` whole leaves; the digest must be at the start of a leaf. */
static int add_leaves(struct sgpu_kt128 *state, struct sgpu_pool *pool, const uint8_t *data,
		      uint64_t count, struct sgpu_error *error)
{
	const size_t room = (size_t)WINDOW * SGPU_KT128_VALUE;
	struct window w = { .data = data, .state = state };

	if (!state->values) {
		state->values = malloc(2 * room);
		if (!state->values) {
			return sgpu_fail_nomem(error);
		}
	}
	w.values = state->values;
	w.before = state->values + room;
	for (; count > 0; count -= w.leaves, w.data += w.leaves * SGPU_KT128_CHUNK) {
		w.leaves = count < WINDOW ? count : WINDOW;
		const uint64_t pieces = 1 + (w.leaves + PIECE - 1) / PIECE;
		const bool shared = w.leaves * SGPU_KT128_CHUNK >= SHARED_MIN;
		const int rc = sgpu_pool_for(pool, pieces, shared ? 1 : pieces, window_pieces, &w);

		if (rc != SGPU_OK) {
			return sgpu_fail(error, SGPU_ECANCELED, "the digest was cancelled");
		}
		w.before = w.values;
		w.before_count = w.leaves;
		w.values = w.values == state->values ? state->values + room : state->values;
	}
	sgpu_kt128_take(state, w.before, w.before_count);
	return SGPU_OK;
}

int sgpu_kt128_update_shared(struct sgpu_kt128 *state, struct sgpu_pool *pool, const void *data,
			     size_t size, struct sgpu_error *error)
{
	const uint8_t *at = data;
	int rc = SGPU_OK;

	if (!pool || size < SHARED_MIN) {
		sgpu_kt128_update(state, data, size);
		return SGPU_OK;
	}
	for (size_t now; rc == SGPU_OK && size > 0; at += now, size -= now) {
		if (sgpu_kt128_at_leaf(state) && size >= SGPU_KT128_CHUNK) {
			now = size / SGPU_KT128_CHUNK * SGPU_KT128_CHUNK;
			rc = add_leaves(state, pool, at, now / SGPU_KT128_CHUNK, error);
		} else {
			now = sgpu_kt128_fill(state, at, size);
		}
	}
	return rc;
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
