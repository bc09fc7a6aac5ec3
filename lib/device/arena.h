/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bytes of kept memory are in use: pages of a secure context, regions of a GPU's memory,
 * pinned host memory. Blocks are cut from regions, best fit, and adjacent free blocks are merged.
 * Not safe for several threads.
 */
#ifndef SGPU_DEVICE_ARENA_H
#define SGPU_DEVICE_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include <base/base.h>
#include <sgpu/device.h>

enum { SGPU_ARENA_PAGE = 4096, SGPU_ARENA_BINS = 52 };

struct sgpu_arena_region;

enum sgpu_block_state {
	SGPU_BLOCK_FREE,
	SGPU_BLOCK_USED,
	SGPU_BLOCK_CLEARING,
	SGPU_BLOCK_WITHHELD
};

struct sgpu_block {
	struct sgpu_range range; /* its own bytes: whole pages of SGPU_ARENA_PAGE */
	uint64_t size;		 /* as asked for */
	enum sgpu_block_state state;
	struct sgpu_arena_region *region;
	struct sgpu_block *before, *after;  /* neighbours in the region */
	struct sgpu_block *previous, *next; /* in its bin; `next` also links blocks in clearing */
	uint64_t serial;		    /* of its clearing */
	struct sgpu_task task;		    /* of its clearing, for the caller */
};

struct sgpu_arena_region {
	sgpu_devptr address;
	uint64_t extent;
	struct sgpu_block *first;
	struct sgpu_arena_region *next;
};

struct sgpu_arena {
	struct sgpu_arena_region *regions;
	void *used; /* tree of used blocks, by address */
	struct sgpu_block *bins[SGPU_ARENA_BINS];
	uint64_t mapped_bytes, used_bytes; /* of regions; of used blocks, in whole pages */
	struct sgpu_block *clearing, *clearing_tail; /* in the order of their serials */
	uint64_t clearing_bytes;
	uint64_t serial, cleared; /* the last clearing requested, and the last known to be over */
};

/* Adds a region, all of it free. Errors: SGPU_EUSAGE (it overlaps another region), SGPU_ENOMEM
 * (host memory). */
SGPU_MUST_CHECK int sgpu_arena_add(struct sgpu_arena *arena, sgpu_devptr address, uint64_t extent);
/* NULL: no free block is large enough. */
struct sgpu_block *sgpu_arena_take(struct sgpu_arena *arena, uint64_t size);
static inline struct sgpu_block *sgpu_arena_find(const struct sgpu_arena *arena,
						 sgpu_devptr address)
{
	return (struct sgpu_block *)(void *)sgpu_ranges_find(&arena->used, address);
}
/* Ends a block's use; the block is not given out again before sgpu_arena_release. */
void sgpu_arena_leave(struct sgpu_arena *arena, struct sgpu_block *block);
void sgpu_arena_release(struct sgpu_arena *arena, struct sgpu_block *block);
/* Appends an unused block to those in clearing, with the next serial. */
void sgpu_arena_await(struct sgpu_arena *arena, struct sgpu_block *block);
/* All clearings up to this serial are over. */
void sgpu_arena_note_cleared(struct sgpu_arena *arena, uint64_t serial);
/* Unlinks and returns the next block whose clearing is over, for the caller to release; or NULL. */
struct sgpu_block *sgpu_arena_next_cleared(struct sgpu_arena *arena);
bool sgpu_arena_is_idle(const struct sgpu_arena_region *region);
/* Keeps an idle region's memory from being taken, and the region from being added again. */
void sgpu_arena_withhold(struct sgpu_arena *arena, struct sgpu_arena_region *region);
void sgpu_arena_drop(struct sgpu_arena *arena, struct sgpu_arena_region *region);
void sgpu_arena_clear(struct sgpu_arena *arena);

static inline uint64_t sgpu_arena_extent(uint64_t size)
{
	return (size + (size == 0) + SGPU_ARENA_PAGE - 1) / SGPU_ARENA_PAGE * SGPU_ARENA_PAGE;
}

/* ---- unused memory is poisoned: AddressSanitizer finds kernels that leave their buffers ---- */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SGPU_POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SGPU_POISONS 1
#endif

#ifdef SGPU_POISONS
#include <sanitizer/asan_interface.h>
#define SGPU_POISON(address, size) __asan_poison_memory_region((void *)(uintptr_t)(address), size)
#define SGPU_UNPOISON(address, size) \
	__asan_unpoison_memory_region((void *)(uintptr_t)(address), size)
#else
#define SGPU_POISON(address, size) ((void)(address), (void)(size))
#define SGPU_UNPOISON(address, size) ((void)(address), (void)(size))
#endif

#endif
