/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve (RFC 9861, KT128).
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "crypto/internal.h"
#include "crypto/kt128.h"

/* Leaves whose chaining values are computed before the final node takes them: few enough for a stack; for a pool so
 * many that waking workers pays. And from how many bytes on it does. */
enum { BATCH = 64, SHARED_GRAIN = 16, SHARED_BATCH = 4096, SHARED_MIN = 1 << 20 };

struct sgpu_kt128 {
	struct sgpu_turboshake node; /* the final one, which takes chunk 0 itself */
	struct sgpu_turboshake leaf; /* the one that is not whole yet */
	bool in_leaves;              /* chunk 0 is past */
	size_t filled;               /* bytes of the current chunk */
	uint64_t leaves;             /* that the node has taken */
	/* Workers that help, and room for the chaining values that they compute; or NULL. */
	struct sgpu_pool *pool;
	uint8_t *values;
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

void sgpu_kt128_mark(struct sgpu_turboshake *node)
{
	static const uint8_t marker[SGPU_KT128_MARKER] = { 0x03 };

	sgpu_turboshake_absorb(node, marker, sizeof(marker));
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

/* The node takes the chaining value of the leaf that was being filled. */
static void end_leaf(struct sgpu_kt128 *state)
{
	uint8_t value[SGPU_KT128_VALUE];

	sgpu_turboshake_finish(&state->leaf, SGPU_KT128_LEAF);
	sgpu_turboshake_squeeze(&state->leaf, value, sizeof(value));
	sgpu_turboshake_absorb(&state->node, value, sizeof(value));
	state->leaf = (struct sgpu_turboshake){ 0 };
	state->filled = 0;
	state->leaves++;
}

struct share {
	const uint8_t *data;
	uint8_t *values;
};

static void share_piece(void *argument, uint64_t begin, uint64_t end)
{
	const struct share *share = argument;

	sgpu_kt128_leaves(share->data + begin * SGPU_KT128_CHUNK, end - begin,
			  share->values + begin * SGPU_KT128_VALUE);
}

/* Whole leaves, straight from the data. */
static int whole_leaves(struct sgpu_kt128 *state, const uint8_t *data, uint64_t count)
{
	uint8_t values[BATCH * SGPU_KT128_VALUE];
	uint64_t now;
	int code = SGPU_OK;

	for (; count > 0 && code == SGPU_OK; count -= now, data += now * SGPU_KT128_CHUNK) {
		now = state->pool ? SHARED_BATCH : BATCH;
		now = now < count ? now : count;
		struct share share = { data, state->pool ? state->values : values };
		if (state->pool) {
			code = sgpu_pool_for(state->pool, now, SHARED_GRAIN, share_piece, &share);
		} else {
			share_piece(&share, 0, now);
		}
		sgpu_turboshake_absorb(&state->node, share.values, now * SGPU_KT128_VALUE);
		state->leaves += now;
	}
	return code;
}

/* So much of the data as the current chunk takes. */
static size_t fill(struct sgpu_kt128 *state, const uint8_t *data, size_t size)
{
	size_t room = SGPU_KT128_CHUNK - state->filled, now = size < room ? size : room;

	sgpu_turboshake_absorb(state->in_leaves ? &state->leaf : &state->node, data, now);
	state->filled += now;
	if (state->in_leaves && state->filled == SGPU_KT128_CHUNK) {
		end_leaf(state);
	}
	return now;
}

static int add(struct sgpu_kt128 *state, const uint8_t *data, size_t size)
{
	uint64_t whole;
	size_t now;
	int code;

	while (size > 0) {
		if (!state->in_leaves && state->filled == SGPU_KT128_CHUNK) {
			sgpu_kt128_mark(&state->node);
			state->in_leaves = true;
			state->filled = 0;
		}
		whole = size / SGPU_KT128_CHUNK;
		if (state->in_leaves && state->filled == 0 && whole > 0) {
			code = whole_leaves(state, data, whole);
			if (code < 0) {
				return code;
			}
			now = whole * SGPU_KT128_CHUNK;
		} else {
			now = fill(state, data, size);
		}
		data += now;
		size -= now;
	}
	return SGPU_OK;
}

static void finish(struct sgpu_kt128 *state, const void *custom, size_t custom_size, uint8_t *digest,
		   size_t digest_size)
{
	uint8_t length[SGPU_KT128_LENGTH_MAX];

	/* Without a pool nothing can fail. */
	state->pool = NULL;
	(void)add(state, custom, custom_size);
	(void)add(state, length, sgpu_kt128_length(custom_size, length));
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

void sgpu_kt128(const void *data, size_t size, const void *custom, size_t custom_size, uint8_t *digest,
		size_t digest_size)
{
	struct sgpu_kt128 state = { 0 };

	(void)add(&state, data, size);
	finish(&state, custom, custom_size, digest, digest_size);
	sgpu_wipe(&state, sizeof(state));
}

int sgpu_kt128_shared(struct sgpu_pool *pool, const void *data, size_t size, const void *custom, size_t custom_size,
		      uint8_t *digest, size_t digest_size, struct sgpu_error *error)
{
	struct sgpu_kt128 state = { 0 };
	int code;

	if (size >= SHARED_MIN && sgpu_pool_jobs(pool) > 1) {
		state.values = malloc((size_t)SHARED_BATCH * SGPU_KT128_VALUE);
		if (!state.values) {
			return sgpu_fail_nomem(error);
		}
		state.pool = pool;
	}
	code = add(&state, data, size);
	if (code == SGPU_OK) {
		finish(&state, custom, custom_size, digest, digest_size);
	} else {
		(void)sgpu_fail(error, code, "the digest was cancelled");
	}
	free(state.values);
	sgpu_wipe(&state, sizeof(state));
	return code;
}

int sgpu_kt128_create(struct sgpu_kt128 **state, struct sgpu_error *error)
{
	*state = calloc(1, sizeof(**state));
	return *state ? SGPU_OK : sgpu_fail_nomem(error);
}

void sgpu_kt128_update(struct sgpu_kt128 *state, const void *data, size_t size)
{
	(void)add(state, data, size);
}

void sgpu_kt128_finish(struct sgpu_kt128 *state, const void *custom, size_t custom_size, uint8_t *digest,
		       size_t digest_size)
{
	finish(state, custom, custom_size, digest, digest_size);
}

void sgpu_kt128_free(struct sgpu_kt128 **state)
{
	if (state && *state) {
		sgpu_wipe(*state, sizeof(**state));
		free(*state);
		*state = NULL;
	}
}
