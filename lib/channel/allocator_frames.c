/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator's records of free frames of memory and free addresses of a context.
 */
#include <stdlib.h>
#include <string.h>

#include "channel/allocator.h"

/* ---- frames ---- */
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

/* ---- addresses ---- */
int sgpu_extents_init(struct sgpu_extents *extents, uint64_t size, struct sgpu_error *error)
{
	*extents = (struct sgpu_extents){ .capacity = 16 };
	extents->list = malloc(extents->capacity * sizeof(*extents->list));
	if (!extents->list) {
		return sgpu_fail_nomem(error);
	}
	extents->list[extents->count++] = (struct sgpu_extent){ 0, size };
	return SGPU_OK;
}

void sgpu_extents_clear(struct sgpu_extents *extents)
{
	free(extents->list);
	extents->list = NULL;
}

static bool insert(struct sgpu_extents *extents, size_t index, struct sgpu_extent extent)
{
	if (extents->count == extents->capacity) {
		struct sgpu_extent *more =
			realloc(extents->list, 2 * extents->capacity * sizeof(*more));

		if (!more) {
			return false;
		}
		extents->list = more;
		extents->capacity *= 2;
	}
	memmove(&extents->list[index + 1], &extents->list[index],
		(extents->count - index) * sizeof(extent));
	extents->list[index] = extent;
	extents->count++;
	return true;
}

static void drop(struct sgpu_extents *extents, size_t index)
{
	extents->count--;
	memmove(&extents->list[index], &extents->list[index + 1],
		(extents->count - index) * sizeof(*extents->list));
}

int sgpu_extents_take(struct sgpu_extents *extents, uint64_t size, uint64_t alignment,
		      uint64_t *begin, struct sgpu_error *error)
{
	for (size_t i = 0; i < extents->count; i++) {
		const struct sgpu_extent extent = extents->list[i];
		const uint64_t at = (extent.begin + alignment - 1) / alignment * alignment;

		if (at > extent.end || size > extent.end - at) {
			continue;
		}
		if (at > extent.begin && at + size < extent.end) {
			if (!insert(extents, i + 1,
				    (struct sgpu_extent){ at + size, extent.end })) {
				return sgpu_fail_nomem(error);
			}
			extents->list[i].end = at;
		} else if (at > extent.begin) {
			extents->list[i].end = at;
		} else if (at + size < extent.end) {
			extents->list[i].begin = at + size;
		} else {
			drop(extents, i);
		}
		*begin = at;
		return SGPU_OK;
	}
	return sgpu_fail(error, SGPU_ENOMEM, "no %llu bytes of addresses are left in the context",
			 (unsigned long long)size);
}

void sgpu_extents_give(struct sgpu_extents *extents, uint64_t begin, uint64_t size)
{
	const uint64_t end = begin + size;
	size_t i = 0;

	while (i < extents->count && extents->list[i].begin < begin) {
		i++;
	}
	const bool before = i > 0 && extents->list[i - 1].end == begin;
	const bool after = i < extents->count && extents->list[i].begin == end;

	if (before && after) {
		extents->list[i - 1].end = extents->list[i].end;
		drop(extents, i);
	} else if (before) {
		extents->list[i - 1].end = end;
	} else if (after) {
		extents->list[i].begin = begin;
	} else {
		(void)insert(extents, i, (struct sgpu_extent){ begin, end });
	}
}
