/* SPDX-License-Identifier: Apache-2.0
 *
 * What a side remembers of the other side's breach of the protocol: the first one, for good. Any
 * thread.
 */
#ifndef SGPU_RING_FAULT_H
#define SGPU_RING_FAULT_H

#include <stdatomic.h>

#include <sgpu/error.h>

struct sgpu_ring_fault {
	atomic_int state; /* 0: none, 1: one is being written down, 2: there is one */
	struct sgpu_error error;
};

/* SGPU_EINVALID, and its text, if there was a fault. */
static inline int sgpu_ring_fault_check(struct sgpu_ring_fault *fault, struct sgpu_error *error)
{
	if (__builtin_expect(atomic_load_explicit(&fault->state, memory_order_acquire) != 2, 1)) {
		return SGPU_OK;
	}
	if (error) {
		*error = fault->error;
	}
	return SGPU_EINVALID;
}

/* Remembers this one, unless there was one before, and returns its code. */
static inline int sgpu_ring_fault_set(struct sgpu_ring_fault *fault, const struct sgpu_error *found,
				      struct sgpu_error *error)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&fault->state, &none, 1)) {
		fault->error = *found;
		atomic_store_explicit(&fault->state, 2, memory_order_release);
	}
	if (error) {
		*error = *found;
	}
	return SGPU_EINVALID;
}

#endif
