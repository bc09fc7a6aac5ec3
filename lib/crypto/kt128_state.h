/* SPDX-License-Identifier: Apache-2.0
 *
 * A KT128 digest under way, for those who feed it: kt128.c from memory on one core, kt128_shared.c
 * on several.
 */
#ifndef SGPU_CRYPTO_KT128_STATE_H
#define SGPU_CRYPTO_KT128_STATE_H

#include <stdbool.h>

#include <sgpu/crypto.h>

#include "crypto/kt128.h"

struct sgpu_kt128 {
	struct sgpu_turboshake node; /* the final node, which takes chunk 0 itself */
	struct sgpu_turboshake leaf; /* the leaf that is not whole yet */
	bool in_leaves;		     /* chunk 0 is complete and marked */
	size_t filled;		     /* bytes of the current chunk */
	uint64_t leaves;	     /* chaining values that the node has taken */
	uint8_t *values;	     /* room for chaining values, for kt128_shared.c; or NULL */
};

/* Whether the next byte is the first of a leaf, so that whole leaves may be computed elsewhere. */
bool sgpu_kt128_at_leaf(struct sgpu_kt128 *state);
/* Takes as many bytes as the current chunk has room for, at most `size`; returns how many. Not
 * where a leaf begins and a whole one is at hand: that is faster elsewhere. */
size_t sgpu_kt128_fill(struct sgpu_kt128 *state, const void *data, size_t size);
/* Bytes that the current chunk still takes. */
size_t sgpu_kt128_room(const struct sgpu_kt128 *state);
/* The node takes the chaining values of `count` whole leaves. */
void sgpu_kt128_take(struct sgpu_kt128 *state, const uint8_t *values, uint64_t count);

/* ---- kt128_shared.c ---- */
/* Adds `size` bytes of memory on the workers of a pool. Errors: SGPU_ENOMEM; SGPU_ECANCELED when
 * the pool was cancelled. After one the state can only be freed. */
SGPU_MUST_CHECK int sgpu_kt128_update_shared(struct sgpu_kt128 *state, struct sgpu_pool *pool,
					     const void *data, size_t size,
					     struct sgpu_error *error);

#endif
