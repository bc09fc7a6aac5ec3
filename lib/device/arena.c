/* SPDX-License-Identifier: Apache-2.0
 *
 * Bins of free blocks, one for each power of two of pages, so that the cost of taking and releasing
 * blocks hardly grows with their number.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <device/arena.h>

/* Blocks of a bin compared to find the best fit. */
enum { LOOKS = 32 };

static int bin_of(uint64_t extent)
{
	return 63 - __builtin_clzll(extent / SGPU_ARENA_PAGE);
}

static struct sgpu_block *new_block(struct sgpu_arena_region *region)
{
	struct sgpu_block *block = calloc(1, sizeof(*block));

	if (block) {
		block->region = region;
	}
	return block;
}

/* ---- bins ---- */
static void put(struct sgpu_arena *arena, struct sgpu_block *block)
{
	int bin = bin_of(block->range.extent);

	block->state = SGPU_BLOCK_FREE;
	block->previous = NULL;
	block->next = arena->bins[bin];
	if (block->next) {
		block->next->previous = block;
	}
	arena->bins[bin] = block;
}

static void pull(struct sgpu_arena *arena, struct sgpu_block *block)
{
	if (block->next) {
		block->next->previous = block->previous;
	}
	if (block->previous) {
		block->previous->next = block->next;
	} else {
		arena->bins[bin_of(block->range.extent)] = block->next;
	}
	block->previous = block->next = NULL;
}

/* The smallest fitting block among the first `looks` of a bin, or NULL. */
static struct sgpu_block *best_of(const struct sgpu_arena *arena, int bin, uint64_t extent,
				  unsigned looks)
{
	struct sgpu_block *best = NULL;

	for (struct sgpu_block *b = arena->bins[bin]; b && looks-- > 0; b = b->next) {
		if (b->range.extent >= extent && (!best || b->range.extent < best->range.extent)) {
			best = b;
		}
	}
	return best;
}

/* ---- regions ---- */
static bool has_some_of(const struct sgpu_arena *arena, sgpu_devptr address, uint64_t extent)
{
	const struct sgpu_arena_region *region = arena->regions;

	while (region && (region->address + region->extent <= address ||
			  address + extent <= region->address)) {
		region = region->next;
	}
	return region;
}

int sgpu_arena_add(struct sgpu_arena *arena, sgpu_devptr address, uint64_t extent)
{
	struct sgpu_arena_region *region;

	if (has_some_of(arena, address, extent)) {
		return SGPU_EUSAGE;
	}
	region = calloc(1, sizeof(*region));
	if (!region) {
		return SGPU_ENOMEM;
	}
	region->first = new_block(region);
	if (!region->first) {
		free(region);
		return SGPU_ENOMEM;
	}
	region->address = region->first->range.address = address;
	region->extent = region->first->range.extent = extent;
	put(arena, region->first);
	region->next = arena->regions;
	arena->regions = region;
	arena->mapped_bytes += extent;
	return SGPU_OK;
}

bool sgpu_arena_is_idle(const struct sgpu_arena_region *region)
{
	return region->first->state == SGPU_BLOCK_FREE && !region->first->after;
}

void sgpu_arena_withhold(struct sgpu_arena *arena, struct sgpu_arena_region *region)
{
	pull(arena, region->first);
	region->first->state = SGPU_BLOCK_WITHHELD;
}

void sgpu_arena_drop(struct sgpu_arena *arena, struct sgpu_arena_region *region)
{
	struct sgpu_arena_region **link = &arena->regions;

	while (*link != region) {
		link = &(*link)->next;
	}
	*link = region->next;
	arena->mapped_bytes -= region->extent;
	if (region->first->state == SGPU_BLOCK_FREE) {
		pull(arena, region->first);
	}
	free(region->first);
	free(region);
}

void sgpu_arena_clear(struct sgpu_arena *arena)
{
	struct sgpu_arena_region *region;
	struct sgpu_block *block;
	struct sgpu_range *used;

	while ((used = sgpu_ranges_any(&arena->used))) {
		sgpu_ranges_remove(&arena->used, used);
	}
	while ((region = arena->regions)) {
		arena->regions = region->next;
		while ((block = region->first)) {
			region->first = block->after;
			free(block);
		}
		free(region);
	}
	memset(arena, 0, sizeof(*arena));
}

/* ---- blocks ---- */
/* Without memory for the record of the rest, the block keeps its size. */
static void cut(struct sgpu_arena *arena, struct sgpu_block *block, uint64_t extent)
{
	struct sgpu_block *rest;

	if (block->range.extent == extent || !(rest = new_block(block->region))) {
		return;
	}
	rest->range.address = block->range.address + extent;
	rest->range.extent = block->range.extent - extent;
	block->range.extent = extent;
	rest->before = block;
	rest->after = block->after;
	if (rest->after) {
		rest->after->before = rest;
	}
	block->after = rest;
	put(arena, rest);
}

/* Neither block is in a bin. */
static struct sgpu_block *join(struct sgpu_block *left, struct sgpu_block *block)
{
	left->range.extent += block->range.extent;
	left->after = block->after;
	if (left->after) {
		left->after->before = left;
	}
	free(block);
	return left;
}

struct sgpu_block *sgpu_arena_take(struct sgpu_arena *arena, uint64_t size)
{
	uint64_t extent = sgpu_arena_extent(size);
	struct sgpu_block *block = NULL;

	for (int bin = bin_of(extent); !block && bin < SGPU_ARENA_BINS; bin++) {
		block = best_of(arena, bin, extent, LOOKS);
	}
	/* No block of a larger bin is free, but there may be one behind the first of its own. */
	block = block ? block : best_of(arena, bin_of(extent), extent, UINT_MAX);
	if (!block) {
		return NULL;
	}
	pull(arena, block);
	cut(arena, block, extent);
	block->size = size;
	if (!sgpu_ranges_insert(&arena->used, &block->range)) {
		sgpu_arena_release(arena, block);
		return NULL;
	}
	block->state = SGPU_BLOCK_USED;
	arena->used_bytes += block->range.extent;
	return block;
}

void sgpu_arena_leave(struct sgpu_arena *arena, struct sgpu_block *block)
{
	sgpu_ranges_remove(&arena->used, &block->range);
	arena->used_bytes -= block->range.extent;
	block->state = SGPU_BLOCK_CLEARING;
}

void sgpu_arena_release(struct sgpu_arena *arena, struct sgpu_block *block)
{
	struct sgpu_block *before = block->before, *after = block->after;

	if (after && after->state == SGPU_BLOCK_FREE) {
		pull(arena, after);
		block = join(block, after);
	}
	if (before && before->state == SGPU_BLOCK_FREE) {
		pull(arena, before);
		block = join(before, block);
	}
	put(arena, block);
}

/* ---- clearing ---- */
void sgpu_arena_await(struct sgpu_arena *arena, struct sgpu_block *block)
{
	block->serial = ++arena->serial;
	block->next = NULL;
	if (arena->clearing) {
		arena->clearing_tail->next = block;
	} else {
		arena->clearing = block;
	}
	arena->clearing_tail = block;
	arena->clearing_bytes += block->range.extent;
}

void sgpu_arena_note_cleared(struct sgpu_arena *arena, uint64_t serial)
{
	arena->cleared = arena->cleared < serial ? serial : arena->cleared;
}

struct sgpu_block *sgpu_arena_next_cleared(struct sgpu_arena *arena)
{
	struct sgpu_block *block = arena->clearing;

	if (!block || block->serial > arena->cleared) {
		return NULL;
	}
	arena->clearing = block->next;
	arena->clearing_bytes -= block->range.extent;
	block->next = NULL;
	return block;
}
