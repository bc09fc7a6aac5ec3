/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve (RFC 9861, KT128) of data in memory, on one core.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "crypto/internal.h"
#include "crypto/kt128.h"

/* Leaves that are computed before the final node takes their values, which fit on the stack. */
enum { BATCH = 64 };

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

bool sgpu_kt128_at_leaf(struct sgpu_kt128 *state)
{
	if (!state->in_leaves && state->filled == SGPU_KT128_CHUNK) {
		sgpu_kt128_mark(&state->node);
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

/* Ends the leaf that was being filled; the node takes its chaining value. */
static void end_leaf(struct sgpu_kt128 *state)
{
	uint8_t value[SGPU_KT128_VALUE];

	sgpu_turboshake_finish(&state->leaf, SGPU_KT128_LEAF);
	sgpu_turboshake_squeeze(&state->leaf, value, sizeof(value));
	sgpu_kt128_take(state, value, 1);
	state->leaf = (struct sgpu_turboshake){ 0 };
	state->filled = 0;
}

size_t sgpu_kt128_fill(struct sgpu_kt128 *state, const void *data, size_t size)
{
	const size_t room = SGPU_KT128_CHUNK - state->filled, now = size < room ? size : room;

	sgpu_turboshake_absorb(state->in_leaves ? &state->leaf : &state->node, data, now);
	state->filled += now;
	if (state->in_leaves && state->filled == SGPU_KT128_CHUNK) {
		end_leaf(state);
	}
	return now;
}

void sgpu_kt128_update(struct sgpu_kt128 *state, const void *data, size_t size)
{
	uint8_t values[BATCH * SGPU_KT128_VALUE];
	const uint8_t *at = data;
	size_t now;

	for (; size > 0; at += now, size -= now) {
		if (sgpu_kt128_at_leaf(state) && size >= SGPU_KT128_CHUNK) {
			uint64_t leaves =
				size / SGPU_KT128_CHUNK < BATCH ? size / SGPU_KT128_CHUNK : BATCH;

			sgpu_kt128_leaves(at, leaves, values);
			sgpu_kt128_take(state, values, leaves);
			now = leaves * SGPU_KT128_CHUNK;
		} else {
			now = sgpu_kt128_fill(state, at, size);
		}
	}
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
	struct sgpu_kt128 state = { 0 };

	sgpu_kt128_update(&state, data, size);
	sgpu_kt128_finish(&state, custom, custom_size, digest, digest_size);
	sgpu_wipe(&state, sizeof(state));
}

int sgpu_kt128_create(struct sgpu_kt128 **state, struct sgpu_error *error)
{
	*state = calloc(1, sizeof(**state));
	return *state ? SGPU_OK : sgpu_fail_nomem(error);
}

void sgpu_kt128_free(struct sgpu_kt128 **state)
{
	if (state && *state) {
		free((*state)->values);
		sgpu_wipe(*state, sizeof(**state));
		free(*state);
		*state = NULL;
	}
}
