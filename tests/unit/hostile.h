/* SPDX-License-Identifier: Apache-2.0
 *
 * A world for tests with a hostile allocator: physical memory of a few frames, spaces in which they
 * are mapped, and a record of all that the processor does to them. It judges by what was done to
 * memory, never by what the processor says of itself: a page mapped at two places, a page mapped
 * with contents left in it, a page unmapped although nobody authorised it, and two contexts
 * reachable at once each set `broken`.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"
#include "channel_check.h"
#include "pager.h"

#include "world_random.h"

enum {
	WORLD_FRAMES = 64,
	WORLD_SMALL = 64,
	WORLD_RATIO = 8,
	WORLD_SPACES = 64,
	WORLD_HIDDEN = 4 /* frames at the end that are not the processor's */
};

struct world_space {
	bool used, on;
};

struct world_frame {
	struct world_space *space; /* where it is mapped; NULL: nowhere */
	uint64_t at;
};

struct world {
	struct paged_device device;
	uint8_t memory[WORLD_FRAMES][WORLD_SMALL];
	struct world_frame frames[WORLD_FRAMES];
	struct world_space spaces[WORLD_SPACES];
	uint64_t changes; /* mappings made and taken away */
	/* What the command under way may take away: a range of a space, or everything of it. */
	struct world_space *may_unmap;
	uint64_t may_begin, may_end;
	bool may_all;	     /* anything */
	bool fails;	     /* the device fails from now on */
	int until, failures; /* or: so many steps succeed, and so many then fail; until < 0: none */
	int failed;	     /* steps that have failed in the command under way */
	const char *broken;
};

static inline void world_break(struct world *world, const char *what)
{
	if (!world->broken) {
		world->broken = what;
	}
}

/* Whether the device fails at this step. */
static inline bool world_fails(struct world *world)
{
	bool now = world->fails;

	if (world->until > 0) {
		world->until--;
	} else if (world->until == 0 && world->failures > 0) {
		world->failures--;
		now = true;
	}
	world->failed += now;
	return now;
}

/* A command begins: `until` steps of the device succeed and `failures` fail then. */
static inline void world_begin(struct world *world, int until, int failures)
{
	world->until = until;
	world->failures = failures;
	world->failed = 0;
}

static inline int world_fault(struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EDEVICE, "the device fails, as the test wants it");
}

static inline int world_space_create(void *device, uint64_t size, void **space, sgpu_devptr *base,
				     struct sgpu_error *error)
{
	struct world *world = device;

	if (world_fails(world)) {
		return world_fault(error);
	}
	for (int i = 0; i < WORLD_SPACES; i++) {
		if (!world->spaces[i].used) {
			world->spaces[i].used = true;
			world->spaces[i].on = false;
			*space = &world->spaces[i];
			*base = (uint64_t)(i + 1) << 40;
			return size < (uint64_t)1 << 40 ? SGPU_OK : sgpu_fail_nomem(error);
		}
	}
	return sgpu_fail_nomem(error);
}

/* Takes away what is mapped in a range, and judges whether it may. */
static inline void world_take(struct world *world, struct world_space *space, uint64_t at,
			      uint64_t size)
{
	for (int i = 0; i < WORLD_FRAMES; i++) {
		struct world_frame *frame = &world->frames[i];

		if (frame->space != space || frame->at < at || frame->at - at >= size) {
			continue;
		}
		if (!world->may_all && (world->may_unmap != space || frame->at < world->may_begin ||
					frame->at >= world->may_end)) {
			world_break(world, "a page was unmapped, and nobody authorised it");
		}
		frame->space = NULL;
		world->changes++;
	}
}

/* Whether all of a range is mapped. */
static inline bool world_has(const struct world *world, const void *space, uint64_t at,
			     uint64_t size)
{
	uint64_t found = 0;

	for (int i = 0; i < WORLD_FRAMES; i++) {
		const struct world_frame *frame = &world->frames[i];

		found += frame->space == space && frame->at >= at && frame->at - at < size
				 ? WORLD_SMALL
				 : 0;
	}
	return found == size;
}

static inline void world_space_free(void *device, void *space)
{
	struct world *world = device;
	struct world_space *s = space;

	world_take(world, s, 0, UINT64_MAX);
	s->used = false;
}

static inline int world_map(void *device, void *space, uint64_t at, const uint32_t *pages,
			    size_t count, uint64_t page_size, struct sgpu_error *error)
{
	static const uint8_t zeros[WORLD_SMALL];
	struct world *world = device;
	uint64_t per_page = page_size / WORLD_SMALL;
	struct world_space *s = space;

	if (world_fails(world)) {
		return world_fault(error);
	}
	for (size_t i = 0; i < count; i++) {
		for (uint64_t k = 0; k < per_page; k++) {
			uint64_t frame = pages[i] + k;

			if (frame >= WORLD_FRAMES - WORLD_HIDDEN) {
				world_break(world, "a hidden or missing page was mapped");
				return world_fault(error);
			}
			if (world->frames[frame].space) {
				world_break(world, "a page was mapped at two places");
			}
			if (memcmp(world->memory[frame], zeros, WORLD_SMALL) != 0) {
				world_break(world, "a page was mapped with somebody's data in it");
			}
			world->frames[frame] =
				(struct world_frame){ s, at + i * page_size + k * WORLD_SMALL };
			world->changes++;
			/* Its owner uses it at once. */
			memset(world->memory[frame], 0xa5, WORLD_SMALL);
		}
	}
	return SGPU_OK;
}

static inline int world_unmap(void *device, void *space, uint64_t at, uint64_t size,
			      struct sgpu_error *error)
{
	struct world *world = device;

	if (world_fails(world)) {
		return world_fault(error);
	}
	if (!world_has(world, space, at, size)) {
		world_break(world, "what is not mapped was unmapped");
	}
	world_take(world, space, at, size);
	return SGPU_OK;
}

static inline int world_clear(void *device, void *space, uint64_t at, uint64_t size,
			      struct sgpu_error *error)
{
	struct world *world = device;

	if (world_fails(world)) {
		return world_fault(error);
	}
	if (!world_has(world, space, at, size) || !((struct world_space *)space)->on) {
		world_break(world, "what is not mapped or not reachable was cleared");
	}
	for (int i = 0; i < WORLD_FRAMES; i++) {
		if (world->frames[i].space == space && world->frames[i].at >= at &&
		    world->frames[i].at - at < size) {
			memset(world->memory[i], 0, WORLD_SMALL);
		}
	}
	return SGPU_OK;
}

static inline int world_access(void *device, void *space, bool on, struct sgpu_error *error)
{
	struct world *world = device;
	struct world_space *s = space;

	if (world_fails(world)) {
		return world_fault(error);
	}
	for (int i = 0; on && i < WORLD_SPACES; i++) {
		if (world->spaces[i].used && world->spaces[i].on && &world->spaces[i] != s) {
			world_break(world, "two contexts can be reached at once");
		}
	}
	s->on = on;
	return SGPU_OK;
}

/* The frame that a space has at an offset, or -1. */
static inline int world_frame_at(const struct world *world, const void *space, uint64_t at)
{
	for (int i = 0; i < WORLD_FRAMES; i++) {
		if (world->frames[i].space == space && at >= world->frames[i].at &&
		    at - world->frames[i].at < WORLD_SMALL) {
			return i;
		}
	}
	return -1;
}

static inline uint8_t *world_byte(struct world *world, const void *space, uint64_t at)
{
	int frame = world_frame_at(world, space, at);

	if (frame < 0) {
		world_break(world, "memory was touched that is not mapped");
		return NULL;
	}
	return &world->memory[frame][at % WORLD_SMALL];
}

static inline int world_measure(void *device, void *space, uint64_t at, uint64_t size,
				const uint8_t *key, uint8_t digest[SGPU_KT128_SIZE],
				struct sgpu_error *error)
{
	struct world *world = device;
	uint8_t *copy;

	if (world_fails(world)) {
		return world_fault(error);
	}
	copy = malloc(size ? size : 1);

	for (uint64_t i = 0; copy && i < size; i++) {
		const uint8_t *byte = world_byte(world, space, at + i);

		copy[i] = byte ? *byte : 0;
	}
	if (!copy) {
		return sgpu_fail_nomem(error);
	}
	sgpu_measure_pages(copy, size, key, digest);
	free(copy);
	return SGPU_OK;
}

static inline struct sgpu_device *world_device(struct world *world)
{
	const struct sgpu_pager pager = {
		.device = world,
		.info = { .small = WORLD_SMALL,
			  .big = WORLD_SMALL * WORLD_RATIO,
			  .total = WORLD_FRAMES * WORLD_SMALL },
		.space_create = world_space_create,
		.space_free = world_space_free,
		.map = world_map,
		.unmap = world_unmap,
		.clear = world_clear,
		.access = world_access,
		.measure = world_measure,
	};

	return paged_device(&world->device, &pager);
}

static inline const struct sgpu_processor_config *world_config(void)
{
	static const struct sgpu_processor_config config = {
		.frames = WORLD_FRAMES - WORLD_HIDDEN,
		.space_size = 3ull * SGPU_CHANNEL_ENTRIES * WORLD_SMALL,
	};

	return &config;
}

#endif
