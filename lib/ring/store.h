/* SPDX-License-Identifier: Apache-2.0
 *
 * How an entry gets into shared memory.
 */
#ifndef SGPU_RING_STORE_H
#define SGPU_RING_STORE_H

#include <stdatomic.h>
#include <stdint.h>

#include <sgpu/ring.h>

/* Writes an entry of `count` words so that whoever sees its last word sees the others: that word
 * carries the generation. Before it returns, the entry is visible: no later load of this thread is
 * ordered before it. */
typedef void sgpu_store_fn(_Atomic uint64_t *entry, const uint64_t *words, unsigned count);

/* NULL where this CPU lacks what the store needs. Only entries of 64 bytes are stored by vector or
 * directly. */
sgpu_store_fn *sgpu_store_function(enum sgpu_ring_store store);

#endif
