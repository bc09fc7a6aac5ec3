/* SPDX-License-Identifier: Apache-2.0
 *
 * KT128 of data in memory, on one core or on a pool's workers.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "crypto/internal.h"
#include "crypto/kt128.h"

enum {
	BATCH = 64, /* leaves that a core computes before the final node takes them */
	PIECE = 8,  /* leaves that a worker computes at a time: the widest vectors hold as many */
	WINDOW = 4096,	      /* leaves whose chaining values wait for the node */
	SHARED_MIN = 1 << 20, /* least bytes that are worth waking workers */
};

unsigned sgpu_kt128_length(uint64_t value, uint8_t out[])
{
	unsigned count = 0, i;

	while (count < 8 && value >> (8 * count) != 0) {
		count++;
	}
	for (i = 0; i < count; i++) {
		out[i] = (uint8_t)(value >> (8 * (count - 1 - i)));
	}
	out[count] = (uint8_t)count;
	return count + 1;
}

void sgpu_kt128_end(struct sgpu_turboshake *node, uint64_t count, uint8_t *out, size_t size)
{
	static const uint8_t end[] = { 0xff, 0xff };
	uint8_t length[SGPU_KT128_LENGTH_MAX];

	sgpu_turboshake_absorb(node, length, sgpu_kt128_length(count, length));
	sgpu_turboshake_absorb(node, end, sizeof(end));
	sgpu_turboshake_finish(node, SGPU_KT128_FINAL);
	sgpu_turboshake_squeeze(node, out, size);
}

bool sgpu_kt128_at_leaf(struct sgpu_kt128 *state)
{
	static const uint8_t marker[SGPU_KT128_MARKER] = { 0x03 };

	if (!state->in_leaves && state->filled == SGPU_KT128_CHUNK) {
		sgpu_turboshake_absorb(&state->node, marker, sizeof(marker));
		state->in_leaves = true;
		state->filled = 0;
	}
	return state->in_leaves && state->filled == 0;
}

void sgpu_kt128_take(struct sgpu_kt128 *state, const uint8_t *values, uint64_t count)
{
	sgpu_turboshake_absorb(&state->node, values, count * SGPU_KT128_VALUE);
	state->leaves += count;
}

static void end_leaf(struct sgpu_kt128 *state)
{
	uint8_t value[SGPU_KT128_VALUE];

	sgpu_turboshake_finish(&state->leaf, SGPU_KT128_LEAF);
	sgpu_turboshake_squeeze(&state->leaf, value, sizeof(value));
	sgpu_kt128_take(state, value, 1);
	state->leaf = (struct sgpu_turboshake){ 0 };
	state->filled = 0;
}

/* Takes as many bytes as the current chunk has room for; returns how many. */
static size_t fill(struct sgpu_kt128 *state, const void *data, size_t size)
{
	const size_t room = SGPU_KT128_CHUNK - state->filled, now = size < room ? size : room;

	sgpu_turboshake_absorb(state->in_leaves ? &state->leaf : &state->node, data, now);
	state->filled += now;
	if (state->in_leaves && state->filled == SGPU_KT128_CHUNK) {
		end_leaf(state);
	}
	return now;
}

struct window {
	const uint8_t *data; /* whole leaves */
	uint64_t leaves;
	uint8_t *values;
	struct sgpu_kt128 *state; /* the digest that takes the values */
	const uint8_t *before;	  /* chaining values of the previous window */
	uint64_t before_count;	  /* how many */
};

/* In piece 0 of a window, the node takes the previous window's values, in order; the others compute
 * leaves. */
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
static int share_leaves(struct sgpu_kt128 *state, struct sgpu_pool *pool, const uint8_t *data,
			uint64_t count, struct sgpu_error *error)
{
	const size_t room = (size_t)WINDOW * SGPU_KT128_VALUE;
	uint8_t *values = malloc(2 * room);
	struct window w = {
		.data = data, .state = state, .values = values, .before = values + room
	};
	int rc = SGPU_OK;

	if (!values) {
		return sgpu_fail_nomem(error);
	}
	for (; rc == SGPU_OK && count > 0;
	     count -= w.leaves, w.data += w.leaves * SGPU_KT128_CHUNK) {
		w.leaves = count < WINDOW ? count : WINDOW;
		const uint64_t pieces = 1 + (w.leaves + PIECE - 1) / PIECE;
		const bool shared = w.leaves * SGPU_KT128_CHUNK >= SHARED_MIN;
		rc = sgpu_pool_for(pool, pieces, shared ? 1 : pieces, 0, window_pieces, &w);
		w.before = w.values;
		w.before_count = w.leaves;
		w.values = w.values == values ? values + room : values;
	}
	sgpu_kt128_take(state, w.before, w.before_count);
	free(values);
	return rc ? sgpu_fail(error, SGPU_ECANCELED, "the digest was cancelled") : SGPU_OK;
}

/* Without a pool, this cannot fail. */
static int update(struct sgpu_kt128 *state, struct sgpu_pool *pool, const void *data, size_t size,
		  struct sgpu_error *error)
{
	uint8_t values[BATCH * SGPU_KT128_VALUE];
	const uint8_t *at = data;
	int rc = SGPU_OK;

	for (size_t now; rc == SGPU_OK && size > 0; at += now, size -= now) {
		uint64_t leaves = size / SGPU_KT128_CHUNK;

		if (!sgpu_kt128_at_leaf(state) || leaves == 0) {
			now = fill(state, at, size);
			continue;
		}
		if (pool) {
			rc = share_leaves(state, pool, at, leaves, error);
		} else {
			leaves = leaves < BATCH ? leaves : BATCH;
			sgpu_kt128_leaves(at, leaves, values);
			sgpu_kt128_take(state, values, leaves);
		}
		now = leaves * SGPU_KT128_CHUNK;
	}
	return rc;
}

void sgpu_kt128_update(struct sgpu_kt128 *state, const void *data, size_t size)
{
	(void)update(state, NULL, data, size, NULL);
}

void sgpu_kt128_finish(struct sgpu_kt128 *state, const void *custom, size_t custom_size,
		       uint8_t *digest, size_t digest_size)
{
	uint8_t length[SGPU_KT128_LENGTH_MAX];

	sgpu_kt128_update(state, custom, custom_size);
	sgpu_kt128_update(state, length, sgpu_kt128_length(custom_size, length));
	if (!state->in_leaves) {
		sgpu_turboshake_finish(&state->node, SGPU_KT128_SINGLE);
		sgpu_turboshake_squeeze(&state->node, digest, digest_size);
		return;
	}
	if (state->filled > 0) {
		end_leaf(state);
	}
	sgpu_kt128_end(&state->node, state->leaves, digest, digest_size);
}

void sgpu_kt128(const void *data, size_t size, const void *custom, size_t custom_size,
		uint8_t *digest, size_t digest_size)
{
	(void)!sgpu_kt128_shared(NULL, data, size, custom, custom_size, digest, digest_size, NULL);
}

int sgpu_kt128_shared(struct sgpu_pool *pool, const void *data, size_t size, const void *custom,
		      size_t custom_size, uint8_t *digest, size_t digest_size,
		      struct sgpu_error *error)
{
	struct sgpu_kt128 state = { 0 };
	int rc = update(&state, size < SHARED_MIN ? NULL : pool, data, size, error);

	if (rc == SGPU_OK) {
		sgpu_kt128_finish(&state, custom, custom_size, digest, digest_size);
	}
	sgpu_wipe(&state, sizeof(state));
	return rc;
}
