/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator's records of free frames and free addresses. They are not trusted, and the
 * processor's state is not visible here.
 */
#ifndef ENCLAVE_ALLOCATOR_H
#define ENCLAVE_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

/* Frames [begin, end): pages of several frames are taken from the beginning, single frames from the
 * end. */
struct sgpu_frame_pool {
	uint64_t *used; /* a bit for each frame */
	uint32_t begin, end, free;
	uint32_t low, high; /* no free big page lies below `low`, no free frame from `high` on */
};
SGPU_MUST_CHECK int sgpu_frame_pool_init(struct sgpu_frame_pool *pool, uint32_t begin, uint32_t end,
					 struct sgpu_error *error);
void sgpu_frame_pool_clear(struct sgpu_frame_pool *pool);
/* Takes `count` adjacent frames, aligned to `count`, from *first on. Returns false if none. */
bool sgpu_frame_take(struct sgpu_frame_pool *pool, uint32_t count, uint32_t *first);
void sgpu_frame_give(struct sgpu_frame_pool *pool, uint32_t first, uint32_t count);

/* Ranges of free addresses, in ascending order, no two of them adjacent. */
struct sgpu_extent {
	uint64_t begin, end;
};
struct sgpu_extents {
	struct sgpu_extent *list;
	size_t count, capacity;
};
SGPU_MUST_CHECK int sgpu_extents_init(struct sgpu_extents *extents, uint64_t size,
				      struct sgpu_error *error);
void sgpu_extents_clear(struct sgpu_extents *extents);
/* Takes `size` bytes from the first range in which they fit. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_extents_take(struct sgpu_extents *extents, uint64_t size,
				      uint64_t alignment, uint64_t *begin,
				      struct sgpu_error *error);
/* Gives a range back. If out of host memory, the range is never used again. */
void sgpu_extents_give(struct sgpu_extents *extents, uint64_t begin, uint64_t size);

#endif
