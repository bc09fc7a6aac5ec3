/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator's record of free frames of memory.
 */
#include <stdlib.h>
#include <string.h>

#include "channel/allocator.h"

int sgpu_frame_pool_init(struct sgpu_frame_pool *pool, uint32_t begin, uint32_t end,
			 struct sgpu_error *error)
{
	*pool = (struct sgpu_frame_pool){
		.begin = begin, .end = end, .free = end - begin, .low = begin, .high = end
	};
	pool->used = calloc(end / 64 + 1, sizeof(*pool->used));
	return pool->used ? SGPU_OK : sgpu_fail_nomem(error);
}

void sgpu_frame_pool_clear(struct sgpu_frame_pool *pool)
{
	free(pool->used);
	pool->used = NULL;
}

static bool is_used(const struct sgpu_frame_pool *pool, uint32_t frame)
{
	return pool->used[frame / 64] >> frame % 64 & 1;
}

static void mark(struct sgpu_frame_pool *pool, uint32_t first, uint32_t count)
{
	for (uint32_t f = first; f < first + count; f++) {
		pool->used[f / 64] |= (uint64_t)1 << f % 64;
	}
	pool->free -= count;
}

static bool are_free(const struct sgpu_frame_pool *pool, uint32_t first, uint32_t count)
{
	for (uint32_t f = first; f < first + count; f++) {
		if (is_used(pool, f)) {
			return false;
		}
	}
	return true;
}

bool sgpu_frame_take(struct sgpu_frame_pool *pool, uint32_t count, uint32_t *first)
{
	if (pool->free < count) {
		return false;
	}
	if (count == 1) {
		while (pool->high > pool->begin && is_used(pool, pool->high - 1)) {
			pool->high--;
		}
		if (pool->high == pool->begin) {
			return false;
		}
		*first = --pool->high;
		mark(pool, *first, 1);
		return true;
	}
	for (uint64_t f = ((uint64_t)pool->low + count - 1) / count * count; f + count <= pool->end;
	     f += count) {
		if (are_free(pool, (uint32_t)f, count)) {
			*first = (uint32_t)f;
			mark(pool, *first, count);
			pool->low = *first + count;
			return true;
		}
	}
	return false;
}

void sgpu_frame_give(struct sgpu_frame_pool *pool, uint32_t first, uint32_t count)
{
	for (uint32_t f = first; f < first + count; f++) {
		pool->used[f / 64] &= ~((uint64_t)1 << f % 64);
	}
	pool->free += count;
	pool->low = first < pool->low ? first : pool->low;
	pool->high = first + count > pool->high ? first + count : pool->high;
}
