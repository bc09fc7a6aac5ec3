/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator's record of free frames. It is not trusted, and the processor's state is not
 * visible here.
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

#endif
